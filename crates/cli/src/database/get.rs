//! `pandastack db get`

use std::process::ExitCode;

use pandastack_client::wire::ManagedDatabase;

use super::list::created;
use crate::{GlobalArgs, advice::advise, output, pick::DatabaseArg};

/// Arguments of `db get`.
#[derive(Debug, clap::Args)]
pub struct GetDatabaseArgs {
    #[command(flatten)]
    database: DatabaseArg,
}

/// Shows one database. A table has no password; `db url` prints it.
pub async fn get(args: GetDatabaseArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let database = client.get_database(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&database)?;
    } else {
        output::table(&["id", &database.id], &facts(&database))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a table says about a database.
pub(super) fn facts(database: &ManagedDatabase) -> Vec<Vec<String>> {
    let always_on = database.always_on.map(|is_on| if is_on { "yes" } else { "no" }.to_owned());
    let update = (database.update_available == Some(true)).then(|| "yes; use: pandastack db restart".to_owned());
    let rows = [
        ("label", database.label.clone()),
        ("status", Some(database.status.clone())),
        ("reason", database.error.clone()),
        ("failover", failover(database)),
        ("size", database.size.clone()),
        ("template", Some(database.template.clone())),
        ("always on", always_on),
        ("branched from", database.branched_from.clone()),
        ("cloned from", database.cloned_from.clone()),
        ("update available", update),
        ("host", database.host.clone()),
        ("port", database.port.map(|port| port.to_string())),
        ("database", database.database.clone()),
        ("user", database.username.clone()),
        ("created", database.created_at.map(|_| created(database))),
    ];
    rows.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?])).collect()
}

/// Whether a failed database can be rebuilt from its archive.
fn failover(database: &ManagedDatabase) -> Option<String> {
    let ManagedDatabase { failover_available, failover_reason, failover_eta_seconds, .. } = database;
    let why = failover_reason.iter().map(|reason| format!(": {reason}")).collect::<String>();
    let eta = failover_eta_seconds.map(|seconds| format!(", about {seconds} s")).unwrap_or_default();
    Some(if (*failover_available)? { format!("possible{eta}{why}") } else { format!("not possible{why}") })
}
