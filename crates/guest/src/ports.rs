//! Listening TCP ports of the guest, from `/proc/net`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use pandastack_wire_guest::{PortList, PortReport};

use crate::{Agent, limits};

/// State of a listening socket in the kernel's table.
const LISTEN: &str = "0A";

/// One listening socket.
#[derive(Debug, PartialEq, Eq)]
struct ListeningSocket {
    port: u16,
    loopback: bool,
    inode: u64,
}

/// Lists every listening port except the agent's own, sorted and without duplicates.
pub(crate) fn list(agent: &Agent) -> PortList {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: Vec<ListeningSocket> = tables
        .iter()
        .flat_map(|table| table.lines().filter_map(parse))
        .filter(|socket| socket.port != agent.port)
        .collect();
    let owners = owners_of(sockets.iter().map(|socket| socket.inode).collect());
    let mut ports = BTreeMap::<u16, PortReport>::new();
    for socket in sockets {
        let port =
            ports.entry(socket.port).or_insert(PortReport { port: socket.port, loopback_only: true, process: None });
        port.loopback_only &= socket.loopback;
        if port.process.is_none() {
            port.process = owners.get(&socket.inode).cloned();
        }
    }
    PortList { ports: ports.into_values().collect() }
}

/// Parses a line of the table: number, local address, remote address, state, …, inode as the tenth
/// field.
fn parse(line: &str) -> Option<ListeningSocket> {
    let mut fields = line.split_ascii_whitespace();
    let (address, port) = fields.nth(1)?.split_once(':')?;
    if fields.nth(1)? != LISTEN {
        return None;
    }
    let inode = fields.nth(5)?.parse().ok()?;
    Some(ListeningSocket { port: u16::from_str_radix(port, 16).ok()?, loopback: is_loopback(address), inode })
}

/// Addresses are 32-bit words in the machine's (little-endian) byte order.
fn is_loopback(address: &str) -> bool {
    const V6: &str = "00000000000000000000000001000000";
    const V4_IN_V6: &str = "0000000000000000FFFF0000";
    match address.strip_prefix(V4_IN_V6).unwrap_or(address) {
        v4 if v4.len() == 8 => v4.ends_with("7F"),
        v6 => v6 == V6,
    }
}

/// Finds the process of each socket, among a limited number of processes.
fn owners_of(mut wanted: Vec<u64>) -> BTreeMap<u64, String> {
    let mut owners = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    for process in processes.filter(|path| is_process(path)).take(limits::PROCESSES_SCANNED_MAX) {
        if wanted.is_empty() {
            break;
        }
        let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let held: Vec<u64> = descriptors
            .filter_map(|entry| socket_inode(&entry.path()))
            .filter(|inode| wanted.contains(inode))
            .collect();
        if held.is_empty() {
            continue;
        }
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        wanted.retain(|inode| !held.contains(inode));
        owners.extend(held.into_iter().map(|inode| (inode, name.trim_end().to_owned())));
    }
    owners
}

fn is_process(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit))
}

fn socket_inode(descriptor: &PathBuf) -> Option<u64> {
    let target = fs::read_link(descriptor).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Option<(u16, bool, u64)>) {
        let found = parse(line).map(|socket| (socket.port, socket.loopback, socket.inode));
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn reads_the_kernels_table() {
        check(
            "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0",
            Some((8080, false, 4242)),
        );
        check(
            "   1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 7 1",
            Some((80, true, 7)),
        );
        check("   1: 0100007F:0050 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 7 1", None);
        let six = |address: &str| {
            format!("  0: {address}:0050 {}:0000 0A 00000000:00000000 00:00000000 00000000 0 0 9 1", "0".repeat(32))
        };
        check(&six("00000000000000000000000001000000"), Some((80, true, 9)));
        check(&six(&"0".repeat(32)), Some((80, false, 9)));
        check(&six("0000000000000000FFFF00000100007F"), Some((80, true, 9)));
        check(&six("0000000000000000FFFF0000010011AC"), Some((80, false, 9)));
        check("  sl  local_address rem_address   st tx_queue", None);
        check("", None);
    }
}
