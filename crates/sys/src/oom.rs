//! Sets which processes the kernel kills first when memory runs out.

use std::{fs, io};

/// Score of a server: killed after all others, but not exempt, because a leaking server must not
/// take the host down.
pub const SERVER_SCORE: i32 = -900;

/// Score of a machine: killed before all others.
pub const MACHINE_SCORE: i32 = 500;

/// Sets how readily the kernel kills a process, from -1000 (never) to 1000 (first). Processes that
/// it starts later inherit the score.
pub fn set_score(pid: u32, score: i32) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/oom_score_adj"), score.to_string())
}

/// Total memory of this host, in bytes.
pub fn host_memory() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let kibibytes =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let bytes = kibibytes.and_then(|kibibytes: u64| kibibytes.checked_mul(1024));
    bytes.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo has no MemTotal"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_set() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        set_score(child.id(), MACHINE_SCORE).unwrap();
        let score = fs::read_to_string(format!("/proc/{}/oom_score_adj", child.id())).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(score.trim(), "500");
        assert!(host_memory().unwrap() > 1 << 20);
    }
}
