//! Waits until a new database can be used, and prints it. `create` and `branch` share this.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::Context;
use pandastack_client::{Client, ClientError, wire::ManagedDatabase};

use crate::{
    GlobalArgs,
    advice::advise,
    exit::ExitReason,
    interrupt::{INTERRUPTED, StopSignals},
    output,
    spinner::Spinner,
};

/// Pause between two questions. A database is usually ready after a second.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait. The first database of a server also prepares what later ones start from.
const READY_MAX: Duration = Duration::from_secs(300);

/// Whether a command waits until the new database can be used.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct WaitArgs {
    /// Do not wait until it can be used; print its id
    #[arg(long)]
    no_wait: bool,
}

/// How often and how long to ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadyPace {
    pub pause: Duration,
    pub longest: Duration,
}

/// How far a new database is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadyState {
    Pending,
    Ready,
    /// It will not get ready.
    Lost(String),
}

impl WaitArgs {
    /// Makes a database and prints it when it can be used.
    pub async fn finish(
        self,
        client: &Client,
        global: &GlobalArgs,
        doing: &'static str,
        make: impl Future<Output = Result<ManagedDatabase, ClientError>>,
    ) -> anyhow::Result<ExitCode> {
        let spinner = Spinner::start(doing);
        if self.no_wait {
            let made = make.await.map_err(advise)?;
            drop(spinner);
            return print_begun(&made, global);
        }
        // Listen before the request, so that a Ctrl-C during it still tells the id.
        let mut interrupt = StopSignals::listen()?;
        let begun = Instant::now();
        let made = make.await.map_err(advise)?;
        let id = made.id.clone();
        let pace = ReadyPace { pause: PAUSE, longest: READY_MAX };
        let ready = tokio::select! {
            ready = until_ready(client, made, pace) => Some(ready),
            () = interrupt.recv() => None,
        };
        drop(spinner);
        let Some(ready) = ready else {
            eprintln!("database {id} is still being made; see: pandastack db get {id}");
            return Ok(ExitCode::from(INTERRUPTED));
        };
        print_ready(&ready?, begun.elapsed(), global)
    }
}

/// Asks until the database can be used.
pub(super) async fn until_ready(
    client: &Client,
    mut database: ManagedDatabase,
    pace: ReadyPace,
) -> anyhow::Result<ManagedDatabase> {
    let begun = Instant::now();
    let id = database.id.clone();
    loop {
        match state(&database) {
            ReadyState::Ready => return Ok(database),
            ReadyState::Lost(why) => {
                let text = format!("database {id} failed: {why}; delete it with: pandastack db delete {id}");
                return Err(ExitReason::Failure.error(text));
            }
            ReadyState::Pending if begun.elapsed() >= pace.longest => {
                let seconds = pace.longest.as_secs();
                let text = format!("database {id} was not ready after {seconds} s; see: pandastack db get {id}");
                return Err(ExitReason::TimedOut.error(text));
            }
            ReadyState::Pending => tokio::time::sleep(pace.pause).await,
        }
        database = client.get_database(&id).await.map_err(advise).with_context(|| format!("wait for database {id}"))?;
    }
}

/// Tells how far a database is. One that has credentials may have fallen asleep already.
pub(super) fn state(database: &ManagedDatabase) -> ReadyState {
    let ManagedDatabase { status, error, connection_url, .. } = database;
    match (status.as_str(), connection_url) {
        ("failed", _) => ReadyState::Lost(error.clone().unwrap_or_else(|| "the server does not say why".to_owned())),
        ("deleting", _) => ReadyState::Lost("it is being deleted".to_owned()),
        (_, Some(_)) => ReadyState::Ready,
        (_, None) => ReadyState::Pending,
    }
}

fn print_begun(database: &ManagedDatabase, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    if global.is_structured() {
        global.print(database)?;
    } else {
        output::line(&database.id)?;
        eprintln!("{}; see: pandastack db get {}", database.status, database.id);
    }
    Ok(ExitCode::SUCCESS)
}

fn print_ready(database: &ManagedDatabase, took: Duration, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    if global.is_structured() {
        global.print(database)?;
        return Ok(ExitCode::SUCCESS);
    }
    let id = &database.id;
    eprintln!("database {id} is ready after {:.1} s; open it with: pandastack db psql {id}", took.as_secs_f64());
    output::line(database.connection_url.as_deref().unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}
