//! MCP clients: where each keeps its configuration, and how an entry looks there.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// The variable that holds the key when it is not in the file.
pub const KEY_VARIABLE: &str = "PANDASTACK_API_KEY";

/// A client whose configuration can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum McpClient {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    Vscode,
    Windsurf,
    Codex,
    Gemini,
}

/// How the client reaches the tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpEntry {
    /// The client starts a program.
    Program {
        command: String,
        args: Vec<String>,
        /// Written only if the user asks for it.
        key: Option<String>,
    },
    /// The client connects to a server.
    Address { url: String, key: Option<String> },
}

/// The form of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigForm {
    /// JSON, with the entries in this field.
    Json(&'static str),
    Toml,
}

impl McpClient {
    /// Returns the path of the client's file.
    pub fn path(self, home: &Path) -> PathBuf {
        let mac = cfg!(target_os = "macos");
        home.join(match self {
            Self::ClaudeDesktop if mac => "Library/Application Support/Claude/claude_desktop_config.json",
            Self::ClaudeDesktop => ".config/Claude/claude_desktop_config.json",
            Self::ClaudeCode => ".claude.json",
            Self::Cursor => ".cursor/mcp.json",
            Self::Vscode if mac => "Library/Application Support/Code/User/mcp.json",
            Self::Vscode => ".config/Code/User/mcp.json",
            Self::Windsurf => ".codeium/windsurf/mcp_config.json",
            Self::Codex => ".codex/config.toml",
            Self::Gemini => ".gemini/settings.json",
        })
    }

    pub fn form(self) -> ConfigForm {
        match self {
            Self::Vscode => ConfigForm::Json("servers"),
            Self::Codex => ConfigForm::Toml,
            _ => ConfigForm::Json("mcpServers"),
        }
    }

    /// Returns the entry in the client's form, or why the client cannot have it.
    pub fn entry(self, entry: &McpEntry) -> Result<Map<String, Value>, &'static str> {
        let fields = match entry {
            McpEntry::Program { command, args, key } => {
                let mut fields = json!({"command": command, "args": args});
                if let Some(key) = key {
                    fields["env"] = json!({KEY_VARIABLE: key});
                }
                if matches!(self, Self::Vscode | Self::ClaudeCode) {
                    fields["type"] = json!("stdio");
                }
                fields
            }
            McpEntry::Address { url, key } => self.remote(url, key.as_deref())?,
        };
        match fields {
            Value::Object(fields) => Ok(fields),
            _ => Err("the entry is not an object"),
        }
    }

    fn remote(self, url: &str, key: Option<&str>) -> Result<Value, &'static str> {
        let bearer = |place: &str| json!({"Authorization": format!("Bearer {}", key.unwrap_or(place))});
        Ok(match self {
            Self::ClaudeDesktop => {
                return Err("Claude Desktop starts local programs only; leave out --http");
            }
            Self::ClaudeCode => json!({"type": "http", "url": url, "headers": bearer("${PANDASTACK_API_KEY}")}),
            Self::Cursor => json!({"url": url, "headers": bearer("${env:PANDASTACK_API_KEY}")}),
            Self::Vscode => json!({"type": "http", "url": url, "headers": bearer("${env:PANDASTACK_API_KEY}")}),
            Self::Windsurf => json!({"serverUrl": url, "headers": bearer("${env:PANDASTACK_API_KEY}")}),
            Self::Gemini => json!({"httpUrl": url, "headers": bearer("$PANDASTACK_API_KEY")}),
            Self::Codex => match key {
                Some(_) => json!({"url": url, "http_headers": bearer("")}),
                None => json!({"url": url, "bearer_token_env_var": KEY_VARIABLE}),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn the_key_is_in_an_entry_only_if_it_was_given() {
        for client in McpClient::value_variants() {
            for key in [None, Some("pds_secret".to_owned())] {
                let program =
                    McpEntry::Program { command: "/bin/p".into(), args: vec!["mcp".into()], key: key.clone() };
                let address = McpEntry::Address { url: "http://x/mcp".into(), key: key.clone() };
                for entry in [program, address] {
                    let Ok(fields) = client.entry(&entry) else {
                        assert_eq!(
                            (*client, matches!(entry, McpEntry::Address { .. })),
                            (McpClient::ClaudeDesktop, true)
                        );
                        continue;
                    };
                    let written = Value::Object(fields).to_string();
                    assert_eq!(written.contains("pds_secret"), key.is_some(), "{client:?} {written}");
                    let is_remote = matches!(entry, McpEntry::Address { .. });
                    assert_eq!(
                        written.contains("PANDASTACK_API_KEY"),
                        is_remote != key.is_some(),
                        "{client:?} {written}"
                    );
                }
            }
        }
    }
}
