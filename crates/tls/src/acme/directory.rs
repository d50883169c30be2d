//! The address of an ACME server's directory.

use std::{fmt, str::FromStr};

use pandastack_dial::http::Url;

/// An https address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryUrl(Url);

/// Why a text is no directory's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the directory of an ACME server must be an address that begins with https://")]
pub struct DirectoryUrlError;

impl DirectoryUrl {
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for DirectoryUrl {
    type Err = DirectoryUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Url::parse(text).ok().filter(|url| url.scheme() == "https").map(Self).ok_or(DirectoryUrlError)
    }
}

impl fmt::Display for DirectoryUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
