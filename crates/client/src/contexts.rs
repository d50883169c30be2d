//! Several servers in one config file. The fields at the top are those of the current context, so
//! that clients that know no contexts use it too. The other contexts wait under `contexts`.

use pandastack_kit::Secret;
use serde_json::{Map, Value};

use crate::{
    ConfigError, SavedConfig,
    config::normal,
    saved::{BEFORE_LOGIN, KEY_FIELDS, TOKEN, URL_FIELDS},
};

/// The name of the current context. Absent until there is a second one.
const CURRENT: &str = "context";
/// The contexts that are not current: an object of objects.
const OTHERS: &str = "contexts";
/// The name of a server that was configured before there were contexts.
const FIRST_NAME: &str = "default";
/// Longest name of a context.
const NAME_CHARS_MAX: usize = 64;

/// One server of the config file, without its credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedContext {
    pub name: String,
    pub url: String,
    pub is_current: bool,
    /// `login`, `key` or `none`.
    pub credential: &'static str,
}

impl SavedConfig {
    /// Returns the name of the current context.
    pub fn context(&self) -> &str {
        self.text(CURRENT).unwrap_or(FIRST_NAME)
    }

    /// Lists all contexts by name.
    pub fn contexts(&self) -> Vec<SavedContext> {
        let current = (self.context(), self.own_fields(), true);
        let others = self.others().into_iter().flatten();
        let others = others.filter_map(|(name, fields)| Some((name.as_str(), fields.as_object()?.clone(), false)));
        let mut found: Vec<_> = std::iter::once(current)
            // A file without a server has no context yet, unless one was named.
            .filter(|(_, fields, _)| !fields.is_empty() || self.text(CURRENT).is_some())
            .chain(others)
            .map(|(name, fields, is_current)| described(name, fields, is_current))
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// Makes a context current. The present one is kept under its name.
    pub fn use_context(&mut self, name: &str) -> Result<(), ConfigError> {
        if name == self.context() {
            return Ok(());
        }
        let Some(Value::Object(chosen)) = self.others().and_then(|others| others.get(name)).cloned() else {
            return Err(self.no_context(name));
        };
        let (left, own) = (self.context().to_owned(), self.own_fields());
        self.fields.retain(|field, _| !is_own(field));
        self.fields.extend(chosen.into_iter().filter(|(field, _)| is_own(field)));
        self.change_others(|others| {
            others.remove(name);
            if !own.is_empty() {
                others.insert(left, Value::Object(own));
            }
        });
        self.put(CURRENT, name);
        Ok(())
    }

    /// Adds a server, or replaces the one of that name. The current context stays current.
    pub fn add_context(&mut self, name: &str, url: &str, key: Option<&Secret<String>>) -> Result<(), ConfigError> {
        let url = normal(url)?;
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_name_letter) {
            return Err(ConfigError::BadContextName { name: name.chars().take(NAME_CHARS_MAX).collect() });
        }
        let mut fields = Map::new();
        for field in URL_FIELDS {
            fields.insert(field.to_owned(), Value::from(url.as_str()));
        }
        if let Some(key) = key {
            for field in [TOKEN, "api_key"] {
                fields.insert(field.to_owned(), Value::from(key.reveal().as_str()));
            }
        }
        // The first server of an empty file is current at once.
        let is_first = self.contexts().is_empty();
        if is_first || name == self.context() {
            self.fields.retain(|field, _| !is_own(field));
            self.fields.extend(fields);
            self.put(CURRENT, name);
        } else {
            let current = self.context().to_owned();
            self.change_others(|others| others.insert(name.to_owned(), Value::Object(fields)));
            self.put(CURRENT, &current);
        }
        Ok(())
    }

    /// Forgets a server. The current one cannot be removed.
    pub fn remove_context(&mut self, name: &str) -> Result<(), ConfigError> {
        if name == self.context() && self.contexts().iter().any(|context| context.is_current) {
            return Err(ConfigError::CurrentContext { name: name.to_owned() });
        }
        match self.change_others(|others| others.remove(name)) {
            Some(_) => Ok(()),
            None => Err(self.no_context(name)),
        }
    }

    fn no_context(&self, name: &str) -> ConfigError {
        let known: Vec<_> = self.contexts().into_iter().map(|context| context.name).collect();
        ConfigError::NoContext { name: name.chars().take(NAME_CHARS_MAX).collect(), known: known.join(", ") }
    }

