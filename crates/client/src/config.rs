//! Finds server and key as the published clients do: first in the environment, then in the config
//! file.

use std::{fs, io, path::PathBuf};

use pandastack_kit::Secret;
use reqwest::header::HeaderValue;
use serde::Deserialize;

use crate::SavedConfig;

/// The address of a server that was started without options.
pub const URL_DEFAULT: &str = "http://127.0.0.1:8080";

/// Longest part of a bad value that an error repeats.
const SHOWN_CHARS_MAX: usize = 200;

/// The server's URL, and what each request carries.
#[derive(Clone)]
pub struct Config {
    pub url: String,
    /// An API key, or the token of a session.
    pub key: Option<Secret<String>>,
    /// The organisation that requests act in, by id. By default the person's current one.
    pub(crate) org: Option<HeaderValue>,
}

/// Why the configuration could not be loaded or saved.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{} is not a JSON object of strings", path.display())]
    Parse {
        path: PathBuf,
        #[source]
        cause: serde_json::Error,
    },
    #[error("write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("bad server address {url:?}: {why}")]
    BadUrl { url: String, why: &'static str },
    #[error("no context {name:?}; {}", known_text(known))]
    NoContext {
        name: String,
        /// The names of all contexts, separated by commas.
        known: String,
    },
    #[error("bad name {name:?} of a context: use letters, digits, '-', '_' and '.'")]
    BadContextName { name: String },
    #[error("{name} is the current context; choose another first with: pandastack context use")]
    CurrentContext { name: String },
    #[error("bad organisation {org:?}: use an id; list yours with: pandastack org list")]
    BadOrg { org: String },
}

/// The config file, with all spellings that other clients write.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigFile {
    token: Option<String>,
    #[serde(rename = "apiKey")]
    api_key_camel: Option<String>,
    api_key: Option<String>,
    #[serde(rename = "apiUrl")]
    api_url_camel: Option<String>,
    api_url: Option<String>,
}

impl Config {
    /// Reads the environment and the config file.
    pub fn load() -> Result<Self, ConfigError> {
        Self::load_with(|name| std::env::var(name).ok(), Self::path())
    }

    /// Uses a context of the config file. Variables for the address and the key do not apply, so
    /// that no key is sent to a server that it does not belong to.
    pub fn load_context(name: &str) -> Result<Self, ConfigError> {
        let mut saved = match Self::path() {
            Some(path) => SavedConfig::open(path)?,
            None => return Err(ConfigError::NoContext { name: name.to_owned(), known: String::new() }),
        };
        saved.use_context(name)?;
        Ok(Self { url: saved.url()?, key: saved.credential(), org: None })
    }

    /// Returns the path of the config file; `None` without a home directory.
    pub fn path() -> Option<PathBuf> {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
        Some(PathBuf::from(home).join(".config/pandastack/config.json"))
    }

    /// Loads the configuration from the given sources.
    pub fn load_with(env: impl Fn(&str) -> Option<String>, path: Option<PathBuf>) -> Result<Self, ConfigError> {
        let env = |name| env(name).filter(|value| !value.is_empty());
        let file = path.map(read).transpose()?.unwrap_or_default();
        let url = env("PANDASTACK_API_URL").or_else(|| env("PANDASTACK_API")).or(file.api_url_camel).or(file.api_url);
        let key = env("PANDASTACK_API_KEY").or(file.token).or(file.api_key_camel).or(file.api_key);
        let url = normal(&url.unwrap_or_else(|| URL_DEFAULT.to_owned()))?;
        Ok(Self { url, key: key.filter(|key| !key.is_empty()).map(Secret::new), org: None })
    }

    /// Uses another server.
    pub fn with_url(mut self, url: &str) -> Result<Self, ConfigError> {
        self.url = normal(url)?;
        Ok(self)
    }

    /// Uses another key.
    pub fn with_key(mut self, key: String) -> Self {
        self.key = Some(Secret::new(key));
        self
    }

    /// Sends no credential and chooses no organisation, as before a login.
    pub fn without_key(self) -> Self {
        Self { url: self.url, key: None, org: None }
    }

    /// Acts in another organisation than the person's current one.
    pub fn with_org(mut self, org: &str) -> Result<Self, ConfigError> {
        let bad = || ConfigError::BadOrg { org: org.chars().take(SHOWN_CHARS_MAX).collect() };
        self.org = Some(HeaderValue::from_str(org).map_err(|_| bad())?);
        Ok(self)
    }
}

fn known_text(known: &str) -> String {
    match known {
        "" => "add one with: pandastack context add NAME URL".to_owned(),
        known => format!("known are: {known}"),
    }
}

fn read(path: PathBuf) -> Result<ConfigFile, ConfigError> {
    match fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|cause| ConfigError::Parse { path, cause }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ConfigFile::default()),
        Err(cause) => Err(ConfigError::Read { path, cause }),
    }
}

/// Removes a trailing slash and `/v1`, which every request adds itself.
pub(crate) fn normal(url: &str) -> Result<String, ConfigError> {
    let bad = |why| ConfigError::BadUrl { url: url.chars().take(SHOWN_CHARS_MAX).collect(), why };
    let parsed = reqwest::Url::parse(url).map_err(|_| bad("use an address such as http://127.0.0.1:8080"))?;
    match parsed.scheme() {
        "http" | "https" => {}
        _ => return Err(bad("it must start with http:// or https://")),
    }
    let trimmed = url.trim_end_matches('/');
    Ok(trimmed.strip_suffix("/v1").unwrap_or(trimmed).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(env: &[(&str, &str)], file: Option<&str>) -> Result<(String, Option<String>), ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        if let Some(file) = file {
            fs::write(&path, file).unwrap();
        }
        let find = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Config::load_with(find, Some(path)).map(|config| (config.url, config.key.map(|key| key.reveal().clone())))
    }

    fn check(env: &[(&str, &str)], file: Option<&str>, url: &str, key: Option<&str>) {
        assert_eq!(load(env, file).unwrap(), (url.to_owned(), key.map(str::to_owned)), "{env:?} {file:?}");
    }

    #[test]
    fn the_environment_beats_the_file() {
        check(&[], None, URL_DEFAULT, None);
        check(&[], Some(r#"{"token":"a","api_key":"b","apiUrl":"http://f:1/"}"#), "http://f:1", Some("a"));
        check(&[], Some(r#"{"api_key":"b","api_url":"http://f:2/v1","email":"x"}"#), "http://f:2", Some("b"));
        let env = [("PANDASTACK_API_KEY", "k"), ("PANDASTACK_API", "http://e:1")];
        check(&env, Some(r#"{"token":"a","apiUrl":"http://f:1"}"#), "http://e:1", Some("k"));
        check(&[("PANDASTACK_API_URL", "http://e:2"), ("PANDASTACK_API", "http://e:1")], None, "http://e:2", None);
    }

    #[test]
    fn bad_sources_are_named() {
        assert!(matches!(load(&[], Some("[")), Err(ConfigError::Parse { .. })));
        assert!(matches!(load(&[("PANDASTACK_API", "ftp://x")], None), Err(ConfigError::BadUrl { .. })));
        assert!(matches!(load(&[("PANDASTACK_API", "x")], None), Err(ConfigError::BadUrl { .. })));
        let config = Config::load_with(|_| None, None).unwrap();
        assert!(matches!(config.with_org("a\nb"), Err(ConfigError::BadOrg { .. })));
    }
}
