//! The config file as logins change it. Fields of other programs stay, and a logout restores what
//! the login replaced. The file is readable by its owner only.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use pandastack_kit::{Secret, replace_private};
use serde_json::{Map, Value};

use crate::{
    ConfigError,
    config::{URL_DEFAULT, normal},
};

/// What the token of a session begins with.
const SESSION_PREFIX: &str = "pss_";
/// The credential that clients prefer.
pub(crate) const TOKEN: &str = "token";
/// The API key and the address, in the spellings that clients read, the preferred one first.
pub(crate) const KEY_FIELDS: [&str; 2] = ["apiKey", "api_key"];
pub(crate) const URL_FIELDS: [&str; 2] = ["apiUrl", "api_url"];
/// Address and key of the server that was used before a login to another one.
pub(crate) const BEFORE_LOGIN: &str = "before_login";

/// The config file, to be changed by a login or a logout.
pub struct SavedConfig {
    path: PathBuf,
    pub(crate) fields: Map<String, Value>,
}

impl SavedConfig {
    /// Reads the file. A missing file is an empty one.
    pub fn open(path: PathBuf) -> Result<Self, ConfigError> {
        let fields = match fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(fields) => fields,
                Err(cause) => return Err(ConfigError::Parse { path, cause }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Map::new(),
            Err(cause) => return Err(ConfigError::Read { path, cause }),
        };
        Ok(Self { path, fields })
    }

    /// Reads fields that are in no file.
    pub(crate) fn of(fields: Map<String, Value>) -> Self {
        Self { path: PathBuf::new(), fields }
    }

    /// Returns the credential that requests carry: the session, or else the API key.
    pub fn credential(&self) -> Option<Secret<String>> {
        self.session().or_else(|| self.api_key())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the address of the server that the file names.
    pub fn url(&self) -> Result<String, ConfigError> {
        normal(self.first_text(&URL_FIELDS).unwrap_or(URL_DEFAULT))
    }

    /// Returns the token of the saved session.
    pub fn session(&self) -> Option<Secret<String>> {
        let token = self.text(TOKEN).filter(|token| is_session(token))?;
        Some(Secret::new(token.to_owned()))
    }

    /// Returns the API key that is used without a session.
    pub fn api_key(&self) -> Option<Secret<String>> {
        let token = self.text(TOKEN).filter(|token| !is_session(token));
        Some(Secret::new(token.or_else(|| self.first_text(&KEY_FIELDS))?.to_owned()))
    }

    /// Records a session. An API key moves to its own field.
    pub fn log_in(&mut self, url: &str, token: &Secret<String>) {
        let api_key = self.api_key();
        if let Some(key) = &api_key {
            self.put_spelled(KEY_FIELDS, key.reveal());
        }
        if self.session().is_none() {
            self.fields.remove(BEFORE_LOGIN);
        }
        let is_other_server = self.url().map_or(true, |saved| saved != url);
        if is_other_server && api_key.is_some() && !self.fields.contains_key(BEFORE_LOGIN) {
            // Left in place, the key of one server would be sent to another after the logout.
            let names = URL_FIELDS.iter().chain(&KEY_FIELDS);
            let moved: Map<_, _> = names.filter_map(|name| self.fields.remove_entry(*name)).collect();
            self.fields.insert(BEFORE_LOGIN.to_owned(), Value::Object(moved));
        }
        for name in URL_FIELDS {
            self.put(name, url);
        }
        self.put(TOKEN, token.reveal());
    }

    /// Removes the session.
    pub fn log_out(&mut self) {
        self.fields.remove(TOKEN);
        if let Some(Value::Object(before)) = self.fields.remove(BEFORE_LOGIN) {
            self.fields.retain(|name, _| !URL_FIELDS.contains(&name.as_str()));
            self.fields.extend(before);
        }
    }

    /// Replaces the file atomically: readers see the old contents or the new.
    pub fn save(&self) -> Result<(), ConfigError> {
        let contents = serde_json::to_vec_pretty(&self.fields).map_err(io::Error::from);
        let saved = contents.and_then(|contents| replace(&self.path, &contents));
        saved.map_err(|cause| ConfigError::Write { path: self.path.clone(), cause })
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub(crate) fn first_text(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.text(name))
    }

    pub(crate) fn put(&mut self, name: &str, text: &str) {
        self.fields.insert(name.to_owned(), Value::from(text));
    }

    /// Writes the last spelling, and the preferred one if the file has it.
    fn put_spelled(&mut self, [preferred, other]: [&str; 2], text: &str) {
        if self.fields.contains_key(preferred) {
            self.put(preferred, text);
        }
        self.put(other, text);
    }
}

fn is_session(token: &str) -> bool {
    token.starts_with(SESSION_PREFIX)
}

/// Writes a file that only its owner may read, in a folder that may be missing.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    replace_private(path, contents)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;
    use crate::Config;

