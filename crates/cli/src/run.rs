//! `pandastack run CMD`: creates a sandbox, runs one command and deletes the sandbox.

use std::process::ExitCode;

use anyhow::Context;
use clap_complete::ArgValueCompleter;
use pandastack_client::{Client, wire::CreateSandbox};

use crate::{
    GlobalArgs, complete,
    connect::connect,
    follow::{follow, request},
    interrupt::StopSignals,
    sandbox::made,
    spinner::Spinner,
    template,
};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Template to start from: its name, or a unique start of it
    #[arg(long, short, value_name = "NAME", add = ArgValueCompleter::new(complete::templates))]
    template: Option<String>,
    /// End the command after this many seconds
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Keep the sandbox afterwards and print its id on standard error
    #[arg(long)]
    keep: bool,
    /// Command: one word is a shell line, several are a program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Creates a sandbox, runs the command and deletes the sandbox. Returns the command's exit code.
pub async fn run(args: RunArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let RunArgs { template, timeout, keep, command } = args;
    let client = connect(global)?;
    // Listen before the create. A Ctrl-C during the create is handled after it, when there is an id
    // to delete.
    let mut interrupt = StopSignals::listen()?;
    let sandbox = {
        let _spinner = Spinner::start("creating sandbox");
        let template = template::pick(&client, template).await?;
        let ask = CreateSandbox { template: Some(template), ..CreateSandbox::default() };
        made(&client, &ask).await.context("create a sandbox")?
    };
    let ended = follow(&client, &sandbox.id, &request(command, timeout), &mut interrupt, global).await;
    if keep {
        eprintln!("kept sandbox {}; delete it with: pandastack sandbox delete {}", sandbox.id, sandbox.id);
    } else {
        delete(&client, &sandbox.id, &mut interrupt).await;
    }
    ended
}

/// Deletes the sandbox. A failure does not change the exit code, but the user is warned.
async fn delete(client: &Client, id: &str, interrupt: &mut StopSignals) {
    let deleted = tokio::select! {
        deleted = client.delete(id) => deleted.err().map(|error| error.to_string()),
        () = interrupt.recv() => Some("interrupted".to_owned()),
    };
    if let Some(why) = deleted {
        eprintln!("warning: sandbox {id} was not deleted ({why}); try: pandastack sandbox delete {id}");
    }
}
