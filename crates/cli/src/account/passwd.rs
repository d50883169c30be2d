//! `pandastack passwd`

use std::process::ExitCode;

use pandastack_client::wire::ChangePassword;
use serde_json::json;

use super::keep::SessionKeeper;
use crate::{
    GlobalArgs,
    advice::advise,
    connect::connect_person,
    output,
    prompt::{self, PasswordSource},
};

/// Changes the password, and saves the new session in the config file. Without a terminal, the
/// current and the new password are two lines of standard input.
pub async fn passwd(global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    prompt::until_stopped(async {
        let (client, keeper) = (connect_person(global)?, SessionKeeper::open(global)?);
        let current = PasswordSource::Prompt.current("Current password: ").await?;
        let new = PasswordSource::Prompt.fresh().await?;
        let (current_password, new_password) = (current.reveal().clone(), new.reveal().clone());
        let ask = ChangePassword { current_password, new_password, ..ChangePassword::default() };
        let session = client.change_password(&ask).await.map_err(advise)?;
        keeper.keep(&session)?;
        if global.is_structured() {
            global.print(&json!({ "email": session.email, "expires_at": session.expires_at }))?;
        } else {
            output::line(&format!("changed the password of {}; all other logins have ended", session.email))?;
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}
