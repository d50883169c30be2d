//! The data door: moves bytes to and from sandboxes. Holds no business rules: control decides about
//! access, and the host serves. Bodies of files and ports are streamed. Collected output has a
//! shared memory budget.

mod access;
mod broker_tokens;
mod databases;
mod diff;
mod exec;
mod files;
pub mod limits;
mod logs;
mod mcp;
mod preview;
mod processes;
mod proxy;
mod repl;
mod socket;

use std::sync::Arc;

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{any, delete, get, post},
};
use pandastack_door::http::{Routes, bare_frame, frame, no_method};
use pandastack_door::{PlaceKind, Places};
pub use pandastack_door::{ServeSettings, serve, serve_with};
use pandastack_kit::Scope;
use pandastack_model::PreviewSuffix;
use pandastack_postgres_broker::{Broker, limits::RUNNING_MAX};
use pandastack_wire_fleet::{ControlPort, HostPort};

use crate::{broker_tokens::BrokerTokens, exec::OutputBudget, socket::OpenSockets};

const QUERIES: PlaceKind = PlaceKind { name: "running queries", quota: "quota.queries", full: "query.too_many" };
const FOLLOWERS: PlaceKind = PlaceKind { name: "followed logs", quota: "quota.followers", full: "logs.too_many" };

/// The edge. Clones share one state.
#[derive(Clone)]
pub struct Edge {
    control: Arc<dyn ControlPort>,
    host: Arc<dyn HostPort>,
    /// Memory budget for collected output of all commands.
    budget: OutputBudget,
    /// Scope of the tasks of connections to guests.
    scope: Scope,
    /// The domain of public previews, if they are served.
    suffix: Option<PreviewSuffix>,
    sockets: OpenSockets,
    /// Places of requests that follow consoles.
    followers: Places,
    /// Places of connections with an open request.
    connections: Places,
    /// Places of comparisons of two sandboxes.
    diffs: Places,
    /// SQL over HTTP.
    broker: Broker,
    /// Places of its requests.
    queries: Places,
    /// Tokens of databases that were right or wrong.
    broker_tokens: Arc<BrokerTokens>,
}

impl Edge {
    /// Creates an edge between a control plane and a host. Connections that outlive their request
    /// run in the scope.
    pub fn new(control: Arc<dyn ControlPort>, host: Arc<dyn HostPort>, scope: Scope) -> Self {
        let (budget, sockets) = (OutputBudget::new(limits::COLLECTED_BYTES_MAX), OpenSockets::new(scope.clone()));
        let followers = Places::new(FOLLOWERS, limits::FOLLOWERS_MAX);
        let connections = ServeSettings::default().places();
        let diffs = Places::new(diff::DIFFS, limits::DIFFS_AT_ONCE);
        let databases = databases::HostDatabases { host: host.clone(), control: control.clone() };
        let broker = Broker::new(Arc::new(databases), scope.clone());
        let queries = Places::new(QUERIES, RUNNING_MAX);
        let broker_tokens = Arc::default();
        Self {
            control,
            host,
            budget,
            scope,
            suffix: None,
            sockets,
            followers,
            connections,
            diffs,
            broker,
            queries,
            broker_tokens,
        }
    }

    /// Serves public previews below a domain.
    pub fn with_previews(self, suffix: PreviewSuffix) -> Self {
        Self { suffix: Some(suffix), ..self }
    }

    /// Sets the limits of sockets and followers. Call it before the first request.
    pub fn with_room(mut self, sockets: usize, followers: usize) -> Self {
        self.sockets = OpenSockets::with_room(self.scope.clone(), sockets);
        Self { followers: Places::new(FOLLOWERS, followers), ..self }
    }

    /// Shares the places of connections with another room's routes. Call it before the first
    /// request.
    pub fn with_connections(self, connections: Places) -> Self {
        Self { connections, ..self }
    }

    /// Puts public previews in front of an app. Requests for previews do not reach the app.
    pub fn before(&self, app: Router) -> Router {
        app.layer(from_fn_with_state(self.clone(), preview::by_host))
    }

