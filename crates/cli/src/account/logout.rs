//! `pandastack logout`

use std::process::ExitCode;

use anyhow::anyhow;
use pandastack_client::{Client, ClientError, Config};
use serde_json::{Value, json};

use super::keep::{save, saved_context};
use crate::{GlobalArgs, advice::advise, output};

/// Arguments of `logout`.
#[derive(Debug, clap::Args)]
pub struct LogoutArgs {
    /// Forget the login even if the server cannot be asked to end it
    #[arg(long)]
    force: bool,
}

/// Ends the saved session on the server, and removes it from the config file. Uses the address in
/// the file, because the session belongs to that server.
pub async fn logout(args: LogoutArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (mut saved, stays) = saved_context(global)?;
    let Some(token) = saved.session() else {
        return show(global, "not logged in", json!({ "logged_out": null }));
    };
    let url = global.api_url.clone().map_or_else(|| saved.url(), Ok)?;
    let config = Config::load_with(|_| None, None)?.with_url(&url)?.with_key(token.reveal().clone());
    match Client::new(config)?.log_out().await {
        Ok(()) => {}
        Err(error) if is_over(&error) => {}
        Err(error) if args.force => output::warn(&format!("the session was not ended on the server: {error}")),
        Err(error) => {
            return Err(anyhow!("{:#}; to forget the login anyway: pandastack logout --force", advise(error)));
        }
    }
    saved.log_out();
    let then = if saved.api_key().is_some() { "; the saved API key is used again" } else { "" };
    save(&mut saved, stays.as_deref())?;
    show(global, &format!("logged out of {url}{then}"), json!({ "logged_out": url }))
}

/// Tells whether the session had ended before. It may also end while its own request is answered.
fn is_over(error: &ClientError) -> bool {
    error.status() == Some(401)
}

fn show(global: &GlobalArgs, text: &str, value: Value) -> anyhow::Result<ExitCode> {
    if global.is_structured() {
        global.print(&value)?;
    } else {
        output::line(text)?;
    }
    Ok(ExitCode::SUCCESS)
}
