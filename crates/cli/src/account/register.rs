//! `pandastack register`

use std::process::ExitCode;

use pandastack_client::wire::{InviteInfo, Register};

use super::{LinkSecret, keep::SessionKeeper, link::invite_link};
use crate::{
    GlobalArgs,
    advice::advise,
    prompt::{self, PasswordSource},
};

/// Arguments of `register`.
#[derive(Debug, clap::Args)]
pub struct RegisterArgs {
    /// Link of the invite, or the secret in it
    #[arg(value_name = "LINK", value_parser = invite_link)]
    invite: LinkSecret,
    /// Your name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Read the password from standard input, up to its end
    #[arg(long)]
    password_stdin: bool,
}

/// Makes an account with an invite, and saves the session in the config file.
pub async fn register(args: RegisterArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    prompt::until_stopped(async {
        let keeper = SessionKeeper::open(global)?;
        let client = keeper.stranger()?;
        // Shown before a password is typed: it may be the wrong invite.
        let InviteInfo { org_name, email, role, .. } =
            client.show_invite(args.invite.reveal()).await.map_err(advise)?;
        eprintln!("{email} joins {org_name} as {role}");
        let password = PasswordSource::from_flag(args.password_stdin).fresh().await?;
        let ask = Register {
            invite: args.invite.reveal().to_owned(),
            password: password.reveal().clone(),
            name: args.name.unwrap_or_default(),
            ..Register::default()
        };
        let session = client.register(&ask).await.map_err(advise)?;
        keeper.keep_and_show(&session, global)?;
        Ok(ExitCode::SUCCESS)
    })
    .await
}
