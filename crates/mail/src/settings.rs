//! The operator's mail server, from a URL. The password never reaches a log: it has no `Debug`, and
//! no error repeats the URL.

use std::{fmt, net::IpAddr, time::Duration};

use lettre::message::Mailbox;
use pandastack_kit::Secret;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::{
    letter::address,
    limits::{SMTP_RETRY_PAUSES, SMTP_URL_BYTES_MAX, SUBJECT_BYTES_MAX},
};

/// How the connection to the mail server is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpSecurity {
    /// STARTTLS, which the server must offer.
    StartTls,
    /// TLS from the first byte.
    Tls,
    /// None.
    Plain,
}

/// A mail server, and the sender of all letters.
#[derive(Clone)]
pub struct SmtpSettings {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) security: SmtpSecurity,
    pub(crate) login: Option<(String, Secret<String>)>,
    pub(crate) from: Mailbox,
    pub(crate) pauses: Vec<Duration>,
    /// The only authority to trust, in DER. `None` for those that this host trusts.
    pub(crate) authority: Option<Vec<u8>>,
}

/// Why settings are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SmtpSettingsError {
    #[error(
        "use smtp://USER:PASSWORD@HOST:587 (STARTTLS), smtps://USER:PASSWORD@HOST:465 (TLS) or smtp+plain://HOST:25 \
         as the address of the mail server; write other characters of USER and PASSWORD than letters and digits as %XX"
    )]
    Url,
    #[error("smtp+plain:// sends a password in the clear; use smtp:// or smtps://, or a server on this host")]
    PlainPassword,
    #[error("{0:?} is not a sender; use an address, or a name and an address such as \"Panda <noreply@example.com>\"")]
    From(String),
}

impl SmtpSettings {
    /// Reads the URL of a mail server and the sender of letters: an address, or `Name <address>`.
    pub fn parse(url: &str, from: &str) -> Result<Self, SmtpSettingsError> {
        let from = sender(from)?;
        if url.len() > SMTP_URL_BYTES_MAX {
            return Err(SmtpSettingsError::Url);
        }
        let url = Url::parse(url.trim()).map_err(|_| SmtpSettingsError::Url)?;
        let (security, usual_port) = match url.scheme() {
            "smtp" => (SmtpSecurity::StartTls, 587),
            "smtps" => (SmtpSecurity::Tls, 465),
            "smtp+plain" => (SmtpSecurity::Plain, 25),
            _ => return Err(SmtpSettingsError::Url),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(SmtpSettingsError::Url);
        }
        let host = host(&url)?;
        let login = login(&url)?;
        if security == SmtpSecurity::Plain && login.is_some() && !is_loopback(&host) {
            return Err(SmtpSettingsError::PlainPassword);
        }
        let port = url.port().unwrap_or(usual_port);
        Ok(Self { host, port, security, login, from, pauses: SMTP_RETRY_PAUSES.to_vec(), authority: None })
    }

    /// Changes the pauses between tries. Their number is that of the further tries.
    #[must_use]
    pub fn with_pauses(self, pauses: &[Duration]) -> Self {
        Self { pauses: pauses.to_vec(), ..self }
    }

    /// Trusts one authority, given in DER, instead of those that this host trusts.
    #[cfg(any(test, feature = "smtp-for-tests"))]
    #[must_use]
    pub fn with_authority(self, authority: &[u8]) -> Self {
        Self { authority: Some(authority.to_vec()), ..self }
    }
}

impl fmt::Debug for SmtpSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, security, login, from, .. } = self;
        let from = from.email.to_string();
        let user = login.as_ref().map(|(user, _)| user);
        let mut out = out.debug_struct("SmtpSettings");
        out.field("host", host).field("port", port).field("security", security).field("user", &user);
        out.field("from", &from).finish_non_exhaustive()
    }
}

fn sender(text: &str) -> Result<Mailbox, SmtpSettingsError> {
    let bad = || SmtpSettingsError::From(text.to_owned());
    let text = text.trim();
    if text.len() > SUBJECT_BYTES_MAX * 2 || text.chars().any(char::is_control) {
        return Err(SmtpSettingsError::From(text.chars().take(SUBJECT_BYTES_MAX).collect()));
    }
    let Some((name, rest)) = text.split_once('<') else {
        return Ok(Mailbox::new(None, address(text).map_err(|_| bad())?));
    };
    let email = address(rest.strip_suffix('>').ok_or_else(bad)?).map_err(|_| bad())?;
    let name = name.trim().trim_matches('"').trim();
    Ok(Mailbox::new(Some(name.to_owned()).filter(|name| !name.is_empty()), email))
}

