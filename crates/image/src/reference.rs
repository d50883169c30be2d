//! Names of images: registry, repository and version. Only parses; makes no requests.

use std::fmt;

use crate::limits::IMAGE_REFERENCE_BYTES_MAX;

/// Common names of Docker Hub, and its address.
const HUB: [&str; 2] = ["docker.io", "index.docker.io"];
const HUB_ADDRESS: &str = "registry-1.docker.io";

/// A parsed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// A host, with a port if the name has one.
    pub registry: String,
    pub repository: String,
    pub version: ImageVersion,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageVersion {
    Tag(String),
    Digest(ImageDigest),
}

/// SHA-256 digest of an image or of a part of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageDigest(String);

impl ImageDigest {
    /// Parses `sha256:` and 64 lower-case hexadecimal digits. Other algorithms are not supported.
    pub fn parse(text: &str) -> Option<Self> {
        let sum = text.strip_prefix("sha256:")?;
        let good = sum.len() == 64 && sum.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        good.then(|| Self(text.to_owned()))
    }

    /// The digest from a finished hash.
    pub fn of(hash: &[u8]) -> Self {
        let sum: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(format!("sha256:{sum}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A prefix that is long enough to recognise the digest.
    pub fn short(&self) -> &str {
        &self.0[..19]
    }
}

impl ImageVersion {
    /// Text for a registry's URL.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tag(tag) => tag,
            Self::Digest(digest) => digest.as_str(),
        }
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if matches!(self.version, ImageVersion::Tag(_)) { ':' } else { '@' };
        write!(f, "{}/{}{mark}{}", self.registry, self.repository, self.version.as_str())
    }
}

impl ImageReference {
    /// Parses a name. A name without a registry belongs to `usual`.
    pub fn parse(text: &str, usual: Option<&str>) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text.len() > IMAGE_REFERENCE_BYTES_MAX {
            return Err(format!("an image name must have 1 to {IMAGE_REFERENCE_BYTES_MAX} bytes"));
        }
        let bad = |why: &str| format!("{text:?} is not a valid image name: {why}");
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => {
                let digest = ImageDigest::parse(digest)
                    .ok_or_else(|| bad("a digest must be sha256: followed by 64 hex digits"))?;
                (name, Some(digest))
            }
            None => (text, None),
        };
        // A colon before the last slash belongs to a port.
        let (name, tag) = match name.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (name, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(bad("a tag may contain only letters, digits, . _ and -"));
        }
        let (registry, path) = match name.split_once('/') {
            Some((host, path)) if host.contains(['.', ':', '[']) || host == "localhost" => (host.to_owned(), path),
            _ => {
                let none = || bad("it names no registry, and this server has no default registry");
                (usual.ok_or_else(none)?.to_owned(), name)
            }
        };
        let registry = at(&registry).to_owned();
        let hub = registry == HUB_ADDRESS;
        if !is_host(&registry) {
            return Err(bad("the registry is not a valid host name"));
        }
        let repository = if hub && !path.contains('/') { format!("library/{path}") } else { path.to_owned() };
        if !repository.split('/').all(is_part) {
            return Err(bad("each part must consist of lowercase letters and digits, separated by . _ or -"));
        }
        let version = match (digest, tag) {
            // A digest is exact. A tag next to it is only for people.
            (Some(digest), _) => ImageVersion::Digest(digest),
            (None, tag) => ImageVersion::Tag(tag.unwrap_or("latest").to_owned()),
        };
        Ok(Self { registry, repository, version })
    }
}

/// The address of a registry, given its common name.
pub fn at(registry: &str) -> &str {
    if HUB.contains(&registry) { HUB_ADDRESS } else { registry }
}

fn is_tag(tag: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=128).contains(&tag.len()) && tag.bytes().all(good) && !tag.starts_with(['.', '-'])
}

fn is_part(part: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let good = |byte: u8| inner(byte) || matches!(byte, b'_' | b'.' | b'-');
    let ends = part.bytes().next().is_some_and(inner) && part.bytes().last().is_some_and(inner);
    ends && part.bytes().all(good)
}

/// Accepts a host with an optional port, and no text that would change a URL's meaning.
fn is_host(registry: &str) -> bool {
    if registry.starts_with('.') || registry.contains("..") {
        return false;
    }
    let Ok(url) = url::Url::parse(&format!("https://{registry}/")) else { return false };
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
    plain && url.fragment().is_none() && url.path() == "/" && url.port() != Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[track_caller]
    fn check(text: &str, whole: &str) {
        assert_eq!(ImageReference::parse(text, Some("docker.io")).unwrap().to_string(), whole, "{text}");
    }

    #[test]
    fn short_names_mean_the_usual_registry_and_the_latest_version() {
        check("debian", "registry-1.docker.io/library/debian:latest");
        check("debian:12-slim", "registry-1.docker.io/library/debian:12-slim");
        check("docker.io/debian", "registry-1.docker.io/library/debian:latest");
        check("grafana/loki:3", "registry-1.docker.io/grafana/loki:3");
        check("localhost/tiny", "localhost/tiny:latest");
        check("127.0.0.1:5000/a/b/c:v1", "127.0.0.1:5000/a/b/c:v1");
        check("[::1]:5000/a", "[::1]:5000/a:latest");
        check(&format!("r.example/a:1@{SUM}"), &format!("r.example/a@{SUM}"));
        assert!(ImageReference::parse("debian", None).unwrap_err().contains("no registry"));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = "a".repeat(513);
        for text in [
            "",
            " ",
            "UPPER",
            "a b",
            "a//b",
            "/a",
            "a/",
            "a:",
            "a:.x",
            "a@sha256:12",
            "a@md5:abc",
            "../a",
            "r.example/../a",
            "u:p@r.example/a",
            "r.example:0/a",
            "r.example:99999/a",
            "r.example?x/a",
            "https://r.example/a",
            "r.example/a?b",
            "a\0",
            &long,
        ] {
            let read = ImageReference::parse(text, Some("docker.io"));
            assert!(read.is_err(), "{text:?}: {read:?}");
        }
    }
}
