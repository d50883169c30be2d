//! Decides whether another machine or volume fits on this host. Pure: takes a view of the host, and
//! returns yes or a reason.

use pandastack_model::{ByteSize, VOLUMES_OVERCOMMIT};

/// Resources and promises of the host at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostResources {
    /// Memory that could be given to processes now, reclaimable caches included.
    pub memory_free: ByteSize,
    /// Admitted machines whose process does not run yet. Their memory still counts as free.
    pub machines_starting: u64,
    /// All memory of the host.
    pub memory_total: ByteSize,
    /// Guest memory of all machines together: the most that they can use.
    pub memory_promised: ByteSize,
    /// Free space for new data on the data volume.
    pub disk_free: ByteSize,
}

/// Limits that the operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Stays free for the host itself.
    pub memory_reserve: ByteSize,
    /// Limit of promised guest memory, as a percentage of the host's memory. Guests share the pages
    /// of their layer and rarely use all of theirs.
    pub overcommit_percent: u64,
    /// Stays free on the data volume.
    pub disk_reserve: ByteSize,
}

/// Why a machine or a volume does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapacityError {
    #[error("only {free} of memory is free, and {reserve} is kept in reserve")]
    Memory { free: ByteSize, reserve: ByteSize },
    #[error("{promised} of memory is already reserved for machines, of at most {most}")]
    Promises { promised: ByteSize, most: ByteSize },
    #[error("only {free} is free on the data volume, and {reserve} is kept in reserve")]
    Disk { free: ByteSize, reserve: ByteSize },
    #[error("volumes have {promised} reserved, of at most {most}")]
    Volumes { promised: ByteSize, most: ByteSize },
}

/// Memory of a machine's process, before its guest has changed a page.
pub const MACHINE_FLOOR: ByteSize = ByteSize::mib(48);

/// Decides whether one more machine with this much memory fits.
pub fn admit(view: &HostResources, terms: &AdmissionLimits, memory: ByteSize) -> Result<(), CapacityError> {
    let HostResources { memory_free, machines_starting, memory_total, memory_promised, disk_free } = *view;
    if disk_free < terms.disk_reserve {
        return Err(CapacityError::Disk { free: disk_free, reserve: terms.disk_reserve });
    }
    let floors = MACHINE_FLOOR.get().saturating_mul(machines_starting.saturating_add(1));
    if memory_free.get() < terms.memory_reserve.get().saturating_add(floors) {
        return Err(CapacityError::Memory { free: memory_free, reserve: terms.memory_reserve });
    }
    let most = ByteSize::new(memory_total.get().saturating_mul(terms.overcommit_percent) / 100);
    if memory_promised.get().saturating_add(memory.get()) > most.get() {
        return Err(CapacityError::Promises { promised: memory_promised, most });
    }
    Ok(())
}

/// Input of a decision about a volume.
#[derive(Clone, Copy, Debug)]
pub struct VolumeCapacity {
    pub disk_free: ByteSize,
    pub disk_total: ByteSize,
    /// Sizes of all other volumes.
    pub promised: ByteSize,
}

/// Decides whether a new or grown volume of this size fits.
pub fn admit_volume(view: &VolumeCapacity, disk_reserve: ByteSize, size: ByteSize) -> Result<(), CapacityError> {
    let VolumeCapacity { disk_free, disk_total, promised } = *view;
    if disk_free < disk_reserve {
        return Err(CapacityError::Disk { free: disk_free, reserve: disk_reserve });
    }
    let most = ByteSize::new(disk_total.get().saturating_mul(VOLUMES_OVERCOMMIT));
    if promised.get().saturating_add(size.get()) > most.get() {
        return Err(CapacityError::Volumes { promised, most });
    }
    Ok(())
}

