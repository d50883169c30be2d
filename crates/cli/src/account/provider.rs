//! A login at the server's identity provider, in a browser on this computer.

use std::process::Stdio;

use pandastack_client::{
    Client,
    wire::{ExchangeCode, LoggedIn},
};

use super::{callback::CallbackListener, challenge::LoginVerifier};
use crate::{advice::advise, spinner::Spinner};

/// Who opens the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowserStart {
    Automatic,
    ByHand,
}

/// Logs in: the browser brings a code to a port of this program, which exchanges it for a session.
pub async fn log_in(client: &Client, start: BrowserStart) -> anyhow::Result<LoggedIn> {
    let (listener, verifier) = (CallbackListener::bind().await?, LoginVerifier::generate());
    let url = client.oidc_start_url(listener.url(), &verifier.challenge())?;
    eprintln!("log in with a browser on this computer:\n\n  {url}\n");
    if start == BrowserStart::Automatic {
        open(&url);
    }
    let spinner = Spinner::start("waiting for the browser");
    let code = listener.code().await?;
    drop(spinner);
    let ask = ExchangeCode { code: code.reveal().clone(), verifier: verifier.reveal().to_owned() };
    client.exchange_code(&ask).await.map_err(advise)
}

/// Tries to open a browser. The address was printed in case it fails.
fn open(url: &str) {
    let (program, has_screen) = if cfg!(target_os = "macos") {
        ("open", true)
    } else {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        ("xdg-open", is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
    };
    if has_screen {
        let mut command = tokio::process::Command::new(program);
        let _ = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }
}