    const HERE: &str = "http://here:1";
    const OTHER: &str = "http://other:2";

    fn saved(fields: Value) -> SavedConfig {
        let Value::Object(fields) = fields else { panic!("not an object") };
        SavedConfig { path: "/nowhere/config.json".into(), fields }
    }

    fn session(number: u8) -> Secret<String> {
        Secret::new(format!("pss_{number}"))
    }

    /// What every client reads from the file.
    fn used(config: &SavedConfig) -> (String, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        fs::write(&path, serde_json::to_vec(&config.fields).unwrap()).unwrap();
        let config = Config::load_with(|_| None, Some(path)).unwrap();
        (config.url, config.key.map(|key| key.reveal().clone()))
    }

    #[test]
    fn a_logout_goes_back_to_the_api_key() {
        // As `up` writes it, as older clients write it, and in the other spelling.
        for before in [
            json!({"token": "pds_1", "api_key": "pds_1", "apiUrl": HERE, "api_url": HERE, "theme": "dark"}),
            json!({"token": "pds_1", "api_url": HERE, "theme": "dark"}),
            json!({"apiKey": "pds_1", "apiUrl": HERE, "theme": "dark"}),
            json!({"token": "pds_1", "apiKey": "pds_never_used", "api_url": HERE, "theme": "dark"}),
        ] {
            let mut config = saved(before.clone());
            config.log_in(HERE, &session(1));
            assert_eq!(used(&config), (HERE.into(), Some("pss_1".into())), "{before}");
            assert_eq!(config.session().unwrap().reveal(), "pss_1");
            assert_eq!(config.api_key().unwrap().reveal(), "pds_1", "{before}");
            config.log_in(HERE, &session(2));
            config.log_out();
            assert_eq!(used(&config), (HERE.into(), Some("pds_1".into())), "{before}");
            assert!(config.session().is_none());
            assert_eq!(config.fields["theme"], "dark");
        }
    }

    #[test]
    fn the_key_of_one_server_is_not_sent_to_another() {
        let mut config = saved(json!({"token": "pds_1", "api_url": HERE}));
        config.log_in(OTHER, &session(1));
        assert_eq!(used(&config), (OTHER.into(), Some("pss_1".into())));
        assert!(config.api_key().is_none());
        config.log_in("http://third:3", &session(2));
        assert_eq!(used(&config), ("http://third:3".into(), Some("pss_2".into())));
        config.log_out();
        assert_eq!(used(&config), (HERE.into(), Some("pds_1".into())));
        assert!(!config.fields.contains_key(BEFORE_LOGIN));
    }

    #[test]
    fn what_another_program_wrote_after_a_login_counts() {
        let mut config = saved(json!({"token": "pds_1", "api_url": HERE}));
        config.log_in(OTHER, &session(1));
        // `up` of a new server replaces the credential.
        for (name, value) in [("token", "pds_2"), ("api_key", "pds_2"), ("api_url", HERE), ("apiUrl", HERE)] {
            config.put(name, value);
        }
        assert!(config.session().is_none());
        config.log_in(HERE, &session(2));
        config.log_out();
        assert_eq!(used(&config), (HERE.into(), Some("pds_2".into())));
    }

    #[test]
    fn a_login_without_a_file_leaves_only_the_address() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/config.json");
        let mut config = SavedConfig::open(path.clone()).unwrap();
        assert!(config.session().is_none() && config.api_key().is_none());
        config.log_in(HERE, &session(1));
        config.save().unwrap();
        let mut config = SavedConfig::open(path.clone()).unwrap();
        assert_eq!((config.url().unwrap().as_str(), config.session().unwrap().reveal().as_str()), (HERE, "pss_1"));
        config.log_out();
        config.save().unwrap();
        assert_eq!(used(&config), (HERE.into(), None));
        let left = SavedConfig::open(path).unwrap();
        assert_eq!(left.fields.keys().collect::<Vec<_>>(), ["apiUrl", "api_url"]);
    }

    #[test]
    fn the_file_is_private_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("config.json"), folder.path().join("victim"));
        fs::write(&victim, "untouched").unwrap();
        fs::write(&path, r#"{"token":"pds_1"}"#).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&victim, folder.path().join("config.json.new")).unwrap();
        let mut config = SavedConfig::open(path.clone()).unwrap();
        config.log_in(HERE, &session(1));
        config.save().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    }

    #[test]
    fn a_broken_file_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        for bad in ["[", "[]", "\"x\""] {
            fs::write(&path, bad).unwrap();
            assert!(matches!(SavedConfig::open(path.clone()), Err(ConfigError::Parse { .. })), "{bad}");
        }
    }
}
