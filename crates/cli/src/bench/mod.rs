//! `pandastack bench`: how long the server takes, as this client sees it. Every sandbox that it
//! makes is deleted at the end, also after a failure or Ctrl-C.

mod figures;
mod round;

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;
use figures::{BENCH_STEPS, BenchFigures};
use pandastack_client::Client;
use round::BenchRound;

use crate::{
    GlobalArgs, complete,
    connect::connect,
    interrupt::{INTERRUPTED, StopSignals},
    output,
    spinner::Spinner,
    template,
};

/// Arguments of `bench`.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    /// Template to start from: its name, or a unique start of it
    #[arg(long, short, value_name = "NAME", add = ArgValueCompleter::new(complete::templates))]
    template: Option<String>,
    /// Number of rounds
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
}

/// Measures rounds one after the other, and prints a table.
pub async fn bench(args: BenchArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let mut interrupt = StopSignals::listen()?;
    let template = template::pick(&client, args.template).await?;
    let (mut figures, mut round) = (BenchFigures::default(), BenchRound::new(&client, &template));
    let ended = {
        let _spinner = Spinner::start("measuring");
        measured(&mut round, &mut figures, args.count, &mut interrupt).await
    };
    round.clean(&mut interrupt).await;
    let is_whole = ended?;
    if global.is_structured() {
        global.print(&figures.report(client.url(), &template))?;
    } else {
        output::line(&format!("server {}, template {template}", client.url()))?;
        output::table(&["STEP", "COUNT", "P50", "P95", "MIN", "MAX"], &figures.rows())?;
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(INTERRUPTED) })
}

/// Returns whether all rounds were measured. A step that has begun is always awaited, so that we
/// know what is to be deleted.
async fn measured(
    round: &mut BenchRound<'_>,
    figures: &mut BenchFigures,
    count: u32,
    interrupt: &mut StopSignals,
) -> anyhow::Result<bool> {
    for _ in 0..count {
        for step in BENCH_STEPS {
            let mut is_interrupted = false;
            let took = {
                let mut work = std::pin::pin!(round.measure(step));
                loop {
                    tokio::select! {
                        took = &mut work => break took,
                        () = interrupt.recv() => is_interrupted = true,
                    }
                }
            }?;
            if is_interrupted {
                return Ok(false);
            }
            figures.add(step, took);
        }
    }
    Ok(true)
}

/// Deletes a sandbox, or says that it is left.
async fn delete(client: &Client, id: &str) {
    if let Err(error) = client.delete(id).await
        && error.status() != Some(404)
    {
        output::warn(&format!("sandbox {id} was not deleted ({error}); try: pandastack sandbox delete {id}"));
    }
}
