//! `pandastack login`

use std::process::ExitCode;

use anyhow::bail;
use pandastack_client::wire::{LogIn, LoggedIn, LoginMethods, SetUp};

use super::{
    keep::SessionKeeper,
    provider::{self, BrowserStart},
};
use crate::{
    GlobalArgs,
    advice::advise,
    prompt::{self, PasswordSource},
};

/// Arguments of `login`.
#[derive(Debug, clap::Args)]
pub struct LoginArgs {
    /// E-mail address of the account; asked for by default
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// Read the password from standard input, up to its end
    #[arg(long, requires = "email")]
    password_stdin: bool,
    /// Log in at the server's identity provider, in a browser on this computer
    #[arg(long, conflicts_with_all = ["email", "setup"])]
    sso: bool,
    /// Print the address for the browser and do not open it
    #[arg(long)]
    no_browser: bool,
    /// Make the first account of a new server, with an API key of the server
    #[arg(long)]
    setup: bool,
    /// Your name, for the first account of a new server
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// How this login happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoginWay {
    FirstAccount,
    Password,
    Provider,
}

/// Logs in and saves the session in the config file.
pub async fn login(args: LoginArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    prompt::until_stopped(async {
        let keeper = SessionKeeper::open(global)?;
        let client = keeper.stranger()?;
        let methods = client.login_methods().await.map_err(advise)?;
        let session = match choose(&args, &methods)? {
            LoginWay::FirstAccount => first_account(&args, &keeper).await?,
            LoginWay::Password => {
                let (email, password) = (email(&args).await?, password_source(&args).current("Password: ").await?);
                let ask = LogIn { email, password: password.reveal().clone(), ..LogIn::default() };
                client.log_in(&ask).await.map_err(advise)?
            }
            LoginWay::Provider => {
                let start = if args.no_browser { BrowserStart::ByHand } else { BrowserStart::Automatic };
                provider::log_in(&client, start).await?
            }
        };
        keeper.keep_and_show(&session, global)?;
        Ok(ExitCode::SUCCESS)
    })
    .await
}

fn choose(args: &LoginArgs, methods: &LoginMethods) -> anyhow::Result<LoginWay> {
    let LoginMethods { setup_required, password, oidc, .. } = *methods;
    if args.sso {
        if !oidc {
            bail!("this server has no identity provider; log in without --sso");
        }
        return Ok(LoginWay::Provider);
    }
    if args.setup || setup_required {
        return Ok(LoginWay::FirstAccount);
    }
    match (password, oidc) {
        (true, _) => Ok(LoginWay::Password),
        (false, true) if args.email.is_some() => {
            bail!("this server has no logins with a password; log in with --sso")
        }
        (false, true) => Ok(LoginWay::Provider),
        (false, false) => bail!("nobody can log in to this server; use an API key"),
    }
}

async fn first_account(args: &LoginArgs, keeper: &SessionKeeper) -> anyhow::Result<LoggedIn> {
    let client = keeper.operator()?;
    eprintln!("this makes the first account of {}, which administers the server", client.url());
    let (email, password) = (email(args).await?, password_source(args).fresh().await?);
    let name = args.name.clone().unwrap_or_default();
    let ask = SetUp { email, password: password.reveal().clone(), name, ..SetUp::default() };
    client.set_up(&ask).await.map_err(advise)
}

async fn email(args: &LoginArgs) -> anyhow::Result<String> {
    match &args.email {
        Some(email) => Ok(email.clone()),
        None => Ok(prompt::ask("E-mail address: ").await?.trim().to_owned()),
    }
}

fn password_source(args: &LoginArgs) -> PasswordSource {
    PasswordSource::from_flag(args.password_stdin)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct OneLogin {
        #[command(flatten)]
        args: LoginArgs,
    }

    fn args(line: &str) -> LoginArgs {
        OneLogin::try_parse_from(["login"].into_iter().chain(line.split_whitespace())).unwrap().args
    }

    /// `methods` names what the server has: setup, password, oidc.
    fn check(line: &str, methods: &str, expected: Result<LoginWay, &str>) {
        let has = |name: &str| methods.contains(name);
        let (setup_required, password, oidc) = (has("setup"), has("password"), has("oidc"));
        let methods = LoginMethods { setup_required, password, oidc, reset_by_email: false, stub: false };
        match (choose(&args(line), &methods), expected) {
            (Ok(way), Ok(expected)) => assert_eq!(way, expected, "{line} {methods:?}"),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{line} {methods:?}: {found:?}"),
        }
    }

    #[test]
    fn the_server_and_the_flags_decide_how_to_log_in() {
        check("", "password oidc", Ok(LoginWay::Password));
        check("--sso", "password oidc", Ok(LoginWay::Provider));
        check("--sso", "setup password oidc", Ok(LoginWay::Provider));
        check("--sso", "password", Err("without --sso"));
        check("", "oidc", Ok(LoginWay::Provider));
        check("--email a@b.c", "oidc", Err("--sso"));
        check("", "setup password", Ok(LoginWay::FirstAccount));
        check("--setup", "password", Ok(LoginWay::FirstAccount));
        check("", "", Err("API key"));
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        for line in ["--sso --email a@b.c", "--sso --setup", "--password-stdin"] {
            assert!(OneLogin::try_parse_from(["login"].into_iter().chain(line.split(' '))).is_err(), "{line}");
        }
    }
}
