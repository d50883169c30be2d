//! `pandastack db psql`

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

use clap_complete::ArgValueCompleter;
use pandastack_client::{Client, wire::ManagedDatabase};

use super::remote_psql::RemotePsql;
use crate::{
    GlobalArgs,
    advice::advise,
    complete,
    connect::connect,
    exit::ExitReason,
    find::{Candidate, FoundKind},
};

/// Variables that would send psql to another server, or hide the name that picks the database.
const FOREIGN_VARIABLES: [&str; 6] =
    ["PGSERVICE", "PGSERVICEFILE", "PGHOSTADDR", "PGSSLSNI", "PGSSLNEGOTIATION", "PGREQUIRESSL"];
/// Modes of TLS that are stricter than `require`. Who has chosen one keeps it.
const STRICT_MODES: [&str; 2] = ["verify-ca", "verify-full"];

/// Arguments of `db psql`.
#[derive(Debug, clap::Args)]
pub struct PsqlArgs {
    /// Database: its id, a unique start of it, or its label; not needed if there is only one
    #[arg(value_name = "ID", add = ArgValueCompleter::new(complete::databases))]
    id: Option<String>,
    /// Run this statement and end; may be repeated
    #[arg(long = "command", short, value_name = "SQL", allow_hyphen_values = true)]
    commands: Vec<String>,
    /// Use the psql of the database's machine, even if this computer has one
    #[arg(long)]
    via_sandbox: bool,
    /// Arguments of psql, after `--`
    #[arg(last = true, allow_hyphen_values = true, value_name = "ARGS")]
    arguments: Vec<String>,
}

/// Becomes psql, connected to a database. Without one, uses that of the database's machine.
pub async fn psql(args: PsqlArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    if global.is_structured() {
        let text =
            "psql has its own output; use: pandastack db psql ID -- --csv, or: pandastack db query ID SQL --json";
        return Err(ExitReason::Usage.error(text));
    }
    let client = connect(global)?;
    let id = chosen(&client, args.id.as_deref()).await?;
    let database = client.get_database(&id).await.map_err(advise)?;
    let arguments = args.all_arguments();
    if !args.via_sandbox {
        let mut command = Command::new("psql");
        command.args(&arguments);
        let mode = std::env::var("PGSSLMODE").ok();
        prepare(&mut command, &database, mode.as_deref())?;
        // Returns only if psql could not be started.
        let error = command.exec();
        if error.kind() != io::ErrorKind::NotFound {
            return Err(ExitReason::Failure.error(format!("psql could not be started: {error}")));
        }
        eprintln!("psql is not installed on this computer; this is the one of the database's machine");
    }
    RemotePsql::new(&database, arguments)?.run(&client, global).await
}

impl PsqlArgs {
    /// The arguments of psql.
    pub(super) fn all_arguments(&self) -> Vec<String> {
        let commands = self.commands.iter().flat_map(|sql| ["-c".to_owned(), sql.clone()]);
        commands.chain(self.arguments.iter().cloned()).collect()
    }
}

/// Returns the id of the database that a text names; without a text that of the only one.
pub(super) async fn chosen(client: &Client, named: Option<&str>) -> anyhow::Result<String> {
    match named {
        Some(text) => FoundKind::Database.find(client, text).await,
        None => only(&client.databases().await.map_err(advise)?),
    }
}

/// Returns the only database.
pub(super) fn only(databases: &[ManagedDatabase]) -> anyhow::Result<String> {
    match databases {
        [one] => Ok(one.id.clone()),
        [] => Err(ExitReason::NotFound.error("no databases; create one with: pandastack db create")),
        several => {
            let line = |Candidate { id, about, .. }| format!("\n  {id}  {about}");
            let lines: String = several.iter().map(Candidate::from).map(line).collect();
            Err(ExitReason::Usage.error(format!("there are several databases; name one:{lines}")))
        }
    }
}

/// Passes the address and the login by variables: arguments can be read by every user of this
/// computer.
pub(super) fn prepare(command: &mut Command, database: &ManagedDatabase, mode: Option<&str>) -> anyhow::Result<()> {
    let ManagedDatabase { id, host, port, username, password, database: name, .. } = database;
    let (Some(host), Some(port), Some(user), Some(password), Some(name)) = (host, port, username, password, name)
    else {
        return Err(no_credentials(id));
    };
    FOREIGN_VARIABLES.iter().for_each(|variable| {
        command.env_remove(variable);
    });
    let mode = mode.filter(|mode| STRICT_MODES.contains(mode)).unwrap_or("require");
    command.env("PGHOST", host).env("PGPORT", port.to_string()).env("PGUSER", user).env("PGDATABASE", name);
    command.env("PGPASSWORD", password).env("PGSSLMODE", mode);
    if host.ends_with(".localhost") {
        // Not every resolver knows names below `localhost`.
        command.env("PGHOSTADDR", "127.0.0.1");
    }
    Ok(())
}

pub(super) fn no_credentials(id: &str) -> anyhow::Error {
    let text = format!("database {id} has no credentials yet; see its status with: pandastack db get {id}");
    ExitReason::Failure.error(text)
}
