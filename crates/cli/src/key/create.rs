//! `pandastack key create`

use std::process::ExitCode;

use pandastack_client::wire::{ApiKey, CreateApiKey};

use crate::{
    GlobalArgs,
    advice::advise,
    connect::connect,
    output::{self, OutputForm},
};

/// Arguments of `key create`.
#[derive(Debug, clap::Args)]
pub struct CreateKeyArgs {
    /// What the key is for, such as "ci" or a person's name
    #[arg(value_name = "LABEL")]
    label: Option<String>,
    /// Expire after this many days; by default the key works until it is revoked
    #[arg(long, value_name = "DAYS")]
    expires_in_days: Option<i64>,
}

impl CreateKeyArgs {
    /// Returns the request to the server.
    pub fn ask(&self) -> CreateApiKey {
        CreateApiKey { label: self.label.clone(), expires_in_days: self.expires_in_days }
    }
}

/// Creates a key on the server.
pub async fn create(args: CreateKeyArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let key = connect(global)?.create_key(&args.ask()).await.map_err(advise)?;
    show(&key, global)
}

/// Prints a new key. Standard output gets only the key, so that scripts can read it.
pub fn show(key: &ApiKey, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    // With `-o name` too: the key itself can never be shown again.
    if matches!(global.form(), OutputForm::Json | OutputForm::Yaml) {
        global.print(key)?;
    } else {
        output::line(key.token.as_deref().unwrap_or_default())?;
        eprintln!("the key is shown only once; revoke it with: pandastack key revoke {}", key.id);
    }
    Ok(ExitCode::SUCCESS)
}
