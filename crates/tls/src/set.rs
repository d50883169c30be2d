//! The certificates of a server. Each can be replaced while connections are made, and a client gets
//! the one for the name it asks for.

use std::{
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
    time::SystemTime,
};

use tokio_rustls::rustls::{
    self, ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use crate::certificate::{ServedCertificate, covers};

/// All certificates of a server, in the operator's order. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CertificateSet(Arc<RwLock<Vec<SlotState>>>);

/// The place of one certificate in a set.
#[derive(Clone, Debug)]
pub struct CertificateSlot {
    set: CertificateSet,
    at: usize,
}

#[derive(Debug)]
struct SlotState {
    /// Names that the certificate will have when it comes.
    expected: Vec<String>,
    current: Option<Arc<ServedCertificate>>,
}

impl SlotState {
    fn names(&self) -> &[String] {
        self.current.as_ref().map_or(&self.expected, |served| served.names())
    }
}

impl CertificateSet {
    /// Adds a place. Its certificate may come later.
    pub fn add(&self, expected: Vec<String>) -> CertificateSlot {
        let mut slots = self.0.write().unwrap_or_else(PoisonError::into_inner);
        slots.push(SlotState { expected, current: None });
        CertificateSlot { set: self.clone(), at: slots.len() - 1 }
    }

    /// Chooses the certificate for a name: the name itself, else a wildcard, else the first one,
    /// with which the client can at least say what is wrong. Expired ones come last.
    fn choose(&self, host: Option<&str>, now: SystemTime) -> Option<Arc<ServedCertificate>> {
        let slots = self.slots();
        let rank = |served: &ServedCertificate| {
            let of_host = |pattern: &String| host.is_some_and(|host| covers(pattern, host));
            let name =
                match served.names().iter().filter(|name| of_host(name)).max_by_key(|name| !name.starts_with('*')) {
                    Some(name) if name.starts_with('*') => 1,
                    Some(_) => 2,
                    None => 0,
                };
            (name > 0, !served.is_expired(now), name)
        };
        // `max_by_key` takes the last of equals, and the first is wanted.
        slots.iter().rev().filter_map(|slot| slot.current.clone()).max_by_key(|served| rank(served))
    }

    /// Tells whether a host name is one of this server's.
    pub fn knows(&self, host: &str) -> bool {
        self.slots().iter().any(|slot| slot.names().iter().any(|pattern| covers(pattern, host)))
    }

    /// The first name that is not a wildcard.
    pub fn first_name(&self) -> Option<String> {
        self.slots().iter().flat_map(SlotState::names).find(|name| !name.starts_with('*')).cloned()
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<String> {
        self.slots().iter().flat_map(SlotState::names).cloned().collect()
    }

    /// The settings of TLS for a server with these certificates: TLS 1.2 and 1.3, HTTP/1.1.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, rustls::Error> {
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions()?.with_no_client_auth();
        let mut config = config.with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn slots(&self) -> RwLockReadGuard<'_, Vec<SlotState>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResolvesServerCert for CertificateSet {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(hello.server_name(), SystemTime::now()).map(|served| served.key.clone())
    }
}

impl CertificateSlot {
    /// Replaces the certificate. Connections that exist keep theirs.
    pub fn put(&self, served: ServedCertificate) {
        let mut slots = self.set.0.write().unwrap_or_else(PoisonError::into_inner);
        slots[self.at].current = Some(Arc::new(served));
    }

    pub fn current(&self) -> Option<Arc<ServedCertificate>> {
        self.set.slots()[self.at].current.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::tests::made;

    fn served(names: &[&str], last_year: i32) -> ServedCertificate {
        let (chain, key) = made(names, last_year);
        ServedCertificate::from_pem(chain.as_bytes(), key.as_bytes(), "c", "k").unwrap()
    }

    fn chosen(set: &CertificateSet, host: Option<&str>) -> Option<String> {
        set.choose(host, SystemTime::now()).map(|served| served.names()[0].clone())
    }

    #[test]
    fn the_name_decides_and_the_first_is_for_everybody_else() {
        let set = CertificateSet::default();
        assert_eq!(chosen(&set, Some("api.example")), None);
        set.add(vec![]).put(served(&["api.example"], 2099));
        set.add(vec![]).put(served(&["*.box.example"], 2099));
        set.add(vec![]).put(served(&["special.box.example"], 2099));
        for (host, expected) in [
            (Some("api.example"), "api.example"),
            (Some("3000-x.box.example"), "*.box.example"),
            (Some("special.box.example"), "special.box.example"),
            (Some("other.example"), "api.example"),
            (None, "api.example"),
        ] {
            assert_eq!(chosen(&set, host).as_deref(), Some(expected), "{host:?}");
        }
        assert_eq!(set.first_name().as_deref(), Some("api.example"));
        assert!(set.knows("a.box.example") && set.knows("API.example") && !set.knows("box.example"));
    }

    #[test]
    fn an_expired_certificate_is_taken_only_if_there_is_no_other_for_the_name() {
        let set = CertificateSet::default();
        let slot = set.add(vec!["api.a.example".to_owned()]);
        assert!(set.knows("api.a.example"), "its certificate will come");
        slot.put(served(&["api.a.example"], 2001));
        set.add(vec![]).put(served(&["*.a.example"], 2099));
        assert_eq!(chosen(&set, Some("api.a.example")).as_deref(), Some("*.a.example"));
        assert_eq!(chosen(&set, Some("x.a.example")).as_deref(), Some("*.a.example"));
        slot.put(served(&["api.a.example"], 2099));
        assert_eq!(chosen(&set, Some("api.a.example")).as_deref(), Some("api.a.example"));
    }
}
