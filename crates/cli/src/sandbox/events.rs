//! `pandastack sandbox events`

use std::process::ExitCode;

use pandastack_client::{Client, wire::Event};

use crate::{
    GlobalArgs,
    advice::advise,
    interrupt::{INTERRUPTED, StopSignals},
    output,
    pick::SandboxArg,
};

/// Arguments of `sandbox events`.
#[derive(Debug, clap::Args)]
pub struct EventsArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Follow new events until the sandbox is deleted
    #[arg(long, short)]
    follow: bool,
}

/// Shows the recent events of a sandbox.
pub async fn events(args: EventsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.sandbox.find(global).await?;
    if args.follow {
        return follow(&client, &id, global).await;
    }
    let events = client.events(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&events)?;
    } else if events.is_empty() {
        eprintln!("no events since the server started");
    } else {
        let rows: Vec<_> = events.iter().map(row).collect();
        output::table(&["TIME", "EVENT", "ABOUT"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn follow(client: &Client, id: &str, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let mut interrupt = StopSignals::listen()?;
    let mut events = client.follow_events(id, None).await.map_err(advise)?;
    loop {
        let next = tokio::select! {
            () = interrupt.recv() => return Ok(ExitCode::from(INTERRUPTED)),
            next = events.next() => next,
        };
        let Some(event) = next else { return Ok(ExitCode::SUCCESS) };
        let event = event.map_err(advise)?;
        match global.is_structured() {
            true => global.print_event(&event)?,
            false => output::line(row(&event).join("  ").trim_end())?,
        }
    }
}

fn row(event: &Event) -> Vec<String> {
    let about: Vec<_> = event.payload.iter().map(|(name, value)| format!("{name}={value}")).collect();
    vec![event.time.clone(), event.kind.clone(), about.join(" ")]
}
