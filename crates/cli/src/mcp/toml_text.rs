//! Changes one table in the text of a TOML file. All other lines stay as they are.

use anyhow::bail;
use serde_json::{Map, Value};

/// Sets the table `[mcp_servers.NAME]`, and returns the new text.
pub fn set_table(text: &str, name: &str, entry: &Map<String, Value>) -> anyhow::Result<String> {
    let header = format!("[mcp_servers.{name}]");
    let inner = format!("[mcp_servers.{name}.");
    let quoted = format!("[mcp_servers.\"{name}\"");
    let (mut kept, mut is_old) = (Vec::new(), false);
    // Comments after the last line of the old table belong to what follows.
    let mut comments = Vec::new();
    for line in text.lines() {
        let bare = line.trim();
        if bare.starts_with("mcp_servers") || bare.starts_with(&quoted) {
            bail!("the file has the servers in another form ({bare:?})");
        }
        if bare.starts_with('[') {
            is_old = bare.starts_with(&header) || bare.starts_with(&inner);
        }
        match is_old {
            true if bare.is_empty() || bare.starts_with('#') => comments.push(line),
            true => comments.clear(),
            false => {
                kept.append(&mut comments);
                kept.push(line);
            }
        }
    }
    kept.append(&mut comments);
    while kept.last().is_some_and(|line| line.trim().is_empty()) {
        kept.pop();
    }
    let mut new = kept.join("\n");
    if !new.is_empty() {
        new.push_str("\n\n");
    }
    new.push_str(&table(&header, entry));
    Ok(new)
}

fn table(header: &str, entry: &Map<String, Value>) -> String {
    let lines = entry.iter().map(|(name, value)| format!("{name} = {}\n", written(value)));
    format!("{header}\n{}", lines.collect::<String>())
}

fn written(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, field)| format!("{} = {}", Value::from(name.as_str()), written(field)))
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        // Strings, numbers and booleans of JSON are also valid in TOML.
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_is_added_or_replaced_and_the_rest_stays() {
        let entry = json!({"command": "/bin/p", "args": ["mcp", "--read-only"], "env": {"A_B": "c\"d"}});
        let entry = entry.as_object().unwrap();
        let table = "[mcp_servers.pandastack]\nargs = [\"mcp\", \"--read-only\"]\ncommand = \"/bin/p\"\nenv = { \
                     \"A_B\" = \"c\\\"d\" }\n";
        assert_eq!(set_table("", "pandastack", entry).unwrap(), table);
        let text = "# mine\nmodel = \"x\"\n\n[mcp_servers.other]\ncommand = \"y\"\n";
        let added = set_table(text, "pandastack", entry).unwrap();
        assert_eq!(added, format!("{text}\n{table}"));
        let old = "[mcp_servers.pandastack]\ncommand = \"old\"\n[mcp_servers.pandastack.env]\nX = \"1\"\n";
        let (before, after) = ("model = \"x\"\n\n", "\n# about y\n[mcp_servers.other]\ncommand = \"y\"\n");
        let moved = set_table(&format!("{before}{old}{after}"), "pandastack", entry).unwrap();
        assert_eq!(moved, format!("{before}{after}\n{table}"));
        assert_eq!(set_table(&added, "pandastack", entry).unwrap(), added, "a second time changes nothing");
        assert!(set_table("mcp_servers = {}\n", "pandastack", entry).is_err());
    }
}
