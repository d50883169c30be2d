//! `pandastack key list`

use std::process::ExitCode;

use pandastack_client::wire::ApiKey;

use crate::{
    GlobalArgs,
    connect::connect,
    many::{ListFormat, TableFormat},
};

/// Arguments of `key list`.
#[derive(Debug, clap::Args)]
pub struct ListKeysArgs {
    #[command(flatten)]
    form: ListFormat,
}

/// Lists keys.
pub async fn list(args: ListKeysArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let head = &["ID", "PREFIX", "LABEL", "CREATED", "BY", "LAST USED", "EXPIRES"];
    let listing = TableFormat { head, row, empty: "no keys; create one with: pandastack key create" };
    args.form.print(global, listing, async || client.keys().await).await
}

fn row(key: &ApiKey) -> Vec<String> {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let prefix = if key.current { format!("{} (this one)", key.prefix) } else { key.prefix.clone() };
    vec![
        key.id.clone(),
        prefix,
        or_dash(&key.label),
        key.created_at.clone(),
        key.created_by.clone(),
        or_dash(&key.last_used_at),
        or_dash(&key.expires_at),
    ]
}