/// Reads total and available memory from the text of `/proc/meminfo`.
pub fn parse_meminfo(text: &str) -> Option<(ByteSize, ByteSize)> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim_start_matches(':').split_whitespace().next()?.parse().ok()?;
        Some(ByteSize::new(kib.checked_mul(1024)?))
    };
    Some((field("MemTotal")?, field("MemAvailable")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: AdmissionLimits = AdmissionLimits {
        memory_reserve: ByteSize::mib(512),
        overcommit_percent: 200,
        disk_reserve: ByteSize::mib(256),
    };

    fn view() -> HostResources {
        HostResources {
            memory_free: ByteSize::gib(4),
            machines_starting: 0,
            memory_total: ByteSize::gib(8),
            memory_promised: ByteSize::gib(2),
            disk_free: ByteSize::gib(10),
        }
    }

    fn check(view: HostResources, memory: ByteSize, expected: Result<(), CapacityError>) {
        assert_eq!(admit(&view, &TERMS, memory), expected, "{view:?} {memory}");
    }

    #[test]
    fn a_host_with_room_takes_one_more() {
        check(view(), ByteSize::mib(256), Ok(()));
        check(HostResources { memory_promised: ByteSize::gib(15), ..view() }, ByteSize::gib(1), Ok(()));
    }

    #[test]
    fn each_shortage_has_its_name() {
        let free = ByteSize::mib(540);
        check(
            HostResources { memory_free: free, ..view() },
            ByteSize::mib(1),
            Err(CapacityError::Memory { free, reserve: ByteSize::mib(512) }),
        );
        let (promised, most) = (ByteSize::gib(15), ByteSize::gib(16));
        check(
            HostResources { memory_promised: promised, ..view() },
            ByteSize::new(ByteSize::gib(1).get() + 1),
            Err(CapacityError::Promises { promised, most }),
        );
        let free = ByteSize::mib(255);
        check(
            HostResources { disk_free: free, ..view() },
            ByteSize::mib(1),
            Err(CapacityError::Disk { free, reserve: ByteSize::mib(256) }),
        );
    }

    #[test]
    fn no_size_overflows() {
        let huge = ByteSize::new(u64::MAX);
        let view = HostResources {
            memory_promised: huge,
            memory_free: huge,
            machines_starting: u64::MAX,
            memory_total: huge,
            disk_free: huge,
        };
        check(view, huge, Err(CapacityError::Promises { promised: huge, most: ByteSize::new(u64::MAX / 100) }));
    }

    #[test]
    fn machines_that_are_being_started_have_their_share_of_what_is_free() {
        let reserve = TERMS.memory_reserve;
        let free = ByteSize::new(reserve.get() + 3 * MACHINE_FLOOR.get());
        let starting = |machines_starting| HostResources { memory_free: free, machines_starting, ..view() };
        check(starting(2), ByteSize::mib(1), Ok(()));
        check(starting(3), ByteSize::mib(1), Err(CapacityError::Memory { free, reserve }));
    }

    #[test]
    fn meminfo_is_read() {
        let text = "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(parse_meminfo(text), Some((ByteSize::new(24_576_000_000), ByteSize::new(20_480_000_000))));
        assert_eq!(parse_meminfo("MemTotal: x kB"), None);
    }

    #[test]
    fn volumes_are_promised_more_than_there_is_but_not_without_end() {
        let view =
            VolumeCapacity { disk_free: ByteSize::gib(1), disk_total: ByteSize::gib(10), promised: ByteSize::gib(29) };
        let (reserve, most) = (ByteSize::mib(256), ByteSize::gib(30));
        let check = |view, size, expected| assert_eq!(admit_volume(&view, reserve, size), expected);
        check(view, ByteSize::gib(1), Ok(()));
        check(view, ByteSize::gib(2), Err(CapacityError::Volumes { promised: ByteSize::gib(29), most }));
        check(view, ByteSize::new(u64::MAX), Err(CapacityError::Volumes { promised: ByteSize::gib(29), most }));
        let free = ByteSize::mib(255);
        check(VolumeCapacity { disk_free: free, ..view }, ByteSize::mib(1), Err(CapacityError::Disk { free, reserve }));
    }
}
