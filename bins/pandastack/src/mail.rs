//! The mail server of `pandastack up`.

use anyhow::{Context, Result};
use clap::Args;
use pandastack_control::{MailSettings, SmtpSettings};

#[derive(Args)]
pub struct MailArgs {
    /// Mail server for invites, reset links and budget alerts: smtp://USER:PASSWORD@HOST:587 with
    /// STARTTLS, or smtps://USER:PASSWORD@HOST:465. Without it this server sends no e-mail
    #[arg(long, env = "PANDASTACK_SMTP_URL", value_name = "URL", hide_env_values = true)]
    smtp_url: Option<String>,
    /// Sender of this server's e-mail: an address, or "NAME <ADDRESS>"
    #[arg(long, env = "PANDASTACK_MAIL_FROM", value_name = "SENDER")]
    mail_from: Option<String>,
}

impl MailArgs {
    /// Reads the settings. `None` if this server sends no e-mail.
    pub fn settings(&self, public_url: Option<&str>) -> Result<Option<MailSettings>> {
        let Some(url) = self.smtp_url.as_deref().filter(|url| !url.is_empty()) else { return Ok(None) };
        let from = self.mail_from.as_deref().context("--smtp-url needs a sender: set --mail-from")?;
        let public_url = public_url.context("--smtp-url needs an address for links in letters: set --public-url")?;
        let smtp = SmtpSettings::parse(url, from).context("read --smtp-url and --mail-from")?;
        Ok(Some(MailSettings { smtp, public_url: public_url.to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

    use super::*;

    fn args(url: &str, from: Option<&str>) -> MailArgs {
        MailArgs { smtp_url: Some(url.to_owned()), mail_from: from.map(str::to_owned) }
    }

    #[test]
    fn a_mail_server_needs_a_sender_and_an_address_for_links() {
        let (url, from, base) = ("smtp://ada:hunter2@mail.example", Some("a@b.example"), Some("https://p.example"));
        assert!(args(url, from).settings(base).unwrap().is_some());
        assert!(args("", None).settings(None).unwrap().is_none());
        for (refused, named) in [
            (args(url, None).settings(base), "--mail-from"),
            (args(url, from).settings(None), "--public-url"),
            (args("smtp://hunter2@mail.example", from).settings(base), "--smtp-url"),
        ] {
            let text = format!("{:#}", refused.unwrap_err());
            assert!(text.contains(named) && !text.contains("hunter2"), "{text}");
        }
    }
}
