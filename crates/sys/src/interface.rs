//! Sets addresses and routes of the guest's interface with ioctls. Needs no netlink and no `ip`
//! program.
#![allow(unsafe_code)]

use std::{
    io, mem,
    net::Ipv4Addr,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

/// A socket through which interfaces are changed.
#[derive(Debug)]
pub struct InterfaceSocket {
    socket: OwnedFd,
}

impl InterfaceSocket {
    /// Opens the control socket.
    pub fn open() -> io::Result<Self> {
        // SAFETY: plain system call; a non-negative result is a new descriptor that nothing else
        // owns.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Self { socket })
    }

    /// Sets the address of an interface.
    pub fn set_address(&self, name: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
        let mut request = named(name)?;
        request.ifr_ifru.ifru_addr = socket_address(address);
        self.call(libc::SIOCSIFADDR, &mut request)?;
        request.ifr_ifru.ifru_netmask = socket_address(Ipv4Addr::from(mask));
        self.call(libc::SIOCSIFNETMASK, &mut request)
    }

    /// Switches an interface on.
    pub fn bring_up(&self, name: &str) -> io::Result<()> {
        let mut request = named(name)?;
        request.ifr_ifru.ifru_flags = self.flags(name)? | libc::IFF_UP as libc::c_short;
        self.call(libc::SIOCSIFFLAGS, &mut request)
    }

    /// Tells whether an interface passes frames: it is up, and the kernel has detected a peer.
    pub fn runs(&self, name: &str) -> io::Result<bool> {
        Ok(self.flags(name)? & libc::IFF_RUNNING as libc::c_short != 0)
    }

    fn flags(&self, name: &str) -> io::Result<libc::c_short> {
        let mut request = named(name)?;
        self.call(libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: the kernel has just filled this field of the union in.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }

    /// Sets the default route. Succeeds if the route exists already.
    pub fn set_gateway(&self, gateway: Ipv4Addr) -> io::Result<()> {
        // SAFETY: `rtentry` is plain data for which all zeroes is valid.
        let mut route = unsafe { mem::zeroed::<libc::rtentry>() };
        route.rt_dst = socket_address(Ipv4Addr::UNSPECIFIED);
        route.rt_genmask = socket_address(Ipv4Addr::UNSPECIFIED);
        route.rt_gateway = socket_address(gateway);
        route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
        match self.call(libc::SIOCADDRT, &mut route) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            result => result,
        }
    }

    fn call<T>(&self, request: libc::c_ulong, argument: &mut T) -> io::Result<()> {
        // SAFETY: callers pair each request with the struct it takes; the kernel may write to it,
        // which the exclusive borrow allows.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), request as libc::Ioctl, argument) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn named(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: `ifreq` is plain data for which all zeroes is valid.
    let mut request = unsafe { mem::zeroed::<libc::ifreq>() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok(request)
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let octets = address.octets();
    let mut data = [0; 14];
    for (place, byte) in data[2..].iter_mut().zip(octets) {
        *place = byte as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

#[cfg(test)]
mod tests {
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn an_interface_runs_once_it_is_on() {
        let inside = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let interfaces = InterfaceSocket::open().unwrap();
            assert!(!interfaces.runs("lo").unwrap());
            interfaces.bring_up("lo").unwrap();
            assert!(interfaces.runs("lo").unwrap());
            assert!(interfaces.runs("none0").is_err());
        };
        std::thread::spawn(inside).join().unwrap();
    }
}
