//! The server that a person logs in to, and the file that keeps the session.

use anyhow::{Context, bail};
use pandastack_client::{Client, Config, ConfigError, SavedConfig, wire::LoggedIn};
use pandastack_kit::Secret;
use serde_json::json;

use crate::{GlobalArgs, connect::server, output};

/// Overrides what the config file says.
const KEY_VARIABLE: &str = "PANDASTACK_API_KEY";

/// A server, and the config file.
pub struct SessionKeeper {
    config: Config,
    saved: SavedConfig,
    /// The context that stays current, if the login is to another one.
    stays: Option<String>,
}

impl SessionKeeper {
    /// Reads the configuration. A key is not needed.
    pub fn open(global: &GlobalArgs) -> anyhow::Result<Self> {
        let (saved, stays) = saved_context(global)?;
        Ok(Self { config: server(global)?, saved, stays })
    }

    /// Creates a client that sends no credential.
    pub fn stranger(&self) -> anyhow::Result<Client> {
        Ok(Client::new(self.config.clone().without_key())?)
    }

    /// Creates a client with an API key, which makes the first account.
    pub fn operator(&self) -> anyhow::Result<Client> {
        let from_variable = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty() && self.stays.is_none());
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
        save(&mut self.saved, self.stays.as_deref()).context("save the login")?;
        if std::env::var_os(KEY_VARIABLE).is_some_and(|key| !key.is_empty()) {
            output::warn(&format!("{KEY_VARIABLE} is set and is used instead of this login; unset it"));
        }
        Ok(())
    }

    /// Saves a new session and shows it, without its token.
    pub fn keep_and_show(self, session: &LoggedIn, global: &GlobalArgs) -> anyhow::Result<()> {
        let url = self.config.url.clone();
        self.keep(session)?;
        let LoggedIn { token: _, expires_at, user_id, email } = session;
        if global.is_structured() {
            global.print(&json!({ "email": email, "user_id": user_id, "expires_at": expires_at, "api_url": url }))
        } else {
            output::line(&format!("logged in to {url} as {email} until {expires_at}"))
        }
    }
}

/// Reads the config file, with the chosen context as the current one. Returns also the context
/// that is to be current again when the file is saved.
pub fn saved_context(global: &GlobalArgs) -> anyhow::Result<(SavedConfig, Option<String>)> {
    let mut saved = saved()?;
    let Some(name) = global.chosen_context() else { return Ok((saved, None)) };
    let stays = saved.context().to_owned();
    saved.use_context(name)?;
    Ok((saved, Some(stays)))
}

/// Saves what `saved_context` returned.
pub fn save(saved: &mut SavedConfig, stays: Option<&str>) -> Result<(), ConfigError> {
    if let Some(stays) = stays {
        saved.use_context(stays)?;
    }
    saved.save()
}

/// Reads the config file.
pub fn saved() -> anyhow::Result<SavedConfig> {
    let path = Config::path().context("find the config file: HOME is not set")?;
    SavedConfig::open(path).context("read the config file")
}
