//! Waits until a database can be used, and prints it. The commands that start one share this.

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
    printed::PrintedUrl,
    spinner::Spinner,
};

/// Pause between two questions. A database is usually ready after a second.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest wait. The first database of a server also prepares what later ones start from.
const READY_MAX: Duration = Duration::from_secs(300);
/// Longest wait for a database that is rebuilt from an archive. It grows with the data.
const REBUILD_MAX: Duration = Duration::from_secs(1800);

/// Whether a command waits until the database can be used.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct WaitArgs {
    /// Do not wait until it can be used; print its id
    #[arg(long)]
    no_wait: bool,
}

/// How to wait for a database.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadyWait {
    /// What the spinner says.
    pub doing: &'static str,
    pub pause: Duration,
    pub longest: Duration,
    pub has_data: HasData,
}

/// Whether the database held data before the command.
#[derive(Clone, Copy, Debug)]
pub(super) enum HasData {
    No,
    Yes,
}

/// How far a database is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadyState {
    Pending,
    Ready,
    /// It will not get ready.
    Lost(String),
}

impl ReadyWait {
    /// Waits for a database whose machine starts.
    pub fn started(doing: &'static str) -> Self {
        Self { doing, pause: PAUSE, longest: READY_MAX, has_data: HasData::No }
    }

    /// Waits for a database that is rebuilt from an archive.
    pub fn rebuilt(doing: &'static str) -> Self {
        Self { longest: REBUILD_MAX, ..Self::started(doing) }
    }

    /// The database was there before.
    pub fn of_old(self) -> Self {
        Self { has_data: HasData::Yes, ..self }
    }

    fn next_step(self, id: &str) -> String {
        match self.has_data {
            HasData::No => format!("delete it with: pandastack db delete {id}"),
            HasData::Yes => format!("see what can be done with: pandastack db get {id}"),
        }
    }
}

impl WaitArgs {
    /// Makes or changes a database and prints it when it can be used.
    pub async fn finish(
        self,
        client: &Client,
        global: &GlobalArgs,
        wait: ReadyWait,
        make: impl Future<Output = Result<ManagedDatabase, ClientError>>,
    ) -> anyhow::Result<ExitCode> {
        let spinner = Spinner::start(wait.doing);
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
        let ready = tokio::select! {
            ready = until_ready(client, made, wait, |why| spinner.say(format!("{}: {why}", wait.doing))) => Some(ready),
            () = interrupt.recv() => None,
        };
        drop(spinner);
        let Some(ready) = ready else {
            eprintln!("{} goes on; see: pandastack db get {id}", wait.doing);
            return Ok(ExitCode::from(INTERRUPTED));
        };
        print_ready(client, &ready?, begun.elapsed(), global).await
    }
}

/// Asks until the database can be used, and tells what it waits for.
pub(super) async fn until_ready(
    client: &Client,
    mut database: ManagedDatabase,
    wait: ReadyWait,
    tell: impl Fn(&str),
) -> anyhow::Result<ManagedDatabase> {
    let begun = Instant::now();
    let id = database.id.clone();
    loop {
        match state(&database) {
            ReadyState::Ready => return Ok(database),
            ReadyState::Lost(why) => {
                let text = format!("database {id} failed: {why}; {}", wait.next_step(&id));
                return Err(ExitReason::Failure.error(text));
            }
            ReadyState::Pending if begun.elapsed() >= wait.longest => {
                let seconds = wait.longest.as_secs();
                let text = format!("database {id} was not ready after {seconds} s; see: pandastack db get {id}");
                return Err(ExitReason::TimedOut.error(text));
            }
            ReadyState::Pending => {
                if let Some(why) = &database.error {
                    tell(why);
                }
                tokio::time::sleep(wait.pause).await;
            }
        }
        database = client.get_database(&id).await.map_err(advise).with_context(|| format!("wait for database {id}"))?;
    }
}

/// Tells how far a database is. One that has credentials may have fallen asleep already, and one
/// that restarts keeps its own.
pub(super) fn state(database: &ManagedDatabase) -> ReadyState {
    let ManagedDatabase { status, error, connection_url, .. } = database;
    match (status.as_str(), connection_url) {
        ("failed", _) => ReadyState::Lost(error.clone().unwrap_or_else(|| "the server does not say why".to_owned())),
        ("deleting", _) => ReadyState::Lost("it is being deleted".to_owned()),
        ("provisioning", _) | (_, None) => ReadyState::Pending,
        (_, Some(_)) => ReadyState::Ready,
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

async fn print_ready(
    client: &Client,
    database: &ManagedDatabase,
    took: Duration,
    global: &GlobalArgs,
) -> anyhow::Result<ExitCode> {
    if global.is_structured() {
        global.print(database)?;
        return Ok(ExitCode::SUCCESS);
    }
    let id = &database.id;
    eprintln!("database {id} is ready after {:.1} s; open it with: pandastack db psql {id}", took.as_secs_f64());
    PrintedUrl::of_database(client, database.connection_url.as_deref().unwrap_or_default()).await.print()?;
    Ok(ExitCode::SUCCESS)
}
