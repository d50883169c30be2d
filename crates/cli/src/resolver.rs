//! Whether this computer's resolver knows names below `localhost`. Browsers and curl take them for
//! this computer by themselves; other programs ask the resolver, and a new Debian's does not know
//! them. `pandastack doctor` and `pandastack up` use it too.

use std::{net::IpAddr, process::Stdio, time::Duration};

use tokio::process::Command;

/// Installs what the resolver lacks.
pub const RESOLVER_FIX: &str = "apt-get install libnss-myhostname";
/// A name that only a resolver which knows all names below `localhost` finds.
pub const SAMPLE_NAME: &str = "pandastack-resolver-check.localhost";
/// Longest lookup. Programs that wait longer for a name are of no use to anybody either.
const LOOKUP_MAX: Duration = Duration::from_secs(2);

/// What the resolver of this computer does with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameLookup {
    Found,
    /// The name is below `localhost`, and the resolver does not know it.
    Unknown,
}

/// Looks a name up as other programs do. Names that are not below `localhost` are none of ours, so
/// they count as found.
pub async fn look_up(name: &str) -> NameLookup {
    if !is_below_localhost(name) {
        return NameLookup::Found;
    }
    match tokio::time::timeout(LOOKUP_MAX, is_found(name)).await {
        Ok(true) => NameLookup::Found,
        Ok(false) | Err(_) => NameLookup::Unknown,
    }
}

/// Tells whether a name is below `localhost`, and so means the computer that looks it up.
pub fn is_below_localhost(name: &str) -> bool {
    name.trim_end_matches('.').to_ascii_lowercase().ends_with(".localhost")
}

/// The name or address in a URL, without login and port.
pub(crate) fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    match place.strip_prefix('[') {
        Some(literal) => literal.split_once(']').map(|(address, _)| address),
        None => Some(place.rsplit_once(':').map_or(place, |(host, _)| host)),
    }
}

/// Tells whether a server's URL leads to this computer.
pub(crate) fn is_local(url: &str) -> bool {
    let Some(host) = host_of(url) else { return false };
    let is_loopback = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    host.eq_ignore_ascii_case("localhost") || is_below_localhost(host) || host.parse().is_ok_and(is_loopback)
}

/// Asks `getent`: the static client finds fewer names than other programs of the computer.
async fn is_found(name: &str) -> bool {
    let mut getent = Command::new("getent");
    getent.args(["ahosts", name]).kill_on_drop(true);
    let asked = getent.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().await;
    match asked {
        Ok(status) => status.success(),
        Err(_) => tokio::net::lookup_host((name, 0)).await.is_ok_and(|mut found| found.next().is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_has_neither_login_nor_port() {
        for (url, host) in [
            ("http://127.0.0.1:8080", Some("127.0.0.1")),
            ("http://[::1]:8080/v1", Some("::1")),
            ("postgres://panda:s3:c@ret@ab.db.localhost:5433/pandastack", Some("ab.db.localhost")),
            ("https://box.example.com/v1?a=b:c", Some("box.example.com")),
            ("box", None),
        ] {
            assert_eq!(host_of(url), host, "{url}");
        }
    }

    #[test]
    fn a_server_is_here_if_its_address_says_so() {
        for url in
            ["http://127.0.0.1:1", "http://127.8.0.1", "http://[::1]:1", "http://LOCALHOST/", "http://a.localhost:1"]
        {
            assert!(is_local(url), "{url}");
        }
        for url in ["http://10.0.0.5:8080", "https://box.example.com", "http://notlocalhost", "http://[fe80::1]"] {
            assert!(!is_local(url), "{url}");
        }
    }

    #[tokio::test]
    async fn only_names_below_localhost_are_looked_up() {
        assert_eq!(look_up("no-such-name.invalid").await, NameLookup::Found);
        assert!(is_below_localhost("A.LocalHost.") && !is_below_localhost("localhost"));
    }
}
