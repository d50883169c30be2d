//! The addresses that are not part of the public internet. Every connection is checked against them
//! when it is made.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that are only local, or reserved (RFC 6890 and its registry), each with its name.
const REFUSED_V4: &[([u8; 4], u32, &str)] = &[
    ([0, 0, 0, 0], 8, "this network"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "carrier-grade NAT"),
    ([127, 0, 0, 0], 8, "loopback"),
    ([169, 254, 0, 0], 16, "link-local, used by metadata servers"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "reserved"),
    ([192, 0, 2, 0], 24, "documentation"),
    ([192, 31, 196, 0], 24, "reserved"),
    ([192, 52, 193, 0], 24, "reserved"),
    ([192, 88, 99, 0], 24, "6to4 relay"),
    ([192, 168, 0, 0], 16, "private"),
    ([192, 175, 48, 0], 24, "reserved"),
    ([198, 18, 0, 0], 15, "benchmarking"),
    ([198, 51, 100, 0], 24, "documentation"),
    ([203, 0, 113, 0], 24, "documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// Servers of cloud providers with public addresses.
const METADATA_V4: &[[u8; 4]] = &[[168, 63, 129, 16]];

/// Returns why an address must not be reached, or `None` if it is public.
pub fn refused(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => refused_v4(address),
        IpAddr::V6(address) => refused_v6(address),
    }
}

fn refused_v4(address: Ipv4Addr) -> Option<&'static str> {
    if METADATA_V4.contains(&address.octets()) {
        return Some("metadata server");
    }
    let bits = address.to_bits();
    let within = |network: &[u8; 4], length: u32| (bits ^ u32::from_be_bytes(*network)) >> (32 - length) == 0;
    REFUSED_V4.iter().find(|(network, length, _)| within(network, *length)).map(|(_, _, why)| *why)
}

/// Only global unicast passes. An address that embeds an IPv4 address is judged by that one.
fn refused_v6(address: Ipv6Addr) -> Option<&'static str> {
    if address.is_loopback() {
        return Some("loopback");
    }
    let parts = address.segments();
    match parts {
        // IPv4-mapped, NAT64 and 6to4 addresses embed an IPv4 address.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            refused_v4(Ipv4Addr::new(a, b, c, d))
        }
        [0x64, 0xff9b, 1, ..] => Some("local NAT64"),
        [0x2001, 0, ..] => Some("Teredo tunnel"),
        [0x2001, second, ..] if second < 0x200 => Some("reserved"),
        [0x2001, 0xdb8, ..] => Some("documentation"),
        [0x3fff, second, ..] if second < 0x1000 => Some("documentation"),
        [0x2620, 0x4f, 0x8000, ..] => Some("reserved"),
        [first, ..] if first & 0xe000 == 0x2000 => None,
        [first, ..] if first & 0xfe00 == 0xfc00 => Some("private"),
        [first, ..] if first & 0xffc0 == 0xfe80 => Some("link-local"),
        [first, ..] if first & 0xff00 == 0xff00 => Some("multicast"),
        _ => Some("not global unicast"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_public_internet_passes() {
        for text in ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "198.17.0.1"] {
            assert_eq!(refused(text.parse().unwrap()), None, "{text}");
        }
        for text in ["2606:4700::1111", "2a00:1450::1", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8", "2002:0808:0808::1"] {
            assert_eq!(refused(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let v4 = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
        ];
        for text in v4 {
            let address: Ipv4Addr = text.parse().unwrap();
            assert!(refused(IpAddr::V4(address)).is_some(), "{text}");
            let [a, b, c, d] = address.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let disguises = [
                address.to_ipv6_mapped(),
                address.to_ipv6_compatible(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            ];
            for disguise in disguises {
                assert!(refused(IpAddr::V6(disguise)).is_some(), "{disguise}");
            }
        }
        let v6 = [
            "::",
            "::1",
            "100::1",
            "2001::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ];
        for text in v6 {
            assert!(refused(text.parse().unwrap()).is_some(), "{text}");
        }
    }
}
