//! `pandastack db always-on`

use std::process::ExitCode;

use pandastack_client::wire::{ChangeDatabase, DatabaseSleep};

use crate::{GlobalArgs, advice::advise, output, pick::DatabaseArg};

/// Arguments of `db always-on`.
#[derive(Debug, clap::Args)]
pub struct AlwaysOnArgs {
    #[command(flatten)]
    database: DatabaseArg,
    /// Whether it stays awake
    #[arg(value_name = "on|off")]
    choice: AlwaysOnChoice,
}

/// Whether a database stays awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AlwaysOnChoice {
    /// It never sleeps
    On,
    /// It sleeps when nobody uses it
    Off,
}

/// Changes whether a database sleeps.
pub async fn always_on(args: AlwaysOnArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.database.find(global).await?;
    let sleep = args.choice.sleep();
    let change = ChangeDatabase { always_on: Some(sleep.is_never()) };
    let database = client.change_database(&id, &change).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&database)?;
    } else {
        let then = match sleep {
            DatabaseSleep::Never => "never sleeps",
            DatabaseSleep::WhenIdle => "sleeps when nobody uses it",
        };
        output::line(&format!("{id} {then}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl AlwaysOnChoice {
    fn sleep(self) -> DatabaseSleep {
        match self {
            Self::On => DatabaseSleep::Never,
            Self::Off => DatabaseSleep::WhenIdle,
        }
    }
}
