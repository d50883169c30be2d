//! Resource usage of a process, as the kernel counts it.

use std::{fs, io, time::Duration};

/// Clock ticks per second as the kernel reports them: the same on every Linux.
const TICKS_PER_SECOND: u64 = 100;

/// Resource usage of a process so far and now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// CPU time since its start.
    pub cpu: Duration,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Mapped memory.
    pub virtual_bytes: u64,
    pub threads: u64,
    /// Time since its start.
    pub age: Duration,
}

/// Measures a process. Returns `NotFound` if it is gone.
pub fn of_process(pid: u32) -> io::Result<ProcessUsage> {
    measure(&pid.to_string())
}

/// Measures this process.
pub fn of_myself() -> io::Result<ProcessUsage> {
    measure("self")
}

fn measure(who: &str) -> io::Result<ProcessUsage> {
    let stat = fs::read_to_string(format!("/proc/{who}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{who}/status"))?;
    let uptime = fs::read_to_string("/proc/uptime")?;
    parse(&stat, &status, &uptime).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "the process statistics in /proc could not be parsed")
    })
}

fn parse(stat: &str, status: &str, uptime: &str) -> Option<ProcessUsage> {
    // A program name may contain anything, even parentheses. The fields follow the last one.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let (user, system, started) = (number(11)?, number(12)?, number(19)?);
    let up: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let age = up - started as f64 / TICKS_PER_SECOND as f64;
    Some(ProcessUsage {
        cpu: Duration::from_millis(user.saturating_add(system).saturating_mul(1000 / TICKS_PER_SECOND)),
        // A process that is ending has no memory, and these lines are missing.
        resident_bytes: kibibytes(status, "VmRSS:").unwrap_or(0),
        virtual_bytes: kibibytes(status, "VmSize:").unwrap_or(0),
        threads: value(status, "Threads:")?,
        age: Duration::from_secs_f64(age.max(0.0)),
    })
}

fn kibibytes(status: &str, name: &str) -> Option<u64> {
    value(status, name)?.checked_mul(1024)
}

fn value(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_odd_name_is_read() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 1000 99 9 0";
        let status = "Name:\ta\nVmSize:\t  2048 kB\nVmRSS:\t1024 kB\nThreads:\t3\n";
        let usage = parse(stat, status, "15.50 3.2\n").unwrap();
        assert_eq!((usage.cpu, usage.age), (Duration::from_secs(2), Duration::from_millis(5500)));
        assert_eq!((usage.resident_bytes, usage.virtual_bytes, usage.threads), (1 << 20, 2 << 20, 3));
        for bad in ["", "7 (a", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 x 50 0 0 20 0 3 0 1000"] {
            assert_eq!(parse(bad, status, "1 1"), None, "{bad}");
        }
    }

    #[test]
    fn this_process_is_measured() {
        let usage = of_myself().unwrap();
        assert!(usage.resident_bytes > 0 && usage.virtual_bytes >= usage.resident_bytes && usage.threads > 0);
        assert_eq!(of_process(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
