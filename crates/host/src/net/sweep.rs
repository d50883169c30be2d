//! Lists and removes what an instance has in the kernel. Finds everything by name, so it needs no
//! record of an earlier run. Never touches a name without the instance's prefix.

use std::io;

use nix::net::if_::if_nameindex;

use super::{
    NetError,
    command::{list, nft},
    names::NetNames,
    slot::remove,
};

/// The kernel objects of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetLeftovers {
    pub namespaces: Vec<String>,
    pub links: Vec<String>,
    /// nftables tables of family `inet`.
    pub tables: Vec<String>,
}

impl NetLeftovers {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.links.is_empty() && self.tables.is_empty()
    }
}

/// Lists the kernel objects of the instance, whether in use or not.
pub async fn leftovers(instance: &str) -> Result<NetLeftovers, NetError> {
    let names = NetNames::of(instance);
    let failed = |cause| NetError::Command { action: "list tables", cause };
    let listed = list("nft", &["list", "tables"]).await.map_err(failed)?;
    let wanted = format!("table inet {}", names.table());
    let tables = listed.lines().filter(|line| line.trim() == wanted).map(|_| names.table()).collect();
    Ok(NetLeftovers { namespaces: namespaces(&names)?, links: links(&names)?, tables })
}

/// Removes what an earlier process of the instance left, except the slots to keep. With nothing to
/// keep, it also removes the instance's block of addresses and its table.
pub async fn sweep(instance: &str, keep: &[String]) -> Result<(), NetError> {
    let names = NetNames::of(instance);
    let NetLeftovers { namespaces, links, tables } = leftovers(instance).await?;
    let mut doomed: Vec<String> = namespaces.into_iter().chain(links).filter(|name| !keep.contains(name)).collect();
    doomed.sort();
    doomed.dedup();
    if !keep.is_empty() {
        doomed.retain(|name| *name != names.anchor());
    }
    remove(&doomed).await?;
    if keep.is_empty() && !tables.is_empty() {
        let rules = format!("delete table inet {}\n", names.table());
        nft(&rules, None).await.map_err(|cause| NetError::Command { action: "remove the host's rules", cause })?;
    }
    Ok(())
}

/// Lists the instance's namespaces by name.
pub(super) fn namespaces(names: &NetNames) -> Result<Vec<String>, NetError> {
    let failed = |cause| NetError::Host { action: "list namespaces", cause };
    let entries = match std::fs::read_dir("/run/netns") {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        found.extend(name.to_str().filter(|name| name.starts_with(&names.prefix())).map(str::to_owned));
    }
    Ok(found)
}

fn links(names: &NetNames) -> Result<Vec<String>, NetError> {
    let all = if_nameindex().map_err(|cause| NetError::Host { action: "list links", cause: cause.into() })?;
    let ours = all.iter().filter_map(|link| link.name().to_str().ok()).filter(|name| name.starts_with(&names.prefix()));
    Ok(ours.map(str::to_owned).collect())
}