fn host(url: &Url) -> Result<String, SmtpSettingsError> {
    match url.host() {
        Some(Host::Ipv4(address)) => Ok(address.to_string()),
        Some(Host::Ipv6(address)) => Ok(address.to_string()),
        Some(Host::Domain(name)) => {
            let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
            (is_name && !name.is_empty()).then(|| name.to_ascii_lowercase()).ok_or(SmtpSettingsError::Url)
        }
        None => Err(SmtpSettingsError::Url),
    }
}

/// Reads user and password. Neither may be there alone.
fn login(url: &Url) -> Result<Option<(String, Secret<String>)>, SmtpSettingsError> {
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8().map_err(|_| SmtpSettingsError::Url)?.into_owned();
        let is_good = !text.is_empty() && !text.chars().any(char::is_control);
        is_good.then_some(text).ok_or(SmtpSettingsError::Url)
    };
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        (_, None) => Err(SmtpSettingsError::Url),
        (user, Some(password)) => Ok(Some((decoded(user)?, Secret::new(decoded(password)?)))),
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "noreply@pandas.example";

    #[test]
    fn a_url_names_server_security_and_login() {
        let check = |url: &str, expected: (&str, u16, SmtpSecurity), login: Option<(&str, &str)>| {
            let read = SmtpSettings::parse(url, FROM).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!((read.host.as_str(), read.port, read.security), expected, "{url}");
            let found = read.login.as_ref().map(|(user, password)| (user.as_str(), password.reveal().as_str()));
            assert_eq!(found, login, "{url}");
        };
        let (start, tls, plain) = (SmtpSecurity::StartTls, SmtpSecurity::Tls, SmtpSecurity::Plain);
        check("smtp://ada:secret@mail.example:2525", ("mail.example", 2525, start), Some(("ada", "secret")));
        check("smtp://Mail.Example", ("mail.example", 587, start), None);
        let odd = "smtps://ada%40example.com:p%40ss%2Fw%3Aord%20%25@mail.example/";
        check(odd, ("mail.example", 465, tls), Some(("ada@example.com", "p@ss/w:ord %")));
        check("smtp+plain://mail.example", ("mail.example", 25, plain), None);
        check("smtp+plain://a:b@127.0.0.1:1025", ("127.0.0.1", 1025, plain), Some(("a", "b")));
        check("smtp+plain://a:b@[::1]:1025", ("::1", 1025, plain), Some(("a", "b")));
        check("smtp+plain://a:b@localhost", ("localhost", 25, plain), Some(("a", "b")));
    }

    #[test]
    fn bad_settings_are_refused_and_secrets_not_repeated() {
        for url in [
            "",
            "mail.example:587",
            "http://mail.example",
            "smtp://",
            "smtp://:587",
            "smtp://hunter2@mail.example",
            "smtp://ada:@mail.example",
            "smtp://:hunter2@mail.example",
            "smtp://ada:hunter2%0d%0a@mail.example",
            "smtp://ada:hunter2%ff@mail.example",
            "smtp://ada:hunter2@mail.example/ehlo",
            "smtp://ada:hunter2@mail.example?tls=none",
            "smtp://ada:hunter2@ma%0ail.example",
            "smtp://ada:hunter2@mail.example:99999",
        ] {
            let refused = SmtpSettings::parse(url, FROM).unwrap_err();
            assert!(refused == SmtpSettingsError::Url && !refused.to_string().contains("hunter2"), "{url}: {refused}");
        }
        let plain = SmtpSettings::parse("smtp+plain://ada:hunter2@mail.example", FROM);
        assert_eq!(plain.unwrap_err(), SmtpSettingsError::PlainPassword);
        let shown = format!("{:?}", SmtpSettings::parse("smtp://ada:hunter2@mail.example", FROM).unwrap());
        assert!(!shown.contains("hunter2") && shown.contains("mail.example"), "{shown}");
    }

    #[test]
    fn a_sender_is_an_address_with_or_without_a_name() {
        for (text, name) in [
            (FROM, None),
            ("<noreply@pandas.example>", None),
            ("Panda Stack <noreply@pandas.example>", Some("Panda Stack")),
            ("\"Panda, Inc.\" <noreply@pandas.example>", Some("Panda, Inc.")),
        ] {
            let from = sender(text).unwrap();
            assert_eq!((from.name.as_deref(), from.email.as_ref()), (name, FROM), "{text}");
        }
        for bad in ["", "Panda", "Panda <noreply>", "a <b@c.example> d", "a\r\nBcc: e@f.example", "a <b@c.example"] {
            assert!(matches!(sender(bad), Err(SmtpSettingsError::From(_))), "{bad:?}");
        }
    }
}
