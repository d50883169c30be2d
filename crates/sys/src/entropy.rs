//! Feeds the kernel's random generator.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsRawFd,
};

/// Most bytes taken in one call. The generator cannot use more.
const ENTROPY_BYTES_MAX: usize = 512;

// From linux/random.h: _IOW('R', 0x03, int[2]) and _IO('R', 0x07).
const RNDADDENTROPY: libc::Ioctl = 0x4008_5203;
const RNDRESEEDCRNG: libc::Ioctl = 0x5207;

/// `struct rand_pool_info` with a buffer of fixed size.
#[repr(C)]
struct Pool {
    entropy_bits: libc::c_int,
    bytes: libc::c_int,
    buffer: [u8; ENTROPY_BYTES_MAX],
}

/// An open handle on the kernel's random generator.
#[derive(Debug)]
pub struct RandomDevice {
    device: File,
}

impl RandomDevice {
    /// Opens the generator.
    pub fn open() -> io::Result<Self> {
        Ok(Self { device: File::options().read(true).write(true).open("/dev/urandom")? })
    }

    /// Takes random bytes.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<()> {
        (&self.device).read_exact(bytes)
    }

    /// Adds bytes as full entropy and reseeds the generator from them. Two copies of one memory
    /// image then produce different random numbers at once.
    pub fn reseed(&self, entropy: &[u8]) -> io::Result<()> {
        reseed(&self.device, entropy)
    }
}

fn reseed(random: &File, entropy: &[u8]) -> io::Result<()> {
    let entropy = &entropy[..entropy.len().min(ENTROPY_BYTES_MAX)];
    let mut pool = Pool {
        entropy_bits: entropy.len() as libc::c_int * 8,
        bytes: entropy.len() as libc::c_int,
        buffer: [0; ENTROPY_BYTES_MAX],
    };
    pool.buffer[..entropy.len()].copy_from_slice(entropy);
    // SAFETY: reads a `rand_pool_info` whose `bytes` says how much of the buffer, which is larger,
    // to read.
    if unsafe { libc::ioctl(random.as_raw_fd(), RNDADDENTROPY, &pool) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes no argument.
    if unsafe { libc::ioctl(random.as_raw_fd(), RNDRESEEDCRNG, 0) } < 0 {
        let error = io::Error::last_os_error();
        // A generator that has not started yet will start from the bytes just added.
        return if error.raw_os_error() == Some(libc::ENODATA) { Ok(()) } else { Err(error) };
    }
    Ok(())
}
