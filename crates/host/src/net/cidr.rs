//! Owns the IPv4 network type: an address and a prefix length. Never reads anything from the host.

use std::{fmt, net::Ipv4Addr, str::FromStr};

/// An IPv4 network such as `10.0.0.0/8`. The constructor clears the host bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    base: u32,
    bits: u8,
}

/// A text that is not an IPv4 network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an IPv4 network such as 10.0.0.0/8")]
pub struct BadCidr(String);

impl Cidr {
    /// Returns the network that contains an address. More than 32 bits count as 32.
    pub const fn new(address: Ipv4Addr, bits: u8) -> Cidr {
        let bits = if bits > 32 { 32 } else { bits };
        Cidr { base: address.to_bits() & mask(bits), bits }
    }

    /// Returns the prefix length.
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// Returns the address at an offset from the start of the network, or `None` past its end.
    pub fn at(self, offset: u32) -> Option<Ipv4Addr> {
        let address = self.base.checked_add(offset)?;
        (address & mask(self.bits) == self.base).then(|| Ipv4Addr::from_bits(address))
    }

    /// Returns whether the two networks share an address.
    pub fn overlaps(self, other: Cidr) -> bool {
        let shared = mask(self.bits.min(other.bits));
        self.base & shared == other.base & shared
    }
}

const fn mask(bits: u8) -> u32 {
    if bits == 0 { 0 } else { u32::MAX << (32 - bits) }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from_bits(self.base), self.bits)
    }
}

impl FromStr for Cidr {
    type Err = BadCidr;

    /// Parses `10.0.0.0/8`. A bare address is a network of one address.
    fn from_str(text: &str) -> Result<Cidr, BadCidr> {
        let bad = || BadCidr(text.to_owned());
        let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
        let address: Ipv4Addr = address.parse().map_err(|_| bad())?;
        let bits: u8 = bits.parse().map_err(|_| bad())?;
        if bits > 32 { Err(bad()) } else { Ok(Cidr::new(address, bits)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn reads_and_prints() {
        assert_eq!(cidr("10.1.2.3/8").to_string(), "10.0.0.0/8");
        assert_eq!(cidr("10.1.2.3").to_string(), "10.1.2.3/32");
        assert_eq!(cidr("0.0.0.0/0").to_string(), "0.0.0.0/0");
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "fd00::/8", "10.0.0.0/", "default", "10.0.0.0/8; drop"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }

    #[test]
    fn overlap_is_containment_either_way() {
        assert!(cidr("10.0.0.0/8").overlaps(cidr("10.9.0.0/16")));
        assert!(cidr("10.9.0.0/16").overlaps(cidr("10.0.0.0/8")));
        assert!(cidr("0.0.0.0/0").overlaps(cidr("10.0.0.0/8")));
        assert!(!cidr("10.8.0.0/16").overlaps(cidr("10.9.0.0/16")));
    }

    #[test]
    fn offsets_end_with_the_network() {
        assert_eq!(cidr("100.64.0.0/22").at(1023), Some(Ipv4Addr::new(100, 64, 3, 255)));
        assert_eq!(cidr("100.64.0.0/22").at(1024), None);
        assert_eq!(cidr("255.255.255.0/24").at(u32::MAX), None);
    }
}
