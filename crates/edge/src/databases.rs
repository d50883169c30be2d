//! SQL over HTTP: `/v1/databases/{id}/proxy/{path}`. Checks the token of the database and leaves
//! the rest to the broker.

use std::sync::Arc;

use async_trait::async_trait;
use axum::{
    extract::{FromRequestParts, Path, Request, State},
    http::Method,
    response::Response,
};
use pandastack_door::{
    http::{Answer, SandboxPath, bearer},
    occupy,
};
use pandastack_kit::Secret;
use pandastack_model::{Fault, FaultKind, GuestPort, SandboxId};
use pandastack_postgres_broker::{BrokerTarget, Connect, ConnectRefused, DatabaseStream, Login, unhealthy};
use pandastack_wire_fleet::{ControlPort, DatabaseLogin, HostPort, UseKind};
use pandastack_wire_public::DATABASE_ROLE;

use crate::{
    Edge,
    broker_tokens::TokenVerdict,
    limits::{BROKER_CALLS_MAX, BROKER_HEALTH_CALLS_MAX},
};

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
    // Places are taken only once the database is known to exist: the id may be made up.
    let (login, places) = if path == HEALTH && parts.method == Method::GET {
        let login = match edge.control.admit_database(id).await {
            Ok(login) => login,
            Err(fault) if fault.kind == FaultKind::Missing => return Err(fault.into()),
            // Why it cannot be used is not for strangers.
            Err(_) => return Ok(unhealthy()),
        };
        let place = edge.connections.take_apart(&format!("health of database {id}"), BROKER_HEALTH_CALLS_MAX)?;
        (login, [Some(place), None])
    } else {
        let token = bearer(&parts.headers, &parts.uri);
        let none = || Fault::new(FaultKind::Unauthorized, "database.bad_token", "the request has no broker token");
        let login = edge.broker_login(id, &token.ok_or_else(none)?).await?;
        let place = edge.connections.take_apart(&format!("database {id}"), BROKER_CALLS_MAX)?;
        // Many databases of one workspace leave room for those of others.
        let query = edge.queries.take(Some(&login.workspace))?;
        (login, [Some(place), Some(query)])
    };
    let owner = login.workspace.0;
    let login = Login { user: login.user, password: Secret::new(login.password), database: DATABASE_ROLE.to_owned() };
    let machine = id.to_string();
    let target = BrokerTarget { machine: &machine, owner: &owner };
    let response = edge.broker.answer(target, login, &parts.method, &path, body).await;
    Ok(places.into_iter().fold(response, |response, place| occupy(response, place, None)))
}

impl Edge {
    /// Checks the token of a database's broker.
    async fn broker_login(&self, id: SandboxId, token: &str) -> Result<DatabaseLogin, Fault> {
        self.broker_tokens.check(id, token)?;
        let opened = self.control.open_broker(id, token).await;
        match &opened {
            Ok(_) => self.broker_tokens.note(id, token, TokenVerdict::Right),
            Err(fault) if fault.kind == FaultKind::Unauthorized => {
                self.broker_tokens.note(id, token, TokenVerdict::Wrong);
            }
            // The database does not exist or cannot be used, or the check itself failed.
            Err(_) => {}
        }
        opened
    }
}

/// Streams to PostgreSQL in the machines of a host.
pub struct HostDatabases {
    pub host: Arc<dyn HostPort>,
    pub control: Arc<dyn ControlPort>,
}

#[async_trait]
impl Connect for HostDatabases {
    async fn connect(&self, machine: &str) -> Result<Box<dyn DatabaseStream>, ConnectRefused> {
        let (id, port) = postgres_of(machine)?;
        let stream = match self.host.connect(id, port).await {
            // The machine runs, but its server does not.
            Err(fault) if fault.code == NOT_LISTENING => {
                self.control.revive_database(id).await.map_err(refused)?;
                self.host.connect(id, port).await
            }
            connected => connected,
        };
        Ok(Box::new(stream.map_err(refused)?))
    }

    async fn connect_awake(&self, machine: &str) -> Result<Box<dyn DatabaseStream>, ConnectRefused> {
        let (id, port) = postgres_of(machine)?;
        // A client's use would keep the database awake, and wake one that is about to sleep.
        let stream = self.host.connect_as(id, port, UseKind::Platform).await;
        Ok(Box::new(stream.map_err(refused)?))
    }
}

fn postgres_of(machine: &str) -> Result<(SandboxId, GuestPort), ConnectRefused> {
    let id = machine.parse().map_err(|_| ConnectRefused { reason: "the database does not exist".to_owned() })?;
    let port = GuestPort::try_from(POSTGRES_PORT);
    Ok((id, port.map_err(|error| ConnectRefused { reason: error.to_string() })?))
}

fn refused(fault: Fault) -> ConnectRefused {
    ConnectRefused { reason: fault.text }
}
