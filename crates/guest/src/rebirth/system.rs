//! The system that an agent acts on: the machine whose first process it is, or a stand-in for
//! tests.

use std::{
    cell::{Cell, RefCell},
    fs::{self, File},
    io::{self, Seek, SeekFrom, Write},
    os::{fd::AsFd, unix::fs::FileExt},
    time::Duration,
};

use nix::time::{ClockId, clock_gettime, clock_settime};
use pandastack_sys::{entropy, init};
use pandastack_wire_guest::Identity;

use crate::{boot::network, volumes::Disks};

/// Tells programs of a new life, so that they can react: different contents each time,
/// world-readable, in memory, and written in place so that it can be watched.
const GENERATION_FILE: &str = "/run/pandastack/generation";

/// The effects of a rebirth, a seal or a power-off on a system.
pub trait System {
    /// Sets the wall clock, in nanoseconds since the Unix epoch.
    fn set_clock(&self, wall_clock_ns: u64) -> io::Result<()>;
    /// Reads the wall clock.
    fn clock(&self) -> u64;
    /// Reseeds the random generator.
    fn reseed(&self, entropy: &[u8]) -> io::Result<()>;
    /// Sets hostname, machine id and addresses.
    fn take_identity(&self, identity: &Identity) -> io::Result<()>;
    /// Tells programs that a new life has begun. The random generator must be reseeded before.
    fn begin_generation(&self) -> io::Result<()>;
    /// Stops writes to disk.
    fn freeze(&self) -> io::Result<()>;
    /// Allows writes again.
    fn thaw(&self) -> io::Result<()>;
    /// Returns the disks for volumes, if there are any.
    fn disks(&self) -> Option<Disks>;
    /// Ends the system.
    fn power_off(&self);
}

/// The machine whose first process is this agent.
///
/// A rebirth writes a few files. In a restored guest, a lookup runs code that the CPU has not
/// translated yet. So the files are opened once, at boot, and the open descriptors are sealed with
/// the guest.
#[derive(Debug)]
pub struct MachineSystem {
    disks: Disks,
    hostname: IdentityFile,
    hosts: IdentityFile,
    machine_id: IdentityFile,
    generation: IdentityFile,
    random: entropy::RandomDevice,
}

impl MachineSystem {
    /// Opens the files that every rebirth needs. The identity files must be in place already.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            disks: Disks::look(),
            hostname: IdentityFile::open("/etc/hostname"),
            hosts: IdentityFile::open("/etc/hosts"),
            machine_id: IdentityFile::open("/etc/machine-id"),
            generation: IdentityFile::open(GENERATION_FILE),
            random: entropy::RandomDevice::open()?,
        })
    }
}

impl System for MachineSystem {
    fn set_clock(&self, wall_clock_ns: u64) -> io::Result<()> {
        Ok(clock_settime(ClockId::CLOCK_REALTIME, Duration::from_nanos(wall_clock_ns).into())?)
    }

    fn clock(&self) -> u64 {
        wall_clock_ns()
    }

    fn reseed(&self, bytes: &[u8]) -> io::Result<()> {
        self.random.reseed(bytes)
    }

    fn take_identity(&self, identity: &Identity) -> io::Result<()> {
        nix::unistd::sethostname(&identity.hostname)?;
        self.hostname.overwrite(format!("{}\n", identity.hostname).as_bytes())?;
        self.hosts.overwrite(network::hosts_of(&identity.hostname).as_bytes())?;
        self.machine_id.overwrite(format!("{}\n", identity.machine_id).as_bytes())?;
        match &identity.network {
            Some(addresses) => network::GuestAddresses::try_from(addresses)?.apply(),
            None => Ok(()),
        }
    }

    fn begin_generation(&self) -> io::Result<()> {
        let mut bytes = [0; 16];
        self.random.read(&mut bytes)?;
        self.generation.overwrite(format!("{}\n", uuid(bytes)).as_bytes())
    }

    fn freeze(&self) -> io::Result<()> {
        self.disks.freeze()?;
        match init::freeze(File::open("/")?.as_fd()) {
            // A file system that cannot freeze was at least flushed.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            result => result,
        }
    }

    fn thaw(&self) -> io::Result<()> {
        match init::thaw(File::open("/")?.as_fd()) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            result => result?,
        }
        self.disks.thaw()
    }

    fn disks(&self) -> Option<Disks> {
        Some(self.disks.clone())
    }

    fn power_off(&self) {
        // The machine's process ends on a restart; the machine has no power management.
        let error = init::restart();
        let _ = writeln!(io::stderr(), "pandastack guest agent: restart: {error}");
    }
}

/// Records instead of acting, for an agent that runs beside other programs.
#[derive(Debug, Default)]
pub struct RecordingSystem {
    ahead_ns: Cell<i128>,
    identity: RefCell<Option<Identity>>,
}

impl System for RecordingSystem {
    fn set_clock(&self, wanted_ns: u64) -> io::Result<()> {
        self.ahead_ns.set(i128::from(wanted_ns) - i128::from(wall_clock_ns()));
        Ok(())
    }

    fn clock(&self) -> u64 {
        u64::try_from(i128::from(wall_clock_ns()) + self.ahead_ns.get()).unwrap_or(0)
    }

    fn reseed(&self, _entropy: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn take_identity(&self, identity: &Identity) -> io::Result<()> {
        *self.identity.borrow_mut() = Some(identity.clone());
        Ok(())
    }

    fn begin_generation(&self) -> io::Result<()> {
        Ok(())
    }

    fn freeze(&self) -> io::Result<()> {
        Ok(())
    }

    fn thaw(&self) -> io::Result<()> {
        Ok(())
    }

    fn disks(&self) -> Option<Disks> {
        None
    }

    fn power_off(&self) {
        std::process::exit(0);
    }
}

fn wall_clock_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).map(Duration::from).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// A small identity file that stays open. If the sandbox's owner unmounts it, the file below keeps
/// its contents.
#[derive(Debug)]
struct IdentityFile {
    path: &'static str,
    file: Option<File>,
}

impl IdentityFile {
    /// Opens a file. If that fails, each write tries again.
    fn open(path: &'static str) -> Self {
        Self { path, file: writable(path).ok() }
    }

    /// Replaces the contents in place, without truncating first. A truncation makes a disk's file
    /// system flush on close, which would delay a restore, and most contents keep their length.
    fn overwrite(&self, contents: &[u8]) -> io::Result<()> {
        match &self.file {
            Some(file) => replace(file, contents),
            None => replace(&writable(self.path)?, contents),
        }
    }
}

/// Formats random bytes as a UUID of version 4.
fn uuid(bytes: [u8; 16]) -> String {
    let number = u128::from_be_bytes(bytes) & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{number:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn writable(path: &str) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

fn replace(mut file: &File, contents: &[u8]) -> io::Result<()> {
    let length = contents.len() as u64;
    file.write_all_at(contents, 0)?;
    // A seek to the end runs a tenth of the code of a stat.
    if file.seek(SeekFrom::End(0))? > length {
        file.set_len(length)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_a_random_uuid() {
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
