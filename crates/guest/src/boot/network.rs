//! The guest's one interface: addresses, default route, name resolution.

use std::{fs, io, net::Ipv4Addr, str::FromStr};

use pandastack_sys::interface::InterfaceSocket;
use pandastack_wire_guest::InterfaceAddresses;

/// The machine's interface.
const INTERFACE: &str = "eth0";

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Addresses of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestAddresses {
    pub address: Ipv4Addr,
    pub prefix: u8,
    pub gateway: Ipv4Addr,
    pub nameserver: Ipv4Addr,
}

/// Text that is not a list of addresses.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} is not of the form address/prefix,gateway")]
pub struct AddressError {
    text: String,
}

impl FromStr for GuestAddresses {
    type Err = AddressError;

    /// Parses `172.16.0.2/30,172.16.0.1`. The gateway is also the name server.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parts = || {
            let (own, gateway) = text.split_once(',')?;
            let (address, prefix) = with_prefix(own)?;
            let gateway = gateway.parse().ok()?;
            Some(Self { address, prefix, gateway, nameserver: gateway })
        };
        parts().ok_or_else(|| AddressError { text: text.to_owned() })
    }
}

impl TryFrom<&InterfaceAddresses> for GuestAddresses {
    type Error = io::Error;

    fn try_from(network: &InterfaceAddresses) -> Result<Self, io::Error> {
        let InterfaceAddresses { address, gateway, nameserver } = network;
        let parts = || {
            let (address, prefix) = with_prefix(address)?;
            Some(Self { address, prefix, gateway: gateway.parse().ok()?, nameserver: nameserver.parse().ok()? })
        };
        parts().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("invalid network addresses {network:?}"))
        })
    }
}

impl GuestAddresses {
    /// Configures the interface and the resolver. Unchanged addresses are accepted.
    pub fn apply(&self) -> io::Result<()> {
        let interfaces = InterfaceSocket::open()?;
        interfaces.set_address(INTERFACE, self.address, self.prefix)?;
        interfaces.bring_up(INTERFACE)?;
        interfaces.set_gateway(self.gateway)?;
        // There is no IPv6 beyond the interface. Without an address, programs do not try it and the
        // kernel sends no solicitations.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{INTERFACE}/disable_ipv6"), "1\n");
        match fs::write(RESOLV_CONF, format!("nameserver {}\n", self.nameserver)) {
            // A root file system without /etc is still usable.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }
}

/// Brings the loopback interface up.
pub(super) fn loopback() -> io::Result<()> {
    InterfaceSocket::open()?.bring_up("lo")
}

/// Returns the contents of `/etc/hosts`.
pub(crate) fn hosts_of(hostname: &str) -> String {
    format!("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 {hostname}\n")
}

fn with_prefix(text: &str) -> Option<(Ipv4Addr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let prefix = prefix.parse().ok().filter(|prefix| *prefix <= 32)?;
    Some((address.parse().ok()?, prefix))
}
