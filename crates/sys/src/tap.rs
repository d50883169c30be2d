//! Attaches to an existing tap device, to exchange frames with its network. The descriptor can be
//! passed to a process that may not open `/dev/net/tun` itself. Never creates a persistent device,
//! and never configures one.
#![allow(unsafe_code)]

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// Attaches to the tap `name` in the calling thread's network namespace. Frames are raw Ethernet,
/// without any header. The link has carrier while the descriptor is open. A second attachment fails
/// as busy.
pub fn attach(name: &str) -> io::Result<OwnedFd> {
    open(name, libc::IFF_TAP | libc::IFF_NO_PI)
}

/// As [`attach`], but each frame starts with the virtio network header, which offloads checksums
/// and segmentation to the host.
pub fn attach_with_header(name: &str) -> io::Result<OwnedFd> {
    open(name, libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR)
}

fn open(name: &str, flags: libc::c_int) -> io::Result<OwnedFd> {
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    set_interface(&file, name, flags)?;
    Ok(file.into())
}

fn set_interface(file: &File, name: &str, flags: libc::c_int) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero, because the kernel reads the name as a C string.
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the descriptor is open for the whole call; TUNSETIFF reads and writes one `ifreq`,
    // which `request` is, and which nothing else refers to.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_names_are_refused() {
        for name in ["", "a-name-that-is-too-long", "x\0y"] {
            assert_eq!(attach(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }
}
