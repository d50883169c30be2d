//! Assigns a slot to each of a sandbox's volumes, or returns the reason why it cannot. Pure: reads
//! and changes nothing.

use std::{collections::HashSet, path::Path};

use pandastack_model::{Fault, FaultKind, VolumeAccess, VolumeMount};
use pandastack_vmm::{VOLUME_SLOTS, VolumeSlot};

use crate::ledger::VolumeUse;

/// Longest mount path that the kernel accepts.
const PATH_BYTES_MAX: usize = 4095;

/// Paths that the guest's agent needs.
const RESERVED: [&str; 4] = ["/dev", "/proc", "/sys", "/run"];

/// Assigns a slot to each volume, in the order of the request.
pub fn uses(mounts: &[VolumeMount]) -> Result<Vec<VolumeUse>, Fault> {
    let mut counts = (0, 0);
    let (mut paths, mut volumes) = (HashSet::new(), HashSet::new());
    let mut planned = Vec::with_capacity(mounts.len());
    for VolumeMount { volume, path, access } in mounts {
        check_path(path)?;
        if !volumes.insert(volume) {
            return Err(refused("volume.twice", format!("volume {volume} is listed twice")));
        }
        if !paths.insert(path) {
            return Err(refused("volume.path", format!("two volumes cannot both be mounted at {path}")));
        }
        let count = match access {
            VolumeAccess::ReadWrite => &mut counts.0,
            VolumeAccess::ReadOnly => &mut counts.1,
        };
        let slot = VolumeSlot::new(*access, *count).ok_or_else(too_many)?;
        *count += 1;
        planned.push(VolumeUse { volume: *volume, path: path.clone(), slot });
    }
    Ok(planned)
}

fn check_path(path: &str) -> Result<(), Fault> {
    let bad = |why: &str| Err(refused("volume.path", format!("a volume cannot be mounted at {path:?}: {why}")));
    if !path.starts_with('/') {
        return bad("the path must be absolute");
    }
    if path.len() > PATH_BYTES_MAX || path.contains('\0') {
        return bad("the path is too long or contains a NUL byte");
    }
    let mut parts = path.split('/').skip(1);
    if path == "/" || parts.any(|part| matches!(part, "" | "." | "..")) {
        return bad("use a directory below / without `.`, `..`, double slashes or a trailing slash");
    }
    match RESERVED.iter().find(|reserved| Path::new(path).starts_with(reserved)) {
        Some(reserved) => bad(&format!("{reserved} is reserved for the system")),
        None => Ok(()),
    }
}

fn too_many() -> Fault {
    let text = format!("a sandbox can have up to {VOLUME_SLOTS} read-write and {VOLUME_SLOTS} read-only volumes");
    refused("volume.too_many", text)
}

fn refused(code: &'static str, text: String) -> Fault {
    Fault::new(FaultKind::Caller, code, text)
}

#[cfg(test)]
mod tests {
    use pandastack_model::VolumeId;

    use super::*;

    fn mount(path: &str, access: VolumeAccess) -> VolumeMount {
        VolumeMount { volume: VolumeId::random(), path: path.to_owned(), access }
    }

    fn refusal(mounts: &[VolumeMount]) -> &'static str {
        let fault = uses(mounts).expect_err("this cannot be planned");
        assert_eq!(fault.kind, FaultKind::Caller, "{fault}");
        fault.code
    }

    #[test]
    fn each_kind_has_its_own_slots_and_the_order_stays() {
        let mounts = [("/a", VolumeAccess::ReadOnly), ("/b", VolumeAccess::ReadWrite), ("/c", VolumeAccess::ReadOnly)];
        let mounts = mounts.map(|(path, access)| mount(path, access));
        let planned = uses(&mounts).unwrap();
        let slots: Vec<_> = planned.iter().map(|planned| planned.slot.to_string()).collect();
        assert_eq!(slots, ["ro0", "rw0", "ro1"]);
        assert_eq!(planned.iter().map(VolumeUse::mount).collect::<Vec<_>>(), mounts);
    }

    #[test]
    fn paths_that_cannot_be_meant_are_refused() {
        let long = format!("/{}", "x".repeat(PATH_BYTES_MAX));
        for path in [
            "",
            "/",
            "//",
            "data",
            "./data",
            "/data/",
            "/data//x",
            "/data/../etc",
            "/..",
            "/.",
            "/a/./b",
            "/a\0b",
            "/dev",
            "/dev/shm",
            "/proc/1",
            "/sys",
            "/run/x",
            &long,
        ] {
            assert_eq!(refusal(&[mount(path, VolumeAccess::ReadWrite)]), "volume.path", "{path:?}");
        }
        for path in ["/data", "/mnt/a b", "/devices", "/...", "/srv/ü"] {
            uses(&[mount(path, VolumeAccess::ReadWrite)]).unwrap();
        }
    }

    #[test]
    fn one_place_and_one_volume_are_used_once() {
        let twice = mount("/a", VolumeAccess::ReadOnly);
        assert_eq!(refusal(&[twice.clone(), VolumeMount { path: "/b".to_owned(), ..twice.clone() }]), "volume.twice");
        assert_eq!(refusal(&[twice, mount("/a", VolumeAccess::ReadWrite)]), "volume.path");
    }

    #[test]
    fn no_more_volumes_than_slots() {
        for access in [VolumeAccess::ReadOnly, VolumeAccess::ReadWrite] {
            let mounts: Vec<_> = (0..=VOLUME_SLOTS).map(|number| mount(&format!("/{number}"), access)).collect();
            uses(&mounts[1..]).unwrap();
            assert_eq!(refusal(&mounts), "volume.too_many");
        }
    }
}
