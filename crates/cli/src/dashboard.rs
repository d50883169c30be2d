//! `pandastack dashboard`: the address of the web page, and a link that logs in once.

use std::process::ExitCode;

use pandastack_client::{ClientError, wire::SignInLink};
use serde_json::json;

use crate::{GlobalArgs, advice::advise, browser, connect::connect, output};

/// Arguments of `dashboard`.
#[derive(Debug, clap::Args)]
pub struct DashboardArgs {
    /// Open it in a browser of this computer
    #[arg(long)]
    open: bool,
    /// Print only the address, without a link that logs in
    #[arg(long)]
    no_link: bool,
}

/// Prints the address of the dashboard. The link is one for the login of this client, or with the
/// server's API key for the first account.
pub async fn dashboard(args: DashboardArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let link = match args.no_link {
        true => None,
        false => match client.make_link().await {
            Ok(link) => Some(link),
            // An API key belongs to nobody, so it logs nobody in.
            Err(ClientError::Refused { status: 403, .. }) => None,
            Err(error) => return Err(advise(error)),
        },
    };
    let address = format!("{}/", client.url());
    let shown = link.as_ref().map_or(address.as_str(), |link| &link.url);
    let is_opened = args.open && !global.is_structured() && browser::open(shown);
    if global.is_structured() {
        global.print(&json!({ "url": address, "link": link }))?;
    } else if is_opened {
        eprintln!("opened {address}");
    } else {
        output::line(shown)?;
        eprintln!("{}", advice(link.as_ref()));
    }
    Ok(ExitCode::SUCCESS)
}

fn advice(link: Option<&SignInLink>) -> String {
    match link {
        Some(link) if link.setup => format!("make the first account with this link, until {}", link.expires_at),
        Some(link) => format!("this link logs in once, until {}", link.expires_at),
        None => "log in there with your e-mail address and password".to_owned(),
    }
}
