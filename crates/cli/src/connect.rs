//! Creates a client from the user's configuration.

use anyhow::Context;
use pandastack_client::{Client, Config};

use crate::{GlobalArgs, exit::ExitReason};

/// Creates a client, or explains how to get a key.
pub fn connect(global: &GlobalArgs) -> anyhow::Result<Client> {
    let config = configuration(global)?;
    Ok(Client::new(match global.org.as_deref().filter(|org| !org.is_empty()) {
        Some(org) => config.with_org(org)?,
        None => config,
    })?)
}

/// Creates a client for a command that names its organisation in the address. `--org` is not sent.
pub fn connect_person(global: &GlobalArgs) -> anyhow::Result<Client> {
    Ok(Client::new(configuration(global)?)?)
}

/// Creates a client for a command that everybody may use. No key is needed, and none is sent.
pub fn connect_stranger(global: &GlobalArgs) -> anyhow::Result<Client> {
    Ok(Client::new(server(global)?.without_key())?)
}

/// Finds the server. A context that was chosen by name is used as a whole, without variables.
pub fn server(global: &GlobalArgs) -> anyhow::Result<Config> {
    let config = match global.chosen_context() {
        Some(name) => Config::load_context(name)?,
        None => Config::load().context("load the configuration")?,
    };
    Ok(match &global.api_url {
        Some(url) => config.with_url(url)?,
        None => config,
    })
}

fn configuration(global: &GlobalArgs) -> anyhow::Result<Config> {
    let config = server(global)?;
    if config.key.is_none() {
        return Err(ExitReason::Denied.error(
            "no API key: start a server with `pandastack up`, which writes one to ~/.config/pandastack/config.json, \
             set PANDASTACK_API_KEY, or log in with `pandastack login`",
        ));
    }
    Ok(config)
}
