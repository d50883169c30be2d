//! `pandastack key revoke`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;

use crate::{GlobalArgs, advice::advise, complete, connect::connect, find::FoundKind, many::DeleteFormat};

/// Arguments of `key revoke`.
#[derive(Debug, clap::Args)]
pub struct RevokeArgs {
    /// Keys: ids, unique starts of them, prefixes or labels, as "pandastack key list" shows them
    #[arg(required = true, value_name = "ID", add = ArgValueCompleter::new(complete::keys))]
    keys: Vec<String>,
    /// Revoke even the last working key; create a new one with "pandastack key create --data-dir
    /// DIR" on the server
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Revokes each key. A failure does not stop the others.
pub async fn revoke(args: RevokeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let RevokeArgs { keys, force, form } = args;
    let client = connect(global)?;
    let revoke = async |key: &str| {
        let id = FoundKind::Key.find(&client, key).await?;
        client.revoke_key(&id, force).await.map_err(advise)?;
        // As it was named, so that a script recognises it.
        Ok(key.to_owned())
    };
    form.each_as("revoked", global, keys, revoke).await
}
