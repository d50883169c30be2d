//! SQL over HTTP: `/v1/databases/{id}/proxy/{path}`. Checks the token of the database and leaves
//! the rest to the broker.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    extract::{FromRequestParts, Path, Request, State},
    http::Method,
    response::{IntoResponse, Response},
};
use pandastack_door::http::{Answer, SandboxPath, bearer};
use pandastack_kit::Secret;
use pandastack_model::{Fault, FaultKind, GuestPort, SandboxId, SandboxState};
use pandastack_postgres_broker::{Connect, ConnectRefused, DatabaseStream, Login, unhealthy};
use pandastack_wire_fleet::{ControlPort, HostPort};
use pandastack_wire_public::DATABASE_ROLE;

use crate::Edge;

/// Where PostgreSQL listens in the machine of a database.
const POSTGRES_PORT: i64 = 5432;
/// The code of a port in a machine that nobody listens on.
const NOT_LISTENING: &str = "port.not_listening";
/// The only path without a token.
const HEALTH: &str = "v1/health";

/// Answers a query.
pub async fn broker(State(edge): State<Edge>, request: Request) -> Answer<Response> {
    let (mut parts, body) = request.into_parts();
    let missing = || Fault::new(FaultKind::Missing, "database.not_found", "database not found");
    let SandboxPath(id) = SandboxPath::from_request_parts(&mut parts, &edge).await.map_err(|_| missing())?;
    let path = Path::<(String, String)>::from_request_parts(&mut parts, &edge).await;
    let path = path.map(|Path((_, path))| path).unwrap_or_default();
    let login = if path == HEALTH && parts.method == Method::GET {
        match edge.control.admit_database(id).await {
            Ok(login) => login,
            Err(fault) if fault.kind == FaultKind::Missing => return Err(fault.into()),
            // Why it cannot be used is not for strangers.
            Err(_) => return Ok(unhealthy()),
        }
    } else {
        let token = bearer(&parts.headers, &parts.uri);
        let none = || Fault::new(FaultKind::Unauthorized, "database.bad_token", "the request has no broker token");
        edge.control.open_broker(id, &token.ok_or_else(none)?).await?
    };
    let login = Login { user: login.user, password: Secret::new(login.password), database: DATABASE_ROLE.to_owned() };
    Ok(edge.broker.answer(&id.to_string(), login, &parts.method, &path, body).await.into_response())
}

/// Streams to PostgreSQL in the machines of a host.
pub struct HostDatabases {
    pub host: Arc<dyn HostPort>,
    pub control: Arc<dyn ControlPort>,
}

#[async_trait]
impl Connect for HostDatabases {
    async fn connect(&self, machine: &str) -> Result<Box<dyn DatabaseStream>, ConnectRefused> {
        let refused = |reason: String| ConnectRefused { reason };
        let id: SandboxId = machine.parse().map_err(|_| refused("the database does not exist".to_owned()))?;
        let port = GuestPort::try_from(POSTGRES_PORT).map_err(|error| refused(error.to_string()))?;
        let stream = match self.host.connect(id, port).await {
            // The machine runs, but its server does not.
            Err(fault) if fault.code == NOT_LISTENING => {
                self.control.revive_database(id).await.map_err(|fault| refused(fault.text))?;
                self.host.connect(id, port).await
            }
            connected => connected,
        };
        Ok(Box::new(stream.map_err(|fault| refused(fault.text))?))
    }

    async fn connect_awake(&self, machine: &str) -> Result<Box<dyn DatabaseStream>, ConnectRefused> {
        let id = machine.parse::<SandboxId>().ok();
        let state = match id {
            Some(id) => self.host.observe(id).await.map(|seen| seen.state),
            None => None,
        };
        match state {
            Some(SandboxState::Running) => self.connect(machine).await,
            _ => Err(ConnectRefused { reason: "the database sleeps".to_owned() }),
        }
    }
}