    /// The fields of the current context.
    fn own_fields(&self) -> Map<String, Value> {
        self.fields.iter().filter(|(name, _)| is_own(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn others(&self) -> Option<&Map<String, Value>> {
        self.fields.get(OTHERS).and_then(Value::as_object)
    }

    /// Changes the contexts that are not current. Replaces a value of another type, which no
    /// version of this program wrote.
    fn change_others<T>(&mut self, change: impl FnOnce(&mut Map<String, Value>) -> T) -> T {
        let mut others = match self.fields.remove(OTHERS) {
            Some(Value::Object(others)) => others,
            _ => Map::new(),
        };
        let changed = change(&mut others);
        self.fields.insert(OTHERS.to_owned(), Value::Object(others));
        changed
    }
}

/// Tells whether a field belongs to a server and not to the whole file.
fn is_own(field: &str) -> bool {
    field == TOKEN || field == BEFORE_LOGIN || KEY_FIELDS.contains(&field) || URL_FIELDS.contains(&field)
}

fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

fn described(name: &str, fields: Map<String, Value>, is_current: bool) -> SavedContext {
    let config = SavedConfig::of(fields);
    // A bad address is shown as it is, so that the user sees what to repair.
    let url = config.url().unwrap_or_else(|_| config.first_text(&URL_FIELDS).unwrap_or_default().to_owned());
    let credential = match (config.session(), config.api_key()) {
        (Some(_), _) => "login",
        (None, Some(_)) => "key",
        (None, None) => "none",
    };
    SavedContext { name: name.to_owned(), url, is_current, credential }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HERE: &str = "http://here:1";
    const THERE: &str = "http://there:2";

    fn saved(fields: Value) -> SavedConfig {
        let Value::Object(fields) = fields else { panic!("not an object") };
        SavedConfig::of(fields)
    }

    fn key(text: &str) -> Secret<String> {
        Secret::new(text.to_owned())
    }

    /// Name, address and whether it is current, in order.
    fn listed(config: &SavedConfig) -> String {
        let one =
            |c: SavedContext| format!("{}{} {} {}", if c.is_current { "*" } else { "" }, c.name, c.url, c.credential);
        config.contexts().into_iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn the_top_of_the_file_is_always_the_current_server() {
        let mut config = saved(json!({"token": "pds_1", "api_key": "pds_1", "api_url": HERE, "theme": "dark"}));
        assert_eq!(listed(&config), "*default http://here:1 key");
        config.add_context("prod", &format!("{THERE}/v1/"), Some(&key("pds_2"))).unwrap();
        assert_eq!(listed(&config), "*default http://here:1 key; prod http://there:2 key");
        config.use_context("prod").unwrap();
        assert_eq!(listed(&config), "default http://here:1 key; *prod http://there:2 key");
        assert_eq!((config.fields["token"].as_str(), config.fields["apiUrl"].as_str()), (Some("pds_2"), Some(THERE)));
        assert_eq!((&config.fields["theme"], config.url().unwrap().as_str()), (&json!("dark"), THERE));
        // What a login changes goes with its server.
        config.log_in(THERE, &key("pss_9"));
        config.use_context("default").unwrap();
        assert_eq!(listed(&config), "*default http://here:1 key; prod http://there:2 login");
        config.use_context("prod").unwrap();
        config.log_out();
        assert_eq!(config.api_key().unwrap().reveal(), "pds_2");
    }

    #[test]
    fn contexts_are_added_replaced_and_removed() {
        let mut config = saved(json!({}));
        assert_eq!(listed(&config), "");
        config.add_context("one", HERE, None).unwrap();
        assert_eq!(listed(&config), "*one http://here:1 none");
        config.add_context("two", THERE, Some(&key("a"))).unwrap();
        config.add_context("two", HERE, None).unwrap();
        assert_eq!(listed(&config), "*one http://here:1 none; two http://here:1 none");
        assert!(matches!(config.remove_context("one"), Err(ConfigError::CurrentContext { .. })));
        assert!(matches!(config.remove_context("three"), Err(ConfigError::NoContext { .. })));
        config.remove_context("two").unwrap();
        let missing = config.use_context("two").unwrap_err().to_string();
        assert_eq!(missing, "no context \"two\"; known are: one");
        assert!(matches!(config.add_context("a b", HERE, None), Err(ConfigError::BadContextName { .. })));
        assert!(matches!(config.add_context("b", "nonsense", None), Err(ConfigError::BadUrl { .. })));
    }

    #[test]
    fn a_value_of_another_type_is_no_context() {
        let mut config = saved(json!({"api_url": HERE, "contexts": ["x"], "context": 7}));
        assert_eq!(listed(&config), "*default http://here:1 none");
        config.add_context("two", THERE, None).unwrap();
        assert_eq!(listed(&config), "*default http://here:1 none; two http://there:2 none");
    }
}
