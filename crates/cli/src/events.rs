//! `pandastack events`

use std::{process::ExitCode, time::Duration};

use pandastack_client::{Client, WorkspaceNews, wire::WorkspaceEvent};

use crate::{
    GlobalArgs,
    advice::advise,
    connect::connect,
    interrupt::{INTERRUPTED, StopSignals},
    kind::KindArgs,
    output,
};

/// How long to wait before following again.
const AGAIN: Duration = Duration::from_secs(1);

/// Arguments of `events`.
#[derive(Debug, clap::Args)]
pub struct WorkspaceEventsArgs {
    /// Follow new events until Ctrl-C
    #[arg(long, short)]
    follow: bool,
    /// Number of past events to show; at most 512
    #[arg(long, default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    kind: KindArgs,
}

/// Shows the recent events of the workspace, or follows them.
pub async fn events(args: WorkspaceEventsArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let past = client.workspace_events(args.kind.kinds, args.limit).await.map_err(advise)?;
    if args.follow {
        for event in &past.events {
            show(event, global)?;
        }
        return follow(&client, (args.kind, past.cursor), global).await;
    }
    if global.is_structured() {
        global.print(&past.events)?;
    } else if past.events.is_empty() {
        eprintln!("no events since the server started");
    } else {
        let rows: Vec<_> = past.events.iter().map(row).collect();
        output::table(&["TIME", "EVENT", "SANDBOX", "ABOUT"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn follow(
    client: &Client,
    (kind, mut place): (KindArgs, String),
    global: &GlobalArgs,
) -> anyhow::Result<ExitCode> {
    let mut interrupt = StopSignals::listen()?;
    loop {
        let mut stream = client.follow_workspace(kind.kinds, Some(&place)).await.map_err(advise)?;
        loop {
            let next = tokio::select! {
                () = interrupt.recv() => return Ok(ExitCode::from(INTERRUPTED)),
                next = stream.next() => next,
            };
            // The server ends a stream now and then, to check the credential again.
            let Some(next) = next else { break };
            match next.map_err(advise)? {
                WorkspaceNews::Event(event) => {
                    show(&event, global)?;
                    place = event.id;
                }
                WorkspaceNews::Reset(reset) => {
                    output::warn("some events were lost");
                    place = reset.cursor;
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn show(event: &WorkspaceEvent, global: &GlobalArgs) -> anyhow::Result<()> {
    match global.is_structured() {
        true => global.print_event(event),
        false => output::line(row(event).join("  ").trim_end()),
    }
}

fn row(event: &WorkspaceEvent) -> Vec<String> {
    let about: Vec<_> = event.payload.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let sandbox = event.sandbox_id.clone().unwrap_or_else(|| "-".to_owned());
    vec![event.ts.clone(), event.kind.clone(), sandbox, about.join(" ")]
}
