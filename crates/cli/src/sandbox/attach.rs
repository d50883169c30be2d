//! `pandastack sandbox attach`

use std::{
    io::{self, Write},
    process::ExitCode,
};

use pandastack_client::{Client, FollowedEvent};

use crate::{
    GlobalArgs,
    exit::ExitReason,
    follow::exit_code,
    interrupt::{INTERRUPTED, StopSignals},
    pick::SandboxArg,
    terminal::keys,
};

/// Arguments of `sandbox attach`.
#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    /// Skip this many bytes of output
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    offset: u64,
    /// Print the output so far and exit
    #[arg(long, conflicts_with = "stdin")]
    no_follow: bool,
    /// Send our standard input to the process, and close it at the end
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    sandbox: SandboxArg,
    /// Process id
    process: String,
}

/// Shows a process's output and returns its exit code. Ctrl-C leaves the process running.
pub async fn attach(args: AttachArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.sandbox.find(global).await?;
    if args.stdin && global.is_structured() {
        return Err(ExitReason::Usage.error("--stdin cannot be used with --json or -o"));
    }
    if args.no_follow || global.is_structured() {
        return look(&client, &id, &args, global).await;
    }
    let mut interrupt = StopSignals::listen()?;
    tokio::select! {
        () = interrupt.recv() => Ok(ExitCode::from(INTERRUPTED)),
        ended = follow(&client, &id, &args) => ended,
        fed = feed(&client, &id, &args), if args.stdin => Err(fed.err().unwrap_or_else(|| anyhow::anyhow!("the input \
            ended"))),
    }
}

async fn look(client: &Client, id: &str, args: &AttachArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let found = client.output(id, &args.process, args.offset).await?;
    if global.is_structured() {
        global.print(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    for piece in &found.chunks {
        show(&piece.stream, &piece.chunk)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn follow(client: &Client, id: &str, args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let mut following = client.follow(id, &args.process, args.offset).await?;
    while let Some(step) = following.next().await {
        match step? {
            FollowedEvent::Stdout(piece) => show("stdout", &piece.chunk)?,
            FollowedEvent::Stderr(piece) => show("stderr", &piece.chunk)?,
            FollowedEvent::Lost(lost) => eprintln!("[{} bytes of output are no longer kept]", lost.bytes),
            FollowedEvent::Exit(exit) => return Ok(exit_code(exit.exit_code)),
        }
    }
    anyhow::bail!("the stream ended before the process did")
}

/// Passes our input on. Returns only on a failure, because this command ends with the process.
async fn feed(client: &Client, id: &str, args: &AttachArgs) -> anyhow::Result<()> {
    let mut input = keys()?;
    while let Some(piece) = input.recv().await {
        client.feed(id, &args.process, piece, false).await?;
    }
    client.feed(id, &args.process, "", true).await?;
    std::future::pending().await
}

fn show(stream: &str, chunk: &str) -> io::Result<()> {
    match stream {
        "stderr" => io::stderr().lock().write_all(chunk.as_bytes()),
        _ => {
            let mut out = io::stdout().lock();
            out.write_all(chunk.as_bytes())?;
            out.flush()
        }
    }
}
