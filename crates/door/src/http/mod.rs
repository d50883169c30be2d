//! HTTP code that both doors share. Knows no sandboxes and no tenants.

mod base;
mod body;
mod cookie;
mod credential;
mod frame;
mod path;
mod refused;
mod routes;
mod stream;
mod trace;

pub use base::{base_of, forwarded_proto, public_base};
pub use body::{flag, json_body, optional_json_body, query_time, query_value, whole_body};
pub use cookie::{
    CSRF, CookieSession, SESSION_COOKIE, SESSION_COOKIE_TLS, check_marked, check_own_page, clear_session,
    cookie_values, is_data, is_session_cookie, not_our_page, store_session,
};
pub use credential::{RequestCredential, bearer, socket_protocol};
pub use frame::{
    RequestId, bare_frame, ensure_request_id, frame, no_method, no_route, pass, preflight, refuse, refuse_workspace,
};
pub use path::SandboxPath;
pub use refused::{Answer, Refused, log_fault};
pub use routes::Routes;
pub use stream::event_stream;
pub use trace::{RequestTrace, TRACEPARENT, ensure_trace, trace_header};
