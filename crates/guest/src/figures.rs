//! Resource usage of the guest, from `/proc` and the file system. A value that cannot be read is
//! zero.

use std::{fs, time::Duration};

use nix::{
    sys::statvfs::statvfs,
    time::{ClockId, clock_gettime},
};
use pandastack_wire_guest::GuestUsage;

/// Milliseconds per tick of the kernel's CPU accounting.
const TICK_MS: u64 = 10;

/// Flag of a kernel thread in a process's flags.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Measures all values once.
pub(crate) fn measure() -> GuestUsage {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let (disk_total, disk_free) = statvfs("/").map_or((0, 0), |disk| {
        let block = disk.fragment_size();
        (disk.blocks().saturating_mul(block), disk.blocks_available().saturating_mul(block))
    });
    let uptime = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default();
    GuestUsage {
        cpu_ms: busy_ticks(&fs::read_to_string("/proc/stat").unwrap_or_default()) * TICK_MS,
        memory_total: kibibytes(&memory, "MemTotal:") * 1024,
        memory_available: kibibytes(&memory, "MemAvailable:") * 1024,
        disk_total,
        disk_free,
        processes: processes(),
        uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Sums the first line of `/proc/stat` without idle and I/O wait, and without the guest times,
/// which other columns include.
fn busy_ticks(stat: &str) -> u64 {
    let ticks = stat.lines().next().unwrap_or_default().split_ascii_whitespace().skip(1).take(8);
    let busy = ticks.enumerate().filter(|(column, _)| !matches!(column, 3 | 4));
    busy.map(|(_, ticks)| ticks.parse::<u64>().unwrap_or(0)).sum()
}

fn kibibytes(meminfo: &str, name: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Counts processes without kernel threads.
fn processes() -> u32 {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = entries.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    let count = numbered
        .filter(|entry| fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| !is_kernel_thread(&stat)))
        .count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A process name may contain any character, so fields are counted from the last parenthesis.
fn is_kernel_thread(stat: &str) -> bool {
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_texts() {
        assert_eq!(busy_ticks("cpu  1 2 3 1000 500 4 5 6 70 80\ncpu0 9 9"), 21);
        assert_eq!(busy_ticks(""), 0);
        assert_eq!(kibibytes("MemTotal:  2048 kB\nMemAvailable: 12 kB\n", "MemAvailable:"), 12);
        assert!(is_kernel_thread("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0"));
        assert!(!is_kernel_thread("9 (a) b) S 1 9 9 0 -1 4194560 1 2"));
        assert!(!is_kernel_thread("garbage"));
    }

    #[test]
    fn measures_this_machine() {
        let figures = measure();
        assert!(figures.memory_total >= figures.memory_available && figures.disk_total >= figures.disk_free);
        assert!(figures.memory_available > 0 && figures.processes > 0 && figures.uptime_ms > 0);
    }
}
