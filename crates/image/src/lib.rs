//! Images of other makers: found in a registry, fetched, and made into a root file system that machines start from. Control reads their
//! documents and rewrites their archives; what is in them is unpacked and run by a machine only.

mod challenge;
mod flatten;
mod manifest;
mod pick;
mod pull;
mod reference;
mod registry;
mod source;
mod tree;
mod unpacked;

use std::io;

use pandastack_kit::Scope;
use pandastack_model::Fault;
use url::{Host, Url};

pub use reference::Reference;
pub use source::Source;

use super::failure::Failure;
use crate::dial::{DialError, Dialer, Place, Reach, Roots};

/// What the operator decides about images.
#[derive(Clone, Debug, Default)]
pub struct ImageSettings {
    pub reach: Reach,
    pub roots: Roots,
    /// The registry of names that say none.
    pub registry: Option<String>,
    /// Registries that are spoken to without TLS, besides those on this host.
    pub plain: Vec<String>,
}

/// How images are reached.
pub struct Images {
    dialer: Dialer,
    registry: Option<String>,
    plain: Vec<String>,
    scope: Scope,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error("the registry has no such image")]
    NotFound,
    #[error("the registry refuses it: it is private, or there is no such image; send registry_auth")]
    Denied,
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}; the operator allows such registries with --image-allow-private")]
    NotAllowed(String),
    #[error("{0}")]
    Bad(String),
    #[error("{}", .0.text)]
    NoRoom(Fault),
    #[error("write what was fetched")]
    Spool(#[source] io::Error),
}

impl PullError {
    /// Gives the word that programs look for.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "template.image_not_found",
            Self::Denied => "template.image_denied",
            Self::Unreachable(_) => "template.image_unreachable",
            Self::NotAllowed(_) => "template.image_not_allowed",
            Self::Bad(_) => "template.image_bad",
            Self::NoRoom(fault) => fault.code,
            Self::Spool(_) => "internal",
        }
    }

    /// Says what failed about which image.
    pub fn about(self, reference: &Reference) -> Failure {
        if let Self::Spool(cause) = self {
            return Failure::from(Fault::bug(cause));
        }
        Failure::new(format!("image {reference}: {self} ({})", self.code()))
    }
}

impl From<DialError> for PullError {
    fn from(error: DialError) -> Self {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        match error {
            DialError::NotAllowed { .. } => Self::NotAllowed(text),
            _ => Self::Unreachable(text.chars().take(500).collect()),
        }
    }
}

impl From<hyper::Error> for PullError {
    fn from(error: hyper::Error) -> Self {
        Self::Unreachable(format!("no answer in HTTP: {error}"))
    }
}

impl Images {
    pub fn new(settings: ImageSettings, scope: Scope) -> Self {
        let ImageSettings { reach, roots, registry, plain } = settings;
        Self { dialer: Dialer::new(reach, roots, scope.clone()), registry, plain, scope }
    }

    /// Reads the name of an image.
    pub fn reference(&self, text: &str) -> Result<Reference, String> {
        Reference::parse(text, self.registry.as_deref())
    }

    /// Gives the address of a registry.
    fn base(&self, registry: &str) -> Result<Url, PullError> {
        let parse = |scheme: &str| Url::parse(&format!("{scheme}://{registry}/"));
        let url = parse("http").map_err(|error| PullError::Bad(error.to_string()))?;
        if self.may_be_plain(&url) {
            Ok(url)
        } else {
            parse("https").map_err(|error| PullError::Bad(error.to_string()))
        }
    }

    /// Says where an address leads. Without TLS it leads only where that is allowed.
    fn place(&self, url: &Url) -> Result<Place, PullError> {
        let tls = url.scheme() == "https";
        if !tls && (url.scheme() != "http" || !self.may_be_plain(url)) {
            return Err(PullError::Bad(format!("{} is not spoken to without TLS", url.host_str().unwrap_or_default())));
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => return Err(PullError::Bad("an address without a host".to_owned())),
        };
        Ok(Place { host, port: url.port_or_known_default().unwrap_or(443), tls })
    }

    fn may_be_plain(&self, url: &Url) -> bool {
        let near = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        near || self.plain.iter().any(|named| named.eq_ignore_ascii_case(authority))
    }
}

#[cfg(test)]
mod tests;
