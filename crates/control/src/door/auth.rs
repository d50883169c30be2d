//! Logins, sessions and passwords.

use std::{convert::Infallible, net::Ipv4Addr};

use axum::{
    Json,
    body::Body,
    extract::{FromRequestParts, Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header, request::Parts},
    response::{IntoResponse, Response},
};
use pandastack_door::http::{
    Answer, Refused, RequestId, bearer, clear_session, cookie_values, forwarded_proto, json_body, public_base,
    query_value,
};
use pandastack_identity::{EmailAddress, EmailError, LoginCallback};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_public::{
    AskReset, ChangePassword, ExchangeCode, LogIn, LoginMethods, LoginSession, Register, ResetPassword, SetUp,
    SignInLink, UseLink, rfc3339,
};

use super::{
    caller::{Authenticated, Person},
    new_session::LoginHead,
};
use crate::{
    Control,
    app::{LinkPurpose, LoginOrigin, NewLink},
    limits::AGENT_BYTES_MAX,
    store::key_id,
};

/// The cookie of a login at the identity provider.
const LOGIN_COOKIE: &str = "pandastack_login";
/// The only path that gets it, and how long.
const LOGIN_COOKIE_SCOPE: &str = "HttpOnly; SameSite=Lax; Path=/v1/auth/oidc; Max-Age=600";
/// Hex digits of a session's id, which is the start of its hash.
const SESSION_ID_HEX: usize = 16;

/// Shows how people can log in.
pub async fn methods(State(control): State<Control>) -> Answer<Json<LoginMethods>> {
    Ok(Json(control.login_methods().await?))
}

/// Makes the first account.
pub async fn set_up(
    State(control): State<Control>,
    caller: Result<Authenticated, Refused>,
    origin: LoginOrigin,
    head: LoginHead,
    body: Body,
) -> Answer<Response> {
    let (ask, caller) = match (json_body::<SetUp>(body).await, caller) {
        // The link stands for the key.
        (Ok(ask), _) if !ask.link.is_empty() => (ask, None),
        (ask, caller) => {
            let Authenticated(caller) = caller?;
            (ask?, Some(caller))
        }
    };
    let place = head.token_place(ask.cookie)?;
    let begun = control.set_up(caller.as_ref(), ask, &origin).await?;
    Ok(place.answer(StatusCode::CREATED, begun)?)
}

/// Makes an account with an invite.
pub async fn register(
    State(control): State<Control>,
    origin: LoginOrigin,
    head: LoginHead,
    body: Body,
) -> Answer<Response> {
    let ask: Register = json_body(body).await?;
    let place = head.token_place(ask.cookie)?;
    let begun = control.register(ask, &origin).await?;
    Ok(place.answer(StatusCode::CREATED, begun)?)
}

/// Logs in with a password.
pub async fn log_in(
    State(control): State<Control>,
    origin: LoginOrigin,
    head: LoginHead,
    body: Body,
) -> Answer<Response> {
    let ask: LogIn = json_body(body).await?;
    let place = head.token_place(ask.cookie)?;
    Ok(place.answer(StatusCode::OK, control.log_in(ask, &origin).await?)?)
}

/// Logs in with a one-time link.
pub async fn use_link(
    State(control): State<Control>,
    origin: LoginOrigin,
    head: LoginHead,
    body: Body,
) -> Answer<Response> {
    let ask: UseLink = json_body(body).await?;
    let place = head.token_place(ask.cookie)?;
    Ok(place.answer(StatusCode::OK, control.use_link(&ask.token, &origin).await?)?)
}

/// Makes a one-time link for the caller.
pub async fn make_link(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    headers: HeaderMap,
    uri: Uri,
) -> Answer<(StatusCode, Json<SignInLink>)> {
    let NewLink { token, expires_at_ns, purpose } = control.make_link(&caller).await?;
    let configured = control.sign_in.dashboard_url.as_deref().map(str::to_owned);
    let base = configured.unwrap_or_else(|| public_base(&headers, &uri));
    let link = SignInLink {
        url: format!("{base}/welcome#{}", token.reveal()),
        token: token.reveal().to_owned(),
        expires_at: rfc3339(expires_at_ns),
        setup: purpose == LinkPurpose::SetUp,
    };
    Ok((StatusCode::CREATED, Json(link)))
}

