//! A login at the server's identity provider, in a browser on this computer.

use pandastack_client::{
    Client,
    wire::{ExchangeCode, LoggedIn},
};

use super::{callback::CallbackListener, challenge::LoginVerifier};
use crate::{advice::advise, browser, spinner::Spinner};

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
        // The address was printed in case this fails.
        browser::open(&url);
    }
    let spinner = Spinner::start("waiting for the browser");
    let code = listener.code().await?;
    drop(spinner);
    let (code, verifier) = (code.reveal().clone(), verifier.reveal().to_owned());
    let ask = ExchangeCode { code, verifier, ..ExchangeCode::default() };
    client.exchange_code(&ask).await.map_err(advise)
}
