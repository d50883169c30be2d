//! Creates a client from the user's configuration.

use anyhow::{Context, bail};
use pandastack_client::{Client, Config};

use crate::GlobalArgs;

/// Creates a client, or explains how to get a key.
pub fn connect(global: &GlobalArgs) -> anyhow::Result<Client> {
    let mut config = Config::load().context("load the configuration")?;
    if let Some(url) = &global.api_url {
        config = config.with_url(url)?;
    }
    if config.key.is_none() {
        bail!(
            "no API key: start a server with `pandastack up`, which writes one to ~/.config/pandastack/config.json, \
             or set PANDASTACK_API_KEY"
        );
    }
    Ok(Client::new(config)?)
}
