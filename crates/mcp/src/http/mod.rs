//! `/mcp` of the server: streamable HTTP without sessions. This file answers what the contract
//! fixes; every other message goes to the SDK. `loopback` sends the tools' requests into the
//! server's own routes, `rate` counts calls, `metadata` tells OAuth clients where to get a token.

mod loopback;
mod message;
mod metadata;
mod rate;

use std::sync::Arc;

use axum::{
    Router,
    body::{Body, HttpBody},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use pandastack_door::http::{
    Answer, RequestCredential, RequestId, Routes, bearer, ensure_trace, frame, no_method, public_base, whole_body,
};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{Caller, ControlPort};
use rmcp::{
    model::ProtocolVersion,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::{Value, json};

use crate::{
    limits::{CALLS_PER_MINUTE, MESSAGE_BYTES_MAX},
    server::{RequestApi, ToolServer, introduction},
};
use loopback::LoopbackApi;
use message::{Incoming, RpcFault};
use rate::CallRates;

/// Version of clients that name none.
const VERSION_DEFAULT: &str = "2025-03-26";
const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const EVENT_STREAM: &str = "text/event-stream";

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct McpSettings {
    /// Tool calls of one workspace in one minute; 0 means no limit.
    pub calls_per_minute: u32,
    /// Address of this server for its clients; by default the one that they used.
    pub public_url: Option<String>,
    /// Issuers whose tokens this server accepts.
    pub issuers: Vec<String>,
}

impl Default for McpSettings {
    fn default() -> Self {
        Self { calls_per_minute: CALLS_PER_MINUTE, public_url: None, issuers: Vec::new() }
    }
}

/// The routes of this room. Clones share one state.
#[derive(Clone)]
pub struct McpDoor {
    control: Arc<dyn ControlPort>,
    /// The routes of the server, with everything that a request from outside passes.
    app: Router,
    settings: Arc<McpSettings>,
    rates: Arc<CallRates>,
    protocol: StreamableHttpService<ToolServer, NeverSessionManager>,
}

impl McpDoor {
    /// Creates the door in front of the server's routes.
    fn new(control: Arc<dyn ControlPort>, app: Router, settings: McpSettings) -> Self {
        // Bearer tokens are no ambient authority: a page that is rebound to this address has none.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_sse_retry(None)
            .with_max_request_body_bytes(2 * MESSAGE_BYTES_MAX);
        let server = ToolServer { api: None, filter: Arc::default() };
        let protocol = StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config);
        Self { control, app, settings: Arc::new(settings), rates: Arc::default(), protocol }
    }

    /// Adds the routes of this room to those of the server, which have passed the guard. The guard
    /// is put around them too.
    pub fn add_to(
        app: Router,
        control: Arc<dyn ControlPort>,
        settings: McpSettings,
        guard: impl FnOnce(Router) -> Router,
    ) -> Router {
        let door = Self::new(control, app.clone(), settings);
        app.merge(guard(door.router()))
    }

    /// Returns the routes with the frame around them.
    fn router(&self) -> Router {
        let routes = Self::routes().into_router().method_not_allowed_fallback(no_method);
        frame(routes).layer(from_fn_with_state(self.clone(), challenge)).with_state(self.clone())
    }

    /// Returns every path of this room. The API document is compared with this list.
    pub fn paths() -> Vec<&'static str> {
        Self::routes().paths().to_vec()
    }

    fn routes() -> Routes<Self> {
        Routes::new()
            .route("/mcp", post(answer))
            .route("/v1/mcp", post(answer))
            .route(metadata::PATH, get(metadata::show))
    }

    /// Returns the address of this server for a client.
    fn base(&self, headers: &HeaderMap, uri: &axum::http::Uri) -> String {
        match &self.settings.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => public_base(headers, uri),
        }
    }

    /// Returns the caller. The guard has authenticated it; a bad credential is refused here.
    async fn caller(&self, parts: &Parts) -> Result<Caller, Fault> {
        let credential = RequestCredential::of(parts);
        // A cookie is sent by any page; the settings above rely on credentials that are not.
        if credential.get().token.is_some() && bearer(&parts.headers, &parts.uri).is_none() {
            let text = "a browser's session does not work here: send an API key in the Authorization header";
            return Err(Fault::new(FaultKind::Unauthorized, "unauthorized", text));
        }
        match parts.extensions.get::<Caller>() {
            Some(caller) => Ok(caller.clone()),
            None => self.control.authenticate(credential.get()).await,
        }
    }
}

