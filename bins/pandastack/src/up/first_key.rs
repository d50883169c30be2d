//! Where the first API key goes: to a terminal, to the clients' configuration or to a private file.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use pandastack_control::BootstrapKey;
use pandastack_kit::replace_private;
use serde_json::{Value, json};

/// File in the data folder for the first key, if the key is neither printed nor written to the
/// clients' configuration.
const FIRST_KEY: &str = "first-key";

/// Describes the first key. The key is a secret: it is printed only to a terminal, never to a
/// journal or a log file.
pub fn key_line(key: &BootstrapKey, is_terminal: bool, kept: &Path) -> String {
    match key {
        BootstrapKey::Given(_) => "as given in PANDASTACK_BOOTSTRAP_KEY".to_owned(),
        BootstrapKey::Made(key) if is_terminal => format!("{} (shown only once)", key.reveal()),
        BootstrapKey::Made(_) => format!("created; stored in {}", kept.display()),
        BootstrapKey::Revoked { prefix } => {
            format!("{prefix}… from PANDASTACK_BOOTSTRAP_KEY was revoked and does not work")
        }
        BootstrapKey::Kept { prefix } => format!("{prefix}… (created at an earlier start)"),
    }
}

/// Stores a new key in the data folder, for operators who see neither the terminal nor the
/// clients' configuration.
pub fn keep_first_key(data_dir: &Path, key: &BootstrapKey) -> Result<PathBuf> {
    let path = data_dir.join(FIRST_KEY);
    if let BootstrapKey::Made(key) = key {
        replace_private(&path, format!("{}\n", key.reveal()).as_bytes()).context("store the first API key")?;
    }
    Ok(path)
}

/// Writes the configuration that the clients read. Keeps all other fields of the file.
pub fn write_config(home: &Path, url: &str, key: Option<&str>) -> Result<PathBuf> {
    let path = home.join(".config/pandastack/config.json");
    let kept = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let mut config = kept.filter(Value::is_object).unwrap_or_else(|| json!({}));
    config["api_url"] = json!(url);
    config["apiUrl"] = json!(url);
    if let Some(key) = key {
        config["token"] = json!(key);
        config["api_key"] = json!(key);
    }
    let folder = path.parent().context("find the configuration folder")?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder).context("create the configuration folder")?;
    replace_private(&path, &serde_json::to_vec_pretty(&config)?).context("write the clients' configuration")?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

    use pandastack_kit::Secret;

    use super::*;

    #[test]
    fn the_clients_configuration_is_private_keeps_the_rest_and_follows_no_link() {
        let home = std::env::temp_dir().join(format!("pandastack-home-{}", std::process::id()));
        let folder = home.join(".config/pandastack");
        std::fs::create_dir_all(&folder).unwrap();
        let victim = home.join("victim");
        std::fs::write(&victim, "untouched").unwrap();
        // The temporary names that older and current versions use.
        for trap in ["config.new", "config.json.new"] {
            std::os::unix::fs::symlink(&victim, folder.join(trap)).unwrap();
        }
        std::fs::write(folder.join("config.json"), r#"{"theme":"dark","token":"old"}"#).unwrap();
        let path = write_config(&home, "http://127.0.0.1:1", Some("pds_secret")).unwrap();
        assert_eq!(pandastack_sys::private::open_mode(&path), None);
        let config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((&config["theme"], &config["token"]), (&json!("dark"), &json!("pds_secret")));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
        std::fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn the_first_key_is_printed_to_a_person_and_to_nobody_else() {
        let made = BootstrapKey::Made(Secret::new("pds_secret".to_owned()));
        let kept = Path::new("/data/first-key");
        assert!(key_line(&made, true, kept).contains("pds_secret"));
        let line = key_line(&made, false, kept);
        assert!(!line.contains("pds_secret") && line.contains("/data/first-key"), "{line}");
        let given = BootstrapKey::Given(Secret::new("pds_secret".to_owned()));
        assert!(!key_line(&given, true, kept).contains("pds_secret"));
    }
}
