//! Owns the names of kernel objects and the addresses of slots. Pure: reads nothing from the host.
//! An *instance* is one data folder. All its objects carry its prefix, so two instances on one
//! host, or tests that run in parallel, never touch each other's objects.

use std::net::Ipv4Addr;

use super::{cidr::Cidr, limits::SLOTS_MAX};

/// Prefix length of the block of addresses between an instance's slots and the host.
pub const BLOCK_BITS: u8 = 22;

/// Where blocks come from, in order: the shared address space of carriers, then the benchmark
/// range. Neither is routed on the Internet, and both are rare in private networks.
const POOLS: [Cidr; 2] = [Cidr::new(Ipv4Addr::new(100, 64, 0, 0), 10), Cidr::new(Ipv4Addr::new(198, 18, 0, 0), 15)];

/// The names of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetNames {
    hex: String,
    hash: u32,
}

impl NetNames {
    /// Derives the names from the instance's identity, such as the path of its data folder.
    pub fn of(instance: &str) -> NetNames {
        let digest = blake3::hash(instance.as_bytes());
        let [a, b, c, d, ..] = *digest.as_bytes();
        NetNames { hex: format!("{a:02x}{b:02x}{c:02x}"), hash: u32::from_be_bytes([a, b, c, d]) }
    }

    /// Returns the prefix of every namespace and link of the instance.
    pub fn prefix(&self) -> String {
        format!("pds-{}-", self.hex)
    }

    /// Returns the name of a slot, which its namespace and its link on the host share.
    pub fn slot(&self, number: usize) -> String {
        assert!(number < SLOTS_MAX, "slot numbers are below the limit");
        format!("pds-{}-{number}", self.hex)
    }

    /// Parses the number of a slot's name. Returns `None` if the name is not one of this instance.
    pub fn number(&self, name: &str) -> Option<usize> {
        let digits = name.strip_prefix(&self.prefix())?;
        let number: usize = digits.parse().ok()?;
        (number < SLOTS_MAX && self.slot(number) == name).then_some(number)
    }

    /// Returns the name of the link that holds the instance's block of addresses.
    pub fn anchor(&self) -> String {
        format!("pds-{}-net", self.hex)
    }

    /// Returns the name of the instance's nftables table on the host, in family `inet`.
    pub fn table(&self) -> String {
        format!("pandastack_{}", self.hex)
    }

    /// Returns the candidate blocks in order of preference. The start in each pool depends on the
    /// instance, so that instances rarely collide and an instance tends to get the same block
    /// again.
    pub fn blocks(&self) -> impl Iterator<Item = Cidr> + '_ {
        POOLS.into_iter().flat_map(move |pool| {
            let count = 1_u32 << (BLOCK_BITS - pool.bits());
            let first = self.hash % count;
            (0..count).filter_map(move |step| {
                let index = (first + step) % count;
                Some(Cidr::new(pool.at(index << (32 - BLOCK_BITS))?, BLOCK_BITS))
            })
        })
    }
}

/// The two addresses of a slot's uplink, a /30 of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// On the host's end.
    pub outer: Ipv4Addr,
    /// On the namespace's end. The host sees it as the guest's address.
    pub inner: Ipv4Addr,
}

impl Uplink {
    /// Prefix length of an uplink.
    pub const BITS: u8 = 30;

    /// Returns the addresses of a slot.
    pub fn of(block: Cidr, number: usize) -> Uplink {
        let start = u32::try_from(number * 4).expect("slot numbers are small");
        let at = |offset| block.at(start + offset).expect("a block has room for every slot");
        Uplink { outer: at(1), inner: at(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_a_link_and_come_back() {
        let names = NetNames::of("/var/lib/pandastack");
        for number in 0..SLOTS_MAX {
            let name = names.slot(number);
            assert!(name.len() <= 15, "{name}");
            assert_eq!(names.number(&name), Some(number));
        }
        assert!(names.anchor().len() <= 15);
        assert!(names.anchor().starts_with(&names.prefix()));
    }

    #[test]
    fn foreign_names_are_not_ours() {
        let names = NetNames::of("a");
        let prefix = names.prefix();
        for foreign in
            ["eth0", "", &NetNames::of("b").slot(1), &names.anchor(), &format!("{prefix}01"), &format!("{prefix}+1")]
        {
            assert_eq!(names.number(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn blocks_cover_both_pools_once() {
        let blocks: Vec<_> = NetNames::of("a").blocks().collect();
        let distinct: std::collections::BTreeSet<_> = blocks.iter().collect();
        assert_eq!(blocks.len(), 4096 + 128);
        assert_eq!(distinct.len(), blocks.len());
        assert!(blocks.iter().all(|block| POOLS.iter().any(|pool| pool.overlaps(*block))));
        assert_ne!(NetNames::of("a").blocks().next(), NetNames::of("b").blocks().next());
    }

    #[test]
    fn uplinks_do_not_overlap() {
        let block = "100.64.4.0/22".parse().unwrap();
        assert_eq!(Uplink::of(block, 0).inner, Ipv4Addr::new(100, 64, 4, 2));
        assert_eq!(Uplink::of(block, SLOTS_MAX - 1).outer, Ipv4Addr::new(100, 64, 7, 229));
    }
}
