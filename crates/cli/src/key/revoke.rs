//! `pandastack key revoke`

use std::process::ExitCode;

use serde_json::json;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `key revoke`.
#[derive(Debug, clap::Args)]
pub struct RevokeArgs {
    /// Ids or prefixes, as "pandastack key list" shows them
    #[arg(required = true, value_name = "ID")]
    keys: Vec<String>,
    /// Revoke even the last working key; create a new one with "pandastack key create --data-dir
    /// DIR" on the server
    #[arg(long)]
    force: bool,
    /// Print what was revoked as JSON
    #[arg(long)]
    json: bool,
}

/// Revokes each key. A failure does not stop the others.
pub async fn revoke(args: RevokeArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let RevokeArgs { keys, force, json } = args;
    let client = connect(global)?;
    let (mut revoked, mut ended) = (Vec::new(), ExitCode::SUCCESS);
    for key in keys {
        match client.revoke_key(&key, force).await {
            Ok(()) => {
                if !json {
                    output::line(&format!("revoked {key}"))?;
                }
                revoked.push(key);
            }
            Err(error) => {
                eprintln!("error: {key}: {}", advise(error));
                ended = ExitCode::FAILURE;
            }
        }
    }
    if json {
        output::json(&json!({ "revoked": revoked }))?;
    }
    Ok(ended)
}
