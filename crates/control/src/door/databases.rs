//! Managed databases: create, list, get, change, connect, wake, branch, measure, delete.

use axum::{
    Json,
    body::Body,
    extract::{FromRequestParts, State},
    http::{HeaderMap, StatusCode, Uri, request::Parts},
};
use pandastack_door::http::{Answer, Refused, SandboxPath, optional_json_body, public_base, query_value};
use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState};
use pandastack_wire_public::{
    BackupDrill, BranchDatabase, ChangeDatabase, CloneDatabase, CreateDatabase, DATABASE_ROLE, DatabaseBackup,
    DatabaseBackups, DatabaseConnection, DatabaseLogs, DatabaseSleep, DatabaseStats, DatabaseWake, ManagedDatabase,
    ManagedDatabaseList, SchemaDiff, VerifyBackup, database_status,
};

use super::caller::Authenticated;
use crate::{
    Control,
    app::{DatabaseView, no_database},
    limits::{DATABASE_LOG_LINES, DATABASE_LOG_LINES_DEFAULT},
    settings::DatabaseAddresses,
};

/// What clients are told of the time that a rebuild takes. Large databases take longer.
const FAILOVER_ETA_SECONDS: u64 = 180;

/// The `{id}` of a route. Text that is not an id is answered like an unknown database.
pub struct DatabasePath(SandboxId);

impl<S: Send + Sync> FromRequestParts<S> for DatabasePath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let path = SandboxPath::from_request_parts(parts, state).await;
        path.map(|SandboxPath(id)| Self(id)).map_err(|_| no_database().into())
    }
}

/// Creates a database. The answer comes before it is ready.
pub async fn create(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
    body: Body,
) -> Answer<(StatusCode, Json<ManagedDatabase>)> {
    let spec = optional_json_body::<CreateDatabase>(body).await?.checked()?;
    let made = control.create_database(&caller, spec).await?;
    Ok((StatusCode::ACCEPTED, Json(Renderer::new(&control, (&headers, &uri)).whole(made))))
}

/// Lists the caller's databases without credentials, newest first.
pub async fn list(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
) -> Answer<Json<ManagedDatabaseList>> {
    let render = Renderer::new(&control, (&headers, &uri));
    let found = control.databases(&caller).await?;
    let items: Vec<_> = found.into_iter().map(|view| render.without_login(&view)).collect();
    Ok(Json(ManagedDatabaseList { count: items.len(), items }))
}

/// Shows one database.
pub async fn get(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
    DatabasePath(id): DatabasePath,
) -> Answer<Json<ManagedDatabase>> {
    let view = control.database(&caller, id).await?;
    Ok(Json(Renderer::new(&control, (&headers, &uri)).whole(view)))
}

/// Changes whether a database sleeps.
pub async fn change(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
    DatabasePath(id): DatabasePath,
    body: Body,
) -> Answer<Json<ManagedDatabase>> {
    let ChangeDatabase { always_on } = optional_json_body(body).await?;
    let view = control.change_database(&caller, id, always_on.map(DatabaseSleep::of_always_on)).await?;
    Ok(Json(Renderer::new(&control, (&headers, &uri)).whole(view)))
}

