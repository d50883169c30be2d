//! Limit on open descriptors of this process. The server needs one or two for each connection, and
//! the usual soft limit of 1024 exists for programs that call `select`.

use std::{io, sync::OnceLock};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Upper bound. A higher limit has no use, and some programs close every descriptor up to it at
/// start.
const RAISED_MAX: u64 = 1 << 20;

/// The soft limit before [`raise_limit`] changed it.
static STARTED_WITH: OnceLock<u64> = OnceLock::new();

/// Raises the soft limit to the hard limit and returns the new soft limit. Programs started with
/// [`crate::jail::launch`] keep the soft limit that this process was started with.
pub fn raise_limit() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let wanted = hard.min(RAISED_MAX);
    if soft >= wanted {
        return Ok(soft);
    }
    let _ = STARTED_WITH.set(soft);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?;
    Ok(wanted)
}

/// The limit for a program that this process starts. `None` means that it inherits ours.
pub(crate) fn for_programs() -> Option<libc::rlimit> {
    let soft = *STARTED_WITH.get()?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    Some(libc::rlimit { rlim_cur: soft, rlim_max: hard })
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::CString,
        fs::File,
        io::{Read, pipe},
        os::fd::AsFd,
    };

    use super::*;
    use crate::jail::{JailLaunch, launch};

    #[test]
    fn the_soft_limit_is_raised_and_programs_keep_the_first() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 200, hard).unwrap();
        for _ in 0..2 {
            assert_eq!(raise_limit().unwrap(), hard.min(RAISED_MAX));
        }
        let (nothing, netns) = (File::open("/dev/null").unwrap(), File::open("/proc/self/ns/net").unwrap());
        let (mut said, theirs) = pipe().unwrap();
        let words = |words: &[&str]| words.iter().map(|word| CString::new(*word).unwrap()).collect::<Vec<_>>();
        let program = launch(&JailLaunch {
            program: c"/bin/sh",
            argv: &words(&["sh", "-c", "ulimit -n; ulimit -Hn"]),
            env: &[],
            descriptors: &[nothing.as_fd(), theirs.as_fd(), theirs.as_fd()],
            netns: netns.as_fd(),
            groups: &[],
            file_bytes_max: 1 << 20,
            cell: None,
        })
        .unwrap();
        drop(theirs);
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("200\n{hard}\n"));
        nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(program.pid as i32), None).unwrap();
    }
}