    /// Returns the routes of this room with the frame around them. Unknown paths are left to
    /// control.
    pub fn router(&self) -> Router {
        self.router_around(|routes| routes)
    }

    /// Like `router`, with a layer of another room between the frame and the routes. The layer does
    /// not apply to requests that are passed through to a guest.
    pub fn router_around(&self, layer: impl FnOnce(Router<Self>) -> Router<Self>) -> Router {
        let routes = Self::routes().into_router().method_not_allowed_fallback(no_method);
        let passed = Self::passed().into_router();
        frame(layer(routes)).merge(bare_frame(passed)).with_state(self.clone())
    }

    /// Returns every path of this room. The API document is compared with this list.
    pub fn paths() -> Vec<&'static str> {
        [Self::routes().paths(), Self::passed().paths()].concat()
    }

    fn routes() -> Routes<Self> {
        Routes::new()
            .route("/v1/sandboxes/{id}/exec", post(exec::whole))
            .route("/v1/sandboxes/{id}/exec/stream", post(exec::stream))
            .route("/v1/sandboxes/{id}/exec/ws", get(socket::exec))
            .route("/v1/sandboxes/{id}/exec/pty", get(socket::pty))
            .route("/v1/sandboxes/{id}/ssh", get(socket::ssh))
            .route("/v1/sandboxes/{id}/logs", get(logs::logs))
            .route("/v1/sandboxes/{id}/fs", get(files::read).put(files::write).delete(files::delete))
            .route("/v1/sandboxes/{id}/fs/dir", get(files::list))
            .route("/v1/sandboxes/{id}/fs/stat", get(files::stat))
            .route("/v1/sandboxes/{id}/fs/mkdir", post(files::mkdir))
            .route("/v1/sandboxes/{id}/fs/move", post(files::move_path))
            .route("/v1/sandboxes/{id}/fs/chmod", post(files::chmod))
            .route("/v1/sandboxes/{id}/fs/watch", get(files::watch))
            .route("/v1/sandboxes/{id}/fs/tar", get(files::pack).put(files::unpack))
            .route("/v1/sandboxes/{id}/processes", get(processes::list).post(processes::start))
            .route("/v1/sandboxes/{id}/processes/{process}", get(processes::get).delete(processes::forget))
            .route("/v1/sandboxes/{id}/processes/{process}/output", get(processes::output))
            .route("/v1/sandboxes/{id}/processes/{process}/stdin", post(processes::feed))
            .route("/v1/sandboxes/{id}/processes/{process}/signal", post(processes::signal))
            .route("/v1/sandboxes/{id}/repl", post(repl::once))
            .route("/v1/sandboxes/{id}/repl/sessions", get(repl::list).post(repl::open))
            .route("/v1/sandboxes/{id}/repl/sessions/{session}", delete(repl::close))
            .route("/v1/sandboxes/{id}/repl/sessions/{session}/run", post(repl::cell))
            .route("/v1/sandboxes/{id}/diff", get(diff::diff))
            .route("/v1/sandboxes/{id}/mcp", post(mcp::mcp))
            .route("/v1/repl/languages", get(repl::languages))
            .route("/repl/languages", get(repl::languages))
    }

    /// Routes whose answers come from a guest. The edge adds nothing to them.
    fn passed() -> Routes<Self> {
        Routes::new()
            .route("/v1/sandboxes/{id}/proxy/{port}", any(proxy::proxy))
            .route("/v1/sandboxes/{id}/proxy/{port}/", any(proxy::proxy))
            .route("/v1/sandboxes/{id}/proxy/{port}/{*path}", any(proxy::proxy))
            .route("/v1/databases/{id}/proxy/{*path}", any(databases::broker))
            .route("/v1/p/{token}", any(preview::moved))
            .route("/v1/p/{token}/", any(preview::moved))
            .route("/v1/p/{token}/{*path}", any(preview::moved))
    }
}
