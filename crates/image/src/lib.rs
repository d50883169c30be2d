//! Container images: resolves them in a registry, fetches them, and merges their layers into one
//! archive. Only machines unpack and run their contents. This room uses no database and no public
//! API; control turns its errors into faults.

mod challenge;
pub mod flatten;
pub mod limits;
pub mod manifest;
pub mod pick;
pub mod reference;
pub mod registry;
pub mod tree;
mod unpacked;

use std::{io, path::PathBuf};

use pandastack_dial::{AddressPolicy, DialError, DialTarget, Dialer, TrustRoots};
use pandastack_kit::{Scope, Secret};
use url::{Host, Url};

pub use reference::ImageReference;

/// The operator's settings for images.
#[derive(Clone, Debug, Default)]
pub struct ImageSettings {
    pub reach: AddressPolicy,
    pub roots: TrustRoots,
    /// The registry of names without one.
    pub registry: Option<String>,
    /// Registries that are reached without TLS, besides those on this host.
    pub plain: Vec<String>,
}

/// Access to images.
pub struct ImageClient {
    dialer: Dialer,
    registry: Option<String>,
    plain: Vec<String>,
    scope: Scope,
}

/// Why a pull failed.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    #[error("the image does not exist in the registry")]
    NotFound,
    #[error(
        "the registry denied access: the image is private or does not exist; send registry_auth for a private image"
    )]
    Denied,
    #[error("{0}")]
    Unreachable(String),
    #[error("{0}; the operator can allow such registries with --image-allow-private")]
    NotAllowed(String),
    #[error("{0}")]
    Bad(String),
    #[error("{0}")]
    NoRoom(#[from] SpoolFull),
    #[error("write a downloaded layer")]
    Spool(#[source] io::Error),
}

impl PullError {
    /// The error code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound => "template.image_not_found",
            Self::Denied => "template.image_denied",
            Self::Unreachable(_) => "template.image_unreachable",
            Self::NotAllowed(_) => "template.image_not_allowed",
            Self::Bad(_) => "template.image_bad",
            Self::NoRoom(_) => "build.no_room",
            Self::Spool(_) => "internal",
        }
    }
}

/// The spool has no room for the fetched bytes.
#[derive(Debug, thiserror::Error)]
#[error("insufficient host storage for uploads; try again when other builds have finished")]
pub struct SpoolFull;

/// Storage for layers until they are used.
pub trait LayerSpool: Send {
    /// Path of a part.
    fn path(&self, part: usize) -> PathBuf;

    /// Counts bytes before they are written.
    fn charge(&mut self, bytes: u64) -> Result<(), SpoolFull>;
}

/// User name and password for a registry.
#[derive(Clone)]
pub struct RegistryCredentials {
    pub username: String,
    pub password: Secret<String>,
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
        Self::Unreachable(format!("the registry sent no valid HTTP response: {error}"))
    }
}

impl ImageClient {
    pub fn new(settings: ImageSettings, scope: Scope) -> Self {
        let ImageSettings { reach, roots, registry, plain } = settings;
        Self { dialer: Dialer::new(reach, roots, scope.clone()), registry, plain, scope }
    }

    /// Parses the name of an image.
    pub fn reference(&self, text: &str) -> Result<ImageReference, String> {
        ImageReference::parse(text, self.registry.as_deref())
    }

    /// URL of a registry.
    fn base(&self, registry: &str) -> Result<Url, PullError> {
        let parse = |scheme: &str| Url::parse(&format!("{scheme}://{registry}/"));
        let url = parse("http").map_err(|error| PullError::Bad(error.to_string()))?;
        if self.may_be_plain(&url) {
            Ok(url)
        } else {
            parse("https").map_err(|error| PullError::Bad(error.to_string()))
        }
    }

    /// The target of a URL. Refuses plain HTTP where it is not allowed.
    fn place(&self, url: &Url) -> Result<DialTarget, PullError> {
        let tls = url.scheme() == "https";
        if !tls && (url.scheme() != "http" || !self.may_be_plain(url)) {
            return Err(PullError::Bad(format!(
                "{} is not allowed without TLS; the operator can allow it with --image-plain-http",
                url.host_str().unwrap_or_default()
            )));
        }
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => return Err(PullError::Bad("the URL has no host".to_owned())),
        };
        Ok(DialTarget { host, port: url.port_or_known_default().unwrap_or(443), tls })
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
