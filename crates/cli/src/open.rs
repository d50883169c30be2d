//! `pandastack open`: a port of a sandbox, or the server's documentation, in a browser.

use std::{ffi::OsStr, process::ExitCode};

use clap_complete::{ArgValueCompleter, CompletionCandidate};
use pandastack_client::{
    Client,
    wire::{Port, PreviewRequest},
};
use serde_json::json;

use crate::{
    GlobalArgs,
    advice::advise,
    browser, complete,
    connect::{connect, connect_stranger},
    exit::ExitReason,
    find::FoundKind,
    printed::PrintedUrl,
};

/// The word that means the documentation and not a sandbox.
const DOCS: &str = "docs";

/// Arguments of `open`.
#[derive(Debug, clap::Args)]
pub struct OpenArgs {
    /// Sandbox: its id, a unique start of it, or its name; or `docs` for the server's API
    #[arg(value_name = "ID", add = ArgValueCompleter::new(completed))]
    id: String,
    /// Port that a program in the sandbox listens on; by default the only one
    #[arg(long, short, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// How long the address works, in seconds; one hour by default, one week at most
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<i64>,
    /// Only print the address
    #[arg(long)]
    print: bool,
}

/// Opens a page, or prints its address if there is no browser.
pub async fn open(args: OpenArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let link = if args.id == DOCS {
        PrintedUrl { url: format!("{}/docs", connect_stranger(global)?.url()), note: None }
    } else {
        let client = connect(global)?;
        let id = FoundKind::Sandbox.find(&client, &args.id).await?;
        let port = match args.port {
            Some(port) => port,
            None => only_port(&client.ports(&id).await.map_err(advise)?)?,
        };
        let url = preview(&client, &id, port, args.ttl).await?;
        PrintedUrl::of_preview(&client, &url).await
    };
    let is_opened = !args.print && !global.is_structured() && browser::open(&link.url);
    if global.is_structured() {
        global.print(&json!({ "url": link.url }))?;
    } else if is_opened {
        eprintln!("opened {}", link.url);
    } else {
        link.print()?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn preview(client: &Client, id: &str, port: u16, ttl_seconds: Option<i64>) -> anyhow::Result<String> {
    let ask = PreviewRequest { port: Some(port.into()), ttl_seconds, paths: None };
    Ok(client.preview(id, &ask).await.map_err(advise)?.url)
}

/// Chooses the port if there is no choice.
fn only_port(ports: &[Port]) -> anyhow::Result<u16> {
    let listening: Vec<_> = ports.iter().filter(|port| port.listening).map(|port| port.port.to_string()).collect();
    match ports.iter().filter(|port| port.listening).collect::<Vec<_>>().as_slice() {
        [port] => Ok(port.port),
        [] => Err(ExitReason::NotFound.error("no program in the sandbox listens on a port; start one, or use --port")),
        _ => {
            Err(ExitReason::Usage
                .error(format!("several ports are open; choose with --port: {}", listening.join(", "))))
        }
    }
}

fn completed(typed: &OsStr) -> Vec<CompletionCandidate> {
    let is_docs = typed.to_str().is_some_and(|typed| DOCS.starts_with(typed));
    let docs = is_docs.then(|| CompletionCandidate::new(DOCS).help(Some("the server's API".into())));
    complete::sandboxes(typed).into_iter().chain(docs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(number: u16, listening: bool) -> Port {
        let text = json!({"port": number, "listening": listening, "loopback_only": false, "source": "x"});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_port_is_chosen_only_without_a_choice() {
        assert_eq!(only_port(&[port(22, false), port(8000, true)]).unwrap(), 8000);
        assert!(only_port(&[port(22, false)]).unwrap_err().to_string().contains("--port"));
        assert!(only_port(&[port(80, true), port(81, true)]).unwrap_err().to_string().contains("80, 81"));
    }
}
