//! Tells the service manager about our state (the protocol of `sd_notify`): one datagram to the
//! socket in `NOTIFY_SOCKET`. Without that variable it does nothing.

use std::{
    ffi::OsString,
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

use pandastack_kit::Scope;

/// Variables that name the manager's socket and the interval of its watchdog.
const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG: &str = "WATCHDOG_USEC";

/// Reports that the server answers requests, and keeps the manager's watchdog quiet as long as the
/// server's tasks run.
pub fn ready(scope: &Scope) {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    report(&socket, "READY=1\nSTATUS=serving");
    let Some(interval) = watchdog_interval(std::env::var(WATCHDOG).ok().as_deref()) else { return };
    let stopped = scope.token();
    scope.start("watchdog", async move {
        let mut ticks = tokio::time::interval(interval);
        loop {
            tokio::select! {
                _ = ticks.tick() => report(&socket, "WATCHDOG=1"),
                () = stopped.cancelled() => break,
            }
        }
    });
}

/// Reports that the server stops.
pub fn stopping() {
    if let Some(socket) = std::env::var_os(SOCKET) {
        report(&socket, "STOPPING=1\nSTATUS=stopping");
    }
}

fn report(socket: &OsString, text: &str) {
    if let Err(error) = send(socket, text) {
        tracing::warn!(%error, "could not tell the service manager the state of this server");
    }
}

/// A name that starts with `@` is in the abstract namespace.
fn send(socket: &OsString, text: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop)
}

/// Half of what the manager allows, as its documentation recommends.
fn watchdog_interval(microseconds: Option<&str>) -> Option<Duration> {
    let allowed = microseconds?.parse().ok().filter(|allowed| *allowed > 0)?;
    Some(Duration::from_micros(allowed) / 2)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

    use super::*;

    #[test]
    fn a_report_reaches_a_path_and_an_abstract_name() {
        let path = std::env::temp_dir().join(format!("pandastack-notify-{}", std::process::id()));
        let listener = UnixDatagram::bind(&path).unwrap();
        let name = format!("pandastack-notify-{}", std::process::id());
        let abstracted = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (listener, socket) in [(listener, path.clone().into_os_string()), (abstracted, format!("@{name}").into())] {
            send(&socket, "READY=1").unwrap();
            let mut received = [0; 16];
            let length = listener.recv(&mut received).unwrap();
            assert_eq!(&received[..length], b"READY=1");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(send(&path.into_os_string(), "READY=1").is_err());
    }

    #[test]
    fn the_watchdog_hears_from_us_twice_in_its_interval() {
        assert_eq!(watchdog_interval(Some("30000000")), Some(Duration::from_secs(15)));
        for none in [None, Some("0"), Some("soon"), Some("-1")] {
            assert_eq!(watchdog_interval(none), None, "{none:?}");
        }
    }
}