/// Ends the session of this request.
pub async fn log_out(State(control): State<Control>, person: Person, headers: HeaderMap, uri: Uri) -> Answer<Response> {
    let id = person.session().ok_or_else(not_a_session)?;
    control.end_session(&person.user, &id).await?;
    if bearer(&headers, &uri).is_some() {
        // The cookie may be of somebody else: a foreign page can send a token of its own.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, clear_session(&headers)?)]).into_response())
}

/// Lists the caller's sessions.
pub async fn sessions(State(control): State<Control>, person: Person) -> Answer<Json<Vec<LoginSession>>> {
    let (current, found) = (person.session(), control.sessions(&person.user).await?);
    let shown = found.into_iter().map(|session| {
        let id = session.hash.get(..SESSION_ID_HEX).unwrap_or_default().to_owned();
        LoginSession {
            current: current.as_deref() == Some(id.as_str()),
            id,
            created_at: rfc3339(session.created_at_ns),
            last_used_at: rfc3339(session.last_used_at_ns),
            expires_at: rfc3339(session.expires_at_ns),
            address: session.address,
            agent: session.agent,
        }
    });
    Ok(Json(shown.collect()))
}

/// Ends a session of the caller.
pub async fn end_session(
    State(control): State<Control>,
    person: Person,
    path: Result<Path<String>, PathRejection>,
) -> Answer<StatusCode> {
    let missing = || Fault::new(FaultKind::Missing, "auth.no_session", "session not found");
    let Path(id) = path.map_err(|_| missing())?;
    if id.len() != SESSION_ID_HEX {
        return Err(missing().into());
    }
    control.end_session(&person.user, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes the caller's password.
pub async fn change_password(
    State(control): State<Control>,
    person: Person,
    origin: LoginOrigin,
    head: LoginHead,
    body: Body,
) -> Answer<Response> {
    let ask: ChangePassword = json_body(body).await?;
    let place = head.token_place(ask.cookie)?;
    let begun = control.change_password(&person.user, (&ask.current_password, &ask.new_password), &origin).await?;
    Ok(place.answer(StatusCode::OK, begun)?)
}

/// Accepts a request for a reset link. The answer never tells whether there is such an account.
pub async fn ask_reset(State(control): State<Control>, body: Body) -> Answer<StatusCode> {
    let ask: AskReset = json_body(body).await?;
    let bad = |error: EmailError| Fault::new(FaultKind::Caller, "auth.bad_email", error.to_string());
    control.ask_reset(EmailAddress::parse(&ask.email).map_err(bad)?);
    Ok(StatusCode::ACCEPTED)
}

/// Sets a new password with a reset link.
pub async fn reset(State(control): State<Control>, origin: LoginOrigin, body: Body) -> Answer<StatusCode> {
    let ask: ResetPassword = json_body(body).await?;
    control.reset_password(&ask.token, &ask.password, &origin).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Sends a browser to the identity provider.
pub async fn begin_oidc(State(control): State<Control>, headers: HeaderMap, uri: Uri) -> Answer<Response> {
    let asked = |name| query_value(&uri, name).unwrap_or_default();
    let (redirect, challenge) = (asked("redirect"), asked("challenge"));
    let begun = control.begin_oidc((&redirect, &challenge), &public_base(&headers, &uri)).await?;
    let secure = if forwarded_proto(&headers) == "https" { "; Secure" } else { "" };
    let cookie = format!("{LOGIN_COOKIE}={}; {LOGIN_COOKIE_SCOPE}{secure}", begun.cookie);
    Ok(redirected(begun.url.as_str(), &cookie)?)
}

/// Ends a login in the browser that began it.
pub async fn end_oidc(State(control): State<Control>, headers: HeaderMap, uri: Uri) -> Answer<Response> {
    let named = |name| query_value(&uri, name);
    let callback = LoginCallback {
        state: named("state"),
        code: named("code"),
        error: named("error"),
        error_description: named("error_description"),
        iss: named("iss"),
    };
    let next = control.end_oidc(&callback, cookie(&headers).as_deref()).await?;
    let cleared = format!("{LOGIN_COOKIE}=; HttpOnly; SameSite=Lax; Path=/v1/auth/oidc; Max-Age=0");
    Ok(redirected(next.as_str(), &cleared)?)
}

/// Exchanges the code of a login for a session.
pub async fn exchange(
    State(control): State<Control>,
    origin: LoginOrigin,
    head: LoginHead,
    body: Body,
) -> Answer<Response> {
    let ask: ExchangeCode = json_body(body).await?;
    let place = head.token_place(ask.cookie)?;
    Ok(place.answer(StatusCode::OK, control.exchange_code((&ask.code, &ask.verifier), &origin).await?)?)
}

fn redirected(url: &str, cookie: &str) -> Result<Response, Fault> {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let value = |text: &str| HeaderValue::from_str(text).map_err(Fault::bug);
    response.headers_mut().insert(header::LOCATION, value(url)?);
    response.headers_mut().insert(header::SET_COOKIE, value(cookie)?);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    cookie_values(headers, LOGIN_COOKIE).next().map(str::to_owned)
}

impl FromRequestParts<Control> for LoginOrigin {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, control: &Control) -> Result<Self, Infallible> {
        let address = control.sign_in.proxy.client_address(&parts.headers, &parts.extensions);
        let agent = parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        Ok(Self {
            address: address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()),
            agent: agent.chars().take(AGENT_BYTES_MAX).collect(),
            request_id: parts.extensions.get::<RequestId>().map(|RequestId(id)| id.clone()).unwrap_or_default(),
            method: parts.method.as_str().to_owned(),
            // Only routes without parameters take this.
            path: parts.uri.path().to_owned(),
            at_ns: control.clock.now_ns(),
        })
    }
}

fn not_a_session() -> Fault {
    Fault::new(FaultKind::Conflict, "auth.not_a_session", "this credential is not a login; only a login can log out")
}

impl Person {
    /// Returns the id of the session of this request, if it is one.
    fn session(&self) -> Option<String> {
        let is_session = self.user.method == pandastack_wire_fleet::AuthMethod::Session;
        let id = self.caller.key.id().filter(|_| is_session)?;
        // Every credential has an id that is made of its hash.
        let start = key_id("").len();
        id.get(start..).map(str::to_owned)
    }
}