/// Deletes a database with its data.
pub async fn delete(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    DatabasePath(id): DatabasePath,
) -> Answer<StatusCode> {
    control.delete_database(&caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Shows how to connect.
pub async fn connection(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
    DatabasePath(id): DatabasePath,
) -> Answer<Json<DatabaseConnection>> {
    let view = control.database(&caller, id).await?;
    let shown = Renderer::new(&control, (&headers, &uri)).whole(view);
    let (Some(connection_url), Some(broker_url), Some(broker_token)) =
        (shown.connection_url, shown.broker_url, shown.broker_token)
    else {
        let text = "the database is not ready yet";
        return Err(Fault::new(FaultKind::Unavailable, "database.not_ready", text).into());
    };
    Ok(Json(DatabaseConnection { connection_url, broker_url, broker_token }))
}

/// Wakes a database.
pub async fn wake(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    DatabasePath(id): DatabasePath,
) -> Answer<Json<DatabaseWake>> {
    let state = control.wake_database(&caller, id).await?;
    let status = if state == SandboxState::Running { "running" } else { "waking" };
    Ok(Json(DatabaseWake { id: id.to_string(), status: status.to_owned() }))
}

/// Replaces the credentials.
pub async fn reset_credentials(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
    DatabasePath(id): DatabasePath,
) -> Answer<Json<ManagedDatabase>> {
    let view = control.reset_database_login(&caller, id).await?;
    Ok(Json(Renderer::new(&control, (&headers, &uri)).whole(view)))
}

/// Branches a database.
pub async fn branch(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
    DatabasePath(id): DatabasePath,
    body: Body,
) -> Answer<(StatusCode, Json<ManagedDatabase>)> {
    let label = optional_json_body::<BranchDatabase>(body).await?.checked()?;
    let view = control.branch_database(&caller, id, label).await?;
    Ok((StatusCode::ACCEPTED, Json(Renderer::new(&control, (&headers, &uri)).whole(view))))
}

/// Makes a branch what its parent is now.
pub async fn reset(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
    DatabasePath(id): DatabasePath,
) -> Answer<(StatusCode, Json<ManagedDatabase>)> {
    let view = control.reset_branch(&caller, id).await?;
    Ok((StatusCode::ACCEPTED, Json(Renderer::new(&control, (&headers, &uri)).whole(view))))
}

/// Restarts a database on the newest version of its template.
pub async fn restart(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
    DatabasePath(id): DatabasePath,
) -> Answer<(StatusCode, Json<ManagedDatabase>)> {
    let view = control.restart_database(&caller, id).await?;
    Ok((StatusCode::ACCEPTED, Json(Renderer::new(&control, (&headers, &uri)).whole(view))))
}

/// Rebuilds a failed database from its archive.
pub async fn failover(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
    DatabasePath(id): DatabasePath,
) -> Answer<Json<ManagedDatabase>> {
    let view = control.fail_over_database(&caller, id).await?;
    Ok(Json(Renderer::new(&control, (&headers, &uri)).whole(view)))
}

/// Clones a database as it was at a time.
pub async fn clone(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    (headers, uri): (HeaderMap, Uri),
    DatabasePath(id): DatabasePath,
    body: Body,
) -> Answer<(StatusCode, Json<ManagedDatabase>)> {
    let spec = optional_json_body::<CloneDatabase>(body).await?.checked()?;
    let made = control.clone_database(&caller, id, spec).await?;
    Ok((StatusCode::ACCEPTED, Json(Renderer::new(&control, (&headers, &uri)).whole(made))))
}

/// Compares the schemas of two databases.
pub async fn diff(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    uri: Uri,
    DatabasePath(id): DatabasePath,
) -> Answer<Json<SchemaDiff>> {
    let other = query_value(&uri, "to").filter(|to| !to.is_empty());
    let other = other.map(|to| to.parse::<SandboxId>().map_err(|_| no_database())).transpose()?;
    Ok(Json(control.compare_schemas(&caller, id, other).await?))
}

/// Shows what a database could be restored from.
pub async fn backups(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    DatabasePath(id): DatabasePath,
) -> Answer<Json<DatabaseBackups>> {
    Ok(Json(control.database_backups(&caller, id).await?))
}

/// Takes a base backup.
pub async fn back_up(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    DatabasePath(id): DatabasePath,
) -> Answer<(StatusCode, Json<DatabaseBackup>)> {
    Ok((StatusCode::CREATED, Json(control.back_up_database(&caller, id).await?)))
}

/// Starts a restore drill.
pub async fn verify_backup(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    DatabasePath(id): DatabasePath,
    body: Body,
) -> Answer<(StatusCode, Json<BackupDrill>)> {
    let target_ns = optional_json_body::<VerifyBackup>(body).await?.checked()?;
    Ok((StatusCode::ACCEPTED, Json(control.begin_drill(&caller, id, target_ns).await?)))
}

/// Measures a running database.
pub async fn stats(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    DatabasePath(id): DatabasePath,
) -> Answer<Json<DatabaseStats>> {
    Ok(Json(control.database_stats(&caller, id).await?))
}

/// Shows the last lines of a running database's log.
pub async fn logs(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    DatabasePath(id): DatabasePath,
    uri: Uri,
) -> Answer<Json<DatabaseLogs>> {
    let lines = query_value(&uri, "lines").and_then(|lines| lines.parse().ok()).unwrap_or(DATABASE_LOG_LINES_DEFAULT);
    let lines = lines.clamp(*DATABASE_LOG_LINES.start(), *DATABASE_LOG_LINES.end());
    Ok(Json(control.database_logs(&caller, id, lines).await?))
}

/// Renders databases with the addresses of this server.
struct Renderer {
    addresses: DatabaseAddresses,
    api_url: String,
}

impl Renderer {
    fn new(control: &Control, (headers, uri): (&HeaderMap, &Uri)) -> Self {
        let addresses = control.settings.databases.clone();
        let api_url = addresses.api_url.clone().unwrap_or_else(|| public_base(headers, uri));
        Self { addresses, api_url }
    }

    /// Renders a database. Its credentials stay valid while it sleeps.
    fn whole(&self, view: DatabaseView) -> ManagedDatabase {
        let shown = self.without_login(&view);
        let Some(login) = view.row.login().filter(|_| !view.row.loses_login()) else { return shown };
        let id = view.row.id;
        let (host, port) = (format!("{id}{}", self.addresses.suffix), self.addresses.port);
        let (password, token) = (login.password.reveal().clone(), login.broker_token.reveal().clone());
        ManagedDatabase {
            connection_url: Some(format!("postgres://{DATABASE_ROLE}:{password}@{host}:{port}/{DATABASE_ROLE}")),
            broker_url: Some(format!("{}/v1/databases/{id}/proxy", self.api_url)),
            broker_token: Some(token),
            host: Some(host),
            port: Some(port),
            database: Some(DATABASE_ROLE.to_owned()),
            username: Some(DATABASE_ROLE.to_owned()),
            password: Some(password),
            ..shown
        }
    }

    fn without_login(&self, view: &DatabaseView) -> ManagedDatabase {
        let DatabaseView { row, state, is_outdated, waits: _, failover } = view;
        let (status, error) = status_of(view);
        ManagedDatabase {
            id: row.id.to_string(),
            status: status.to_owned(),
            template: row.size.template().to_owned(),
            label: row.label.clone(),
            size: Some(row.size.as_str().to_owned()),
            sandbox_id: state.as_ref().map(|_| row.id.to_string()),
            branched_from: row.branched_from.map(|from| from.to_string()),
            cloned_from: row.cloned_from.map(|from| from.to_string()),
            always_on: Some(row.sleep.is_never()),
            created_at: Some(row.created_at_ns / 1_000_000_000),
            error,
            update_available: *is_outdated,
            failover_available: failover.as_ref().map(Result::is_ok),
            failover_reason: failover.as_ref().map(|plan| match plan {
                Ok(base) => format!("it can be rebuilt from {base} and the log since then"),
                Err(reason) => reason.clone(),
            }),
            failover_eta_seconds: failover.as_ref().filter(|plan| plan.is_ok()).map(|_| FAILOVER_ETA_SECONDS),
            ..ManagedDatabase::default()
        }
    }
}

/// Returns the status, and the reason if it is not the usual one. A database is never shown as
/// running before it has credentials.
fn status_of(view: &DatabaseView) -> (&'static str, Option<String>) {
    if view.row.repair.is_some() {
        return ("provisioning", Some("the database is being restarted".to_owned()));
    }
    if let Some(error) = &view.row.error {
        return ("failed", Some(error.clone()));
    }
    match (&view.state, view.row.login()) {
        (Some(SandboxState::Failed { reason }), Some(_)) => {
            ("provisioning", Some(format!("its machine is being restarted: {reason}")))
        }
        (Some(state), Some(_)) => (database_status(state), None),
        (None, Some(_)) => ("failed", Some("the database's machine is gone".to_owned())),
        (_, None) => {
            let waits = view.waits.clone().unwrap_or_else(|| "the server is being started".to_owned());
            ("provisioning", Some(waits))
        }
    }
}
