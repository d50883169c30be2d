//! Owns a handle on a network namespace and all operations inside one. Never moves the calling
//! thread: a thread that failed to return would do the host's work in a sandbox's namespace. A
//! socket stays in the namespace where it was made, so any thread may use it afterwards.

use std::{
    fs::File,
    io,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    thread,
    time::Duration,
};

use nix::{
    sched::{CloneFlags, setns},
    sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt},
};

/// Threads that enter a namespace make a few system calls and end.
const THREAD_STACK_BYTES: usize = 256 * 1024;

/// A network namespace. The handle keeps it alive even when its name is gone.
#[derive(Debug)]
pub struct Netns {
    file: File,
}

impl Netns {
    /// Opens a namespace by its file, such as `/run/netns/NAME` or `/proc/PID/ns/net`.
    pub fn open(path: &Path) -> io::Result<Netns> {
        Ok(Netns { file: File::open(path)? })
    }

    /// Runs a closure on a new thread inside the namespace and waits for it.
    pub fn run<F, T>(&self, work: F) -> io::Result<T>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("netns".to_owned()).stack_size(THREAD_STACK_BYTES);
            let inside = thread.spawn_scoped(scope, || {
                setns(&self.file, CloneFlags::CLONE_NEWNET)?;
                Ok(work())
            })?;
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Makes an unconnected TCP socket of the namespace: IPv4, nonblocking, closed on exec, without
    /// Nagle's delay.
    pub fn tcp_socket(&self) -> io::Result<OwnedFd> {
        let made = self.run(|| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            socket(AddressFamily::Inet, SockType::Stream, flags, None)
        })??;
        setsockopt(&made, sockopt::TcpNoDelay, &true)?;
        Ok(made)
    }

    /// Connects to an address as seen from inside the namespace. Blocks up to the timeout; the
    /// stream comes back nonblocking.
    pub fn connect(&self, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
        let stream = self.run(|| TcpStream::connect_timeout(&address, timeout))??;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// Binds a UDP socket inside the namespace, nonblocking.
    pub fn bind_udp(&self, address: SocketAddr) -> io::Result<UdpSocket> {
        let bound = self.run(|| UdpSocket::bind(address))??;
        bound.set_nonblocking(true)?;
        Ok(bound)
    }

    /// Listens for TCP connections inside the namespace, nonblocking.
    pub fn listen_tcp(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let listener = self.run(|| TcpListener::bind(address))??;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Connects to an address as seen from inside the namespace at `path`. For one-off use; keep a
/// [`Netns`] to do it often.
pub fn connect_tcp_in(path: &Path, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    Netns::open(path)?.connect(address, timeout)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use nix::sched::unshare;

    use super::*;

    /// A namespace without a name, made and opened by a temporary thread.
    fn fresh() -> Netns {
        thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            Netns::open(Path::new("/proc/thread-self/ns/net")).unwrap()
        })
        .join()
        .unwrap()
    }

    fn current() -> u64 {
        std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino()
    }

    #[test]
    fn only_the_closure_is_inside() {
        let home = current();
        let netns = fresh();
        let inside = netns.run(current).unwrap();
        assert_ne!(inside, home);
        assert_eq!(inside, netns.file.metadata().unwrap().ino());
        assert_eq!(current(), home);
    }

    #[test]
    fn a_socket_stays_in_its_namespace() {
        // Loopback is down in a new namespace, so connecting there must fail while it works on the
        // host.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(TcpStream::connect(address).is_ok());
        assert!(fresh().connect(address, Duration::from_secs(1)).is_err());
    }

    #[test]
    fn a_missing_namespace_is_an_error() {
        assert!(
            connect_tcp_in(Path::new("/run/netns/none"), "127.0.0.1:1".parse().unwrap(), Duration::from_secs(1))
                .is_err()
        );
    }
}