/// Tells a caller without a credential where to get one.
async fn challenge(State(door): State<McpDoor>, request: Request, next: Next) -> Response {
    let base = door.base(request.headers(), request.uri());
    let mut response = next.run(request).await;
    let text = format!("Bearer resource_metadata=\"{base}{}\"", metadata::PATH);
    if response.status() == StatusCode::UNAUTHORIZED
        && let Ok(value) = HeaderValue::from_str(&text)
    {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

/// Answers one message.
async fn answer(State(door): State<McpDoor>, mut request: Request) -> Answer {
    let trace = ensure_trace(&mut request);
    let (parts, body) = request.into_parts();
    let caller = door.caller(&parts).await?;
    let bytes = message_body(body).await?;
    let incoming = match Incoming::parse(&bytes) {
        Ok(incoming) => incoming,
        Err(fault) => return Ok(fault.response(StatusCode::BAD_REQUEST, &Value::Null)),
    };
    let Incoming::Request { id, method, params, mut message } = incoming else {
        // A notification, or an answer to a request that this server never sends.
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    if let Err(fault) = message::check_params(&method, params.as_ref()) {
        return Ok(fault.response(StatusCode::OK, &id));
    }
    match method.as_str() {
        "initialize" => return Ok(result(&id, &hello(params.as_ref()))),
        "ping" => return Ok(result(&id, &json!({}))),
        "tools/call" => {
            if let Err(fault) = door.rates.take(&caller.workspace, door.settings.calls_per_minute) {
                return Ok(fault.response(StatusCode::OK, &id));
            }
        }
        _ => {}
    }
    if !accepts_events(&parts.headers) {
        // Progress needs a stream, which this client would not understand.
        message::drop_progress(&mut message);
    }
    let api = LoopbackApi::new(door.app.clone(), &parts, &trace);
    let inner = forwarded(&parts, &message, RequestApi(Arc::new(api)));
    Ok(door.protocol.handle(inner).await.map(Body::new))
}

/// Reads a message within the limit of this route.
async fn message_body(body: Body) -> Result<axum::body::Bytes, Fault> {
    let too_large = || {
        let text = format!("the message is larger than {MESSAGE_BYTES_MAX} bytes; write large files in parts");
        Fault::new(FaultKind::TooLarge, "body.too_large", text)
    };
    if body.size_hint().lower() > MESSAGE_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let bytes = whole_body(body).await?;
    if bytes.len() > MESSAGE_BYTES_MAX { Err(too_large()) } else { Ok(bytes) }
}

/// Introduces this server in the client's version. The tools are the same in all versions.
fn hello(params: Option<&Value>) -> Value {
    let asked = params.and_then(|params| params.get("protocolVersion")).and_then(Value::as_str);
    let mut hello = serde_json::to_value(introduction()).unwrap_or_default();
    hello["protocolVersion"] = json!(asked.unwrap_or(VERSION_DEFAULT));
    hello
}

fn result(id: &Value, result: &Value) -> Response {
    axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response()
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains(EVENT_STREAM))
}

/// Makes the request for the SDK, with headers that it demands and simple clients do not send.
fn forwarded(parts: &Parts, message: &Value, api: RequestApi) -> axum::http::Request<Body> {
    let mut inner = axum::http::Request::new(Body::from(message.to_string()));
    *inner.method_mut() = Method::POST;
    let headers = inner.headers_mut();
    for (name, value) in parts.headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-")) {
        headers.append(name.clone(), value.clone());
    }
    // Any version is accepted at the start, so one that the SDK does not know is not repeated.
    let is_known =
        |version: &HeaderValue| ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| version == known.as_str());
    if !headers.get(VERSION_HEADER).is_some_and(is_known) {
        headers.remove(VERSION_HEADER);
    }
    headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    inner.extensions_mut().insert(api);
    if let Some(id) = parts.extensions.get::<RequestId>() {
        inner.extensions_mut().insert(id.clone());
    }
    inner
}

impl RpcFault {
    /// Writes the error as an answer.
    fn response(&self, status: StatusCode, id: &Value) -> Response {
        let error = json!({"code": self.code, "message": self.text});
        (status, axum::Json(json!({"jsonrpc": "2.0", "id": id, "error": error}))).into_response()
    }
}
