//! The routes of the test provider.

use std::{borrow::Cow, collections::HashMap, convert::Infallible, sync::Arc};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, LOCATION},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use pandastack_kit::{Scope, random_hex};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use url::{Url, form_urlencoded};

use super::{IssuedCode, ProviderShared, TokenDefect};

type Answer = Response<Full<Bytes>>;
type Form = HashMap<String, String>;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 64 * 1024;

pub(super) async fn serve(listener: TcpListener, shared: Arc<ProviderShared>, scope: Scope) {
    let token = scope.token();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = token.cancelled() => return,
        };
        if let Ok((stream, _)) = accepted
            && !shared.lock().is_down
        {
            scope.start("test provider connection", connection(stream, shared.clone()));
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<ProviderShared>) {
    let service = service_fn(move |request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(route(&shared, request).await) }
    });
    // A client that hangs up is none of the provider's business.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn route(shared: &ProviderShared, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    *shared.lock().requests.entry(path.clone()).or_default() += 1;
    match (request.method(), path.as_str()) {
        (&Method::GET, "/.well-known/openid-configuration") => answer(StatusCode::OK, &metadata(shared)),
        (&Method::GET, "/keys") => answer(StatusCode::OK, &shared.lock().keys.public()),
        (&Method::GET, "/authorize") => authorize(shared, &form(request.uri().query().unwrap_or_default().as_bytes())),
        (&Method::POST, "/token") => {
            let (head, body) = request.into_parts();
            match Limited::new(body, BODY_BYTES_MAX).collect().await {
                Ok(body) => token(shared, &head.headers, form(&body.to_bytes())),
                Err(_) => refuse("invalid_request"),
            }
        }
        _ => answer(StatusCode::NOT_FOUND, &json!({ "error": "not_found" })),
    }
}

fn metadata(shared: &ProviderShared) -> Value {
    let issuer = shared.issuer();
    json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256", "RS256"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": [shared.setup.client_proof],
        "authorization_response_iss_parameter_supported": true,
    })
}

/// Signs the preset user in, and sends the browser back with a code.
fn authorize(shared: &ProviderShared, query: &Form) -> Answer {
    let of = |name: &str| query.get(name).map(String::as_str).unwrap_or_default();
    let is_ours = of("client_id") == shared.setup.client_id && of("redirect_uri") == shared.setup.redirect_url;
    let is_code = of("response_type") == "code" && of("scope").split(' ').any(|scope| scope == "openid");
    let has_challenge = of("code_challenge").len() == 43 && of("code_challenge_method") == "S256";
    if !is_ours || !is_code || !has_challenge || of("state").is_empty() {
        return refuse("invalid_request");
    }
    let Ok(mut to) = Url::parse(of("redirect_uri")) else { return refuse("invalid_request") };
    let mut state = shared.lock();
    to.query_pairs_mut().append_pair("state", of("state")).append_pair("iss", &shared.issuer());
    if state.denies {
        to.query_pairs_mut().append_pair("error", "access_denied").append_pair("error_description", "not you");
    } else {
        let code = random_hex::<16>();
        let issued = IssuedCode {
            nonce: of("nonce").to_owned(),
            challenge: of("code_challenge").to_owned(),
            redirect_uri: of("redirect_uri").to_owned(),
        };
        to.query_pairs_mut().append_pair("code", &code);
        state.codes.insert(code, issued);
    }
    let mut answer = answer(StatusCode::FOUND, &Value::Null);
    answer.headers_mut().insert(LOCATION, to.as_str().parse().expect("a URL is a valid header"));
    answer
}

/// Exchanges a code once, for the client that proves itself and knows the verifier.
fn token(shared: &ProviderShared, headers: &HeaderMap, form: Form) -> Answer {
    let of = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let wanted = (shared.setup.client_id.as_str().into(), shared.setup.client_secret.as_str().into());
    if proof(shared.setup.client_proof, headers, &form) != Some(wanted) {
        return answer(StatusCode::UNAUTHORIZED, &json!({ "error": "invalid_client" }));
    }
    let mut state = shared.lock();
    let issued = state.codes.remove(of("code"));
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(of("code_verifier")));
    let accepted = issued.filter(|issued| {
        issued.challenge == challenge
            && issued.redirect_uri == of("redirect_uri")
            && of("grant_type") == "authorization_code"
    });
    let Some(issued) = accepted else {
        return answer(
            StatusCode::BAD_REQUEST,
            &json!({ "error": "invalid_grant", "error_description": "code not valid" }),
        );
    };
    let mut body = json!({ "access_token": random_hex::<16>(), "token_type": "Bearer", "expires_in": 300 });
    if state.defect != Some(TokenDefect::Missing) {
        body["id_token"] = json!(state.token(&shared.claims(&state, Some(&issued.nonce))));
    }
    answer(StatusCode::OK, &body)
}

/// Id and secret of the client, from the place that the provider wants them in.
fn proof<'a>(method: &str, headers: &HeaderMap, form: &'a Form) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
    if method == "client_secret_post" {
        let of = |name: &str| Some(Cow::Borrowed(form.get(name)?.as_str()));
        return Some((of("client_id")?, of("client_secret")?));
    }
    let basic = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let basic = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
    let (id, secret) = basic.split_once(':')?;
    let decode = |text: &str| form_urlencoded::parse(text.as_bytes()).next().map(|(name, _)| name.into_owned());
    Some((decode(id)?.into(), decode(secret)?.into()))
}

fn form(bytes: &[u8]) -> Form {
    form_urlencoded::parse(bytes).into_owned().collect()
}

fn refuse(error: &str) -> Answer {
    answer(StatusCode::BAD_REQUEST, &json!({ "error": error }))
}

fn answer(status: StatusCode, body: &Value) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, "application/json".parse().expect("a plain header"));
    answer
}
