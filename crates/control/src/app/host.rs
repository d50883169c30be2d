//! Whether this server has a host, and the lease that keeps two hosts from one database.

use std::{
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use pandastack_kit::random_hex;
use pandastack_model::Fault;
use pandastack_wire_fleet::NoHost;

use crate::{
    Control, OpenError,
    limits::HOST_LEASE,
    store::{HOST_LEASE_NAME, LeaseTerm, Store},
};

impl Control {
    /// Refuses a request that needs the host, before it changes anything.
    pub(crate) fn need_host(&self) -> Result<(), Fault> {
        if self.host.is_here() { Ok(()) } else { Err(NoHost::refusal()) }
    }
}

/// Takes the lease of the host, which one server of a database may have. Rows of sandboxes are
/// compared with the only host there is, so a second one would fail all sandboxes of the first.
pub(crate) async fn take_host_lease(store: &Store, now_ns: u64) -> Result<(), OpenError> {
    let term = LeaseTerm::new(now_ns, HOST_LEASE);
    if store.take_lease(HOST_LEASE_NAME, term).await.map_err(OpenError::Database)? {
        return Ok(());
    }
    let until_ns = store.lease_end(HOST_LEASE_NAME).await.map_err(OpenError::Database)?.unwrap_or(now_ns);
    let wait = Duration::from_nanos(until_ns.saturating_sub(now_ns));
    Err(OpenError::SecondHost { seconds: wait.as_secs() + 1 })
}

/// Reads the name of this host, by which it takes its own leases over after a crash. The first
/// start makes it up.
pub(crate) fn host_name(file: &Path) -> io::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(name) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (name, new) = (random_hex::<16>(), file.with_extension("new"));
    let mut written = std::fs::File::create(&new)?;
    writeln!(written, "{name}")?;
    written.sync_all()?;
    std::fs::rename(&new, file)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_keeps_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("host-id");
        let name = host_name(&file).unwrap();
        assert_eq!((name.len(), &host_name(&file).unwrap()), (32, &name));
        // A crash during the first start may leave an empty file.
        std::fs::write(&file, "").unwrap();
        assert_ne!(host_name(&file).unwrap(), name);
        assert!(host_name(Path::new("/nowhere/host-id")).is_err());
    }
}
