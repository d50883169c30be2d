//! `pandastack reset-password`

use std::process::ExitCode;

use anyhow::bail;
use pandastack_client::{
    Client,
    wire::{AskReset, ResetPassword},
};
use serde_json::json;

use super::{LinkSecret, keep::SessionKeeper, link::reset_link};
use crate::{
    GlobalArgs,
    advice::advise,
    output,
    prompt::{self, PasswordSource},
};

/// Arguments of `reset-password`.
#[derive(Debug, clap::Args)]
pub struct ResetPasswordArgs {
    /// Reset link, or the secret in it
    #[arg(value_name = "LINK", value_parser = reset_link, required_unless_present = "email")]
    link: Option<LinkSecret>,
    /// Ask for a link to this address by e-mail
    #[arg(long, value_name = "ADDRESS", conflicts_with = "link")]
    email: Option<String>,
    /// Read the new password from standard input, up to its end
    #[arg(long, conflicts_with = "email")]
    password_stdin: bool,
}

/// Sets a new password with a link, or asks for a link.
pub async fn reset_password(args: ResetPasswordArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    prompt::until_stopped(async {
        let client = SessionKeeper::open(global)?.stranger()?;
        let (value, text) = match (&args.link, &args.email) {
            (Some(link), _) => {
                let password = PasswordSource::from_flag(args.password_stdin).fresh().await?;
                let ask = ResetPassword { token: link.reveal().to_owned(), password: password.reveal().clone() };
                client.reset_password(&ask).await.map_err(advise)?;
                (json!({ "reset": true }), "changed the password; log in with: pandastack login".to_owned())
            }
            (None, Some(email)) => {
                ask_for_link(&client, email).await?;
                (json!({ "asked": email }), format!("if {email} has an account, a link is on its way"))
            }
            (None, None) => bail!("give a reset link, or --email to ask for one"),
        };
        if global.is_structured() {
            global.print(&value)?;
        } else {
            output::line(&text)?;
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

async fn ask_for_link(client: &Client, email: &str) -> anyhow::Result<()> {
    if !client.login_methods().await.map_err(advise)?.reset_by_email {
        bail!("this server sends no e-mail; ask its operator for a reset link");
    }
    client.ask_reset(&AskReset { email: email.to_owned() }).await.map_err(advise)
}
