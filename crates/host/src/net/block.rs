//! Claims a /22 block of addresses for the links between this instance's slots and the host. The
//! claim is a route over a link of our own. The kernel refuses a second route to the same network,
//! so two instances cannot claim one block. Packets to a slot that does not exist end at that link.
//! Never frees a block: `sweep` removes the link.

use nix::net::if_::if_nametoindex;
use serde::Deserialize;

use super::{
    NetError,
    cidr::Cidr,
    command::{BatchMode, CommandError, ip, list},
    names::{BLOCK_BITS, NetNames},
};

/// Returns the block that the instance has already claimed, or claims a free one.
pub(super) async fn claim(names: &NetNames) -> Result<Cidr, NetError> {
    let anchor = names.anchor();
    let failed = |cause| NetError::Command { action: "reserve a block of addresses", cause };
    if if_nametoindex(anchor.as_str()).is_ok() {
        let held = networks(&["-j", "-4", "route", "show", "dev", &anchor]).await.map_err(failed)?;
        if let Some(block) = held.into_iter().find(|network| network.bits() == BLOCK_BITS) {
            return Ok(block);
        }
    } else {
        // A tun device uses the driver that taps need anyway, so no other driver is required.
        let lines =
            format!("tuntap add dev {anchor} mode tun\nlink set {anchor} addrgenmode none\nlink set {anchor} up\n");
        ip(BatchMode::StopAtError, &lines, None).await.map_err(failed)?;
    }
    let taken = networks(&["-j", "-4", "route", "show", "table", "all"]).await.map_err(failed)?;
    for block in free_blocks(names, &taken) {
        match ip(BatchMode::StopAtError, &format!("route add {block} dev {anchor}\n"), None).await {
            Ok(()) => return Ok(block),
            // Another instance claimed the block after the routes were read.
            Err(CommandError::Refused { complaint, .. }) if complaint.contains("File exists") => {}
            Err(cause) => return Err(failed(cause)),
        }
    }
    Err(NetError::NoBlock)
}

/// Returns the candidate blocks that overlap no route of the host. The default route is ignored,
/// because it overlaps every block.
fn free_blocks(names: &NetNames, taken: &[Cidr]) -> impl Iterator<Item = Cidr> {
    names.blocks().filter(|block| !taken.iter().any(|network| network.bits() > 0 && network.overlaps(*block)))
}

#[derive(Deserialize)]
struct KernelRoute {
    dst: String,
}

async fn networks(arguments: &[&str]) -> Result<Vec<Cidr>, CommandError> {
    let printed = list("ip", arguments).await?;
    // `ip` may print nothing at all for an empty list.
    let routes: Vec<KernelRoute> = if printed.trim().is_empty() {
        Vec::new()
    } else {
        serde_json::from_str(&printed).map_err(|cause| CommandError::Run { program: "ip", cause: cause.into() })?
    };
    // The default route has the destination "default", which does not parse and is skipped.
    Ok(routes.iter().filter_map(|route| route.dst.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_in_use_are_skipped() {
        let names = NetNames::of("x");
        let cidr = |text: &str| text.parse::<Cidr>().unwrap();
        let first = names.blocks().next().unwrap();
        let pick = |taken: &[Cidr]| free_blocks(&names, taken).next();
        assert_eq!(pick(&[]), Some(first));
        assert_eq!(pick(&[cidr("0.0.0.0/0")]), Some(first));
        let one_address = Cidr::new(first.at(77).unwrap(), 32);
        assert_ne!(pick(&[one_address]), Some(first));
        assert!(cidr("198.18.0.0/15").overlaps(pick(&[cidr("100.64.0.0/10")]).unwrap()));
        assert_eq!(pick(&[cidr("100.64.0.0/10"), cidr("198.0.0.0/8")]), None);
    }
}
