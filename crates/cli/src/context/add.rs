//! `pandastack context add`

use std::{
    io::{self, Read},
    process::ExitCode,
};

use anyhow::Context;
use pandastack_kit::Secret;

use crate::{GlobalArgs, account::saved, output};

/// Longest key that is read from standard input.
const KEY_BYTES_MAX: u64 = 4096;

/// Arguments of `context add`.
#[derive(Debug, clap::Args)]
pub struct AddContextArgs {
    /// Name of the context
    name: String,
    /// Address of the server, such as http://127.0.0.1:8080
    url: String,
    /// Read an API key from standard input. Without it, log in afterwards
    #[arg(long)]
    key_stdin: bool,
    /// Make it the current context
    #[arg(long = "use")]
    is_used: bool,
}

/// Adds a server to the config file.
pub fn add(args: &AddContextArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let key = if args.key_stdin { Some(read_key()?) } else { None };
    let mut saved = saved()?;
    saved.add_context(&args.name, &args.url, key.as_ref())?;
    if args.is_used {
        saved.use_context(&args.name)?;
    }
    saved.save()?;
    let is_current = saved.context() == args.name;
    if global.is_structured() {
        global.print(&serde_json::json!({ "name": args.name, "current": is_current }))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&format!("added {}{}", args.name, if is_current { ", the current context" } else { "" }))?;
    if key.is_none() {
        eprintln!("log in with: pandastack login --context {}", args.name);
    }
    Ok(ExitCode::SUCCESS)
}

/// Not an argument, because all users of a computer can see arguments.
fn read_key() -> anyhow::Result<Secret<String>> {
    let mut key = String::new();
    io::stdin().take(KEY_BYTES_MAX).read_to_string(&mut key).context("read the key from standard input")?;
    let key = key.trim();
    anyhow::ensure!(!key.is_empty(), "standard input has no key");
    Ok(Secret::new(key.to_owned()))
}
