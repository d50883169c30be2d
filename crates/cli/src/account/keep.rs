//! The server that a person logs in to, and the file that keeps the session.

use anyhow::{Context, bail};
use pandastack_client::{Client, Config, SavedConfig, wire::LoggedIn};
use pandastack_kit::Secret;
use serde_json::json;

use crate::{GlobalArgs, output};

/// Overrides what the config file says.
const KEY_VARIABLE: &str = "PANDASTACK_API_KEY";

/// A server, and the config file.
pub struct SessionKeeper {
    config: Config,
    saved: SavedConfig,
}

impl SessionKeeper {
    /// Reads the configuration. A key is not needed.
    pub fn open(global: &GlobalArgs) -> anyhow::Result<Self> {
        let config = Config::load().context("load the configuration")?;
        let config = match &global.api_url {
            Some(url) => config.with_url(url)?,
            None => config,
        };
        Ok(Self { config, saved: saved()? })
    }

    /// Creates a client that sends no credential.
    pub fn stranger(&self) -> anyhow::Result<Client> {
        Ok(Client::new(self.config.clone().without_key())?)
    }

    /// Creates a client with an API key, which makes the first account.
    pub fn operator(&self) -> anyhow::Result<Client> {
        let from_variable = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
        let Some(key) = from_variable.or_else(|| self.saved.api_key().map(|key| key.reveal().clone())) else {
            bail!(
                "the first account needs an API key of the server: set {KEY_VARIABLE}, or create a key on the server \
                 with: pandastack key create --data-dir DIR"
            );
        };
        Ok(Client::new(self.config.clone().without_key().with_key(key))?)
    }

    /// Saves a new session.
    pub fn keep(mut self, session: &LoggedIn) -> anyhow::Result<()> {
        self.saved.log_in(&self.config.url, &Secret::new(session.token.clone()));
        self.saved.save().context("save the login")?;
        if std::env::var_os(KEY_VARIABLE).is_some_and(|key| !key.is_empty()) {
            output::warn(&format!("{KEY_VARIABLE} is set and is used instead of this login; unset it"));
        }
        Ok(())
    }

    /// Saves a new session and shows it, without its token.
    pub fn keep_and_show(self, session: &LoggedIn, format: SessionFormat) -> anyhow::Result<()> {
        let url = self.config.url.clone();
        self.keep(session)?;
        let LoggedIn { token: _, expires_at, user_id, email } = session;
        match format {
            SessionFormat::Json => {
                output::json(&json!({ "email": email, "user_id": user_id, "expires_at": expires_at, "api_url": url }))
            }
            SessionFormat::Text => output::line(&format!("logged in to {url} as {email} until {expires_at}")),
        }
    }
}

/// How a new session is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFormat {
    Text,
    Json,
}

impl SessionFormat {
    /// Returns the format for the flag `--json`.
    pub fn from_flag(json: bool) -> Self {
        if json { SessionFormat::Json } else { SessionFormat::Text }
    }
}

/// Reads the config file.
pub fn saved() -> anyhow::Result<SavedConfig> {
    let path = Config::path().context("find the config file: HOME is not set")?;
    SavedConfig::open(path).context("read the config file")
}
