//! `pandastack sandbox events`

use std::process::ExitCode;

use pandastack_client::wire::Event;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `sandbox events`.
#[derive(Debug, clap::Args)]
pub struct EventsArgs {
    /// Sandbox id
    id: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Tells what happened to a sandbox lately.
pub async fn events(args: EventsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let events = connect(global)?.events(&args.id).await.map_err(advise)?;
    if args.json {
        output::json(&events)?;
    } else if events.is_empty() {
        eprintln!("nothing has happened since the server started");
    } else {
        let rows: Vec<_> = events.iter().map(row).collect();
        output::table(&["TIME", "EVENT", "ABOUT"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(event: &Event) -> Vec<String> {
    let about: Vec<_> = event.payload.iter().map(|(name, value)| format!("{name}={value}")).collect();
    vec![event.time.clone(), event.kind.clone(), about.join(" ")]
}
