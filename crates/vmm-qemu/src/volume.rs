//! Replaces the disk in a slot of a paused machine. The file is opened here and passed over the
//! monitor, so a jailed process needs no path to it. A read-only volume is opened read-only, so
//! even a compromised process cannot write it.

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::AsFd,
};

use nix::sys::memfd::{MFdFlags, memfd_create};
use pandastack_model::{ByteSize, VolumeAccess};
use pandastack_vmm::{MachineError, SlotVolume, VolumeSlot};
use serde_json::{Value, json};

use crate::{limits::FILE_BYTES_MAX, qmp::Qmp};

/// Size of the temporary disk that only triggers a resize.
const BELL_BYTES: u64 = 512;

/// Attaches a volume to its slot.
pub async fn attach(qmp: &Qmp, port: &SlotVolume) -> Result<(), MachineError> {
    let SlotVolume { slot, file } = port;
    let action = || format!("open volume {}", file.display());
    let writable = slot.access() == VolumeAccess::ReadWrite;
    let opened = OpenOptions::new().read(true).write(writable).open(file);
    let opened = opened.map_err(|cause| MachineError::Io { action: action(), cause })?;
    let size = opened.metadata().map_err(|cause| MachineError::Io { action: action(), cause })?.len();
    check_size(*slot, size)?;
    let node = node_of(*slot);
    add_disk(qmp, &node, &opened, slot.access()).await?;
    match slot.access() {
        VolumeAccess::ReadWrite => {
            exchange(qmp, *slot, &node).await?;
            // Read only now: an older size would truncate a file that has grown meanwhile.
            let size = opened.metadata().map_err(|cause| MachineError::Io { action: action(), cause })?.len();
            resize(qmp, &node, size).await.map(drop)
        }
        VolumeAccess::ReadOnly => {
            let bell = ring(qmp, *slot).await?;
            exchange(qmp, *slot, &node).await?;
            qmp.execute("blockdev-del", json!({ "node-name": bell })).await.map(drop)
        }
    }
}

/// Tells the guest a slot's new size. Skips a size below the file's, because the resize would
/// truncate the file.
pub async fn grown(qmp: &Qmp, pid: u32, slot: VolumeSlot, size: ByteSize) -> Result<(), MachineError> {
    check_size(slot, size.get())?;
    let node = node_of(slot);
    let present = present_bytes(qmp, pid, &node).await?;
    resize(qmp, &node, size.get().max(present)).await.map(drop)
}

/// Rejects a volume that exceeds the process's file size limit. The process would be killed at the
/// limit.
fn check_size(slot: VolumeSlot, size: u64) -> Result<(), MachineError> {
    if slot.access() == VolumeAccess::ReadOnly || size <= FILE_BYTES_MAX {
        return Ok(());
    }
    let reason = format!("the volume in {slot} has {size} bytes; a machine can write at most {FILE_BYTES_MAX}");
    Err(MachineError::Refused { command: "attach a volume".to_owned(), reason })
}

/// Reads the size of the file under a disk. Queries QEMU for the file, because an earlier host
/// process may have started the machine and attached the volume.
async fn present_bytes(qmp: &Qmp, pid: u32, node: &str) -> Result<u64, MachineError> {
    let nodes = qmp.execute("query-named-block-nodes", json!({ "flat": true })).await?;
    let sets = qmp.execute("query-fdsets", json!({})).await?;
    let Some(number) = file_number(&nodes, &sets, node) else {
        let (command, reason) = ("query-fdsets".to_owned(), format!("{node} has no file"));
        return Err(MachineError::Refused { command, reason });
    };
    let file = format!("/proc/{pid}/fd/{number}");
    let size = std::fs::metadata(&file).map(|meta| meta.len());
    size.map_err(|cause| MachineError::Io { action: format!("read the size of {file}"), cause })
}

/// Finds the descriptor of a disk's file in QEMU's lists of disks and files.
fn file_number(nodes: &Value, sets: &Value, node: &str) -> Option<u64> {
    let disk = nodes.as_array()?.iter().find(|disk| disk["node-name"] == node)?;
    let number: u64 = disk["file"].as_str()?.strip_prefix("/dev/fdset/")?.parse().ok()?;
    let set = sets.as_array()?.iter().find(|set| set["fdset-id"] == number)?;
    set["fds"].as_array()?.first()?["fd"].as_u64()
}

fn node_of(slot: VolumeSlot) -> String {
    format!("{slot}-volume")
}

/// Adds a disk for an open file. QEMU uses the host's cache, and the guest's flushes reach the
/// host's file system.
async fn add_disk(qmp: &Qmp, node: &str, file: &File, access: VolumeAccess) -> Result<(), MachineError> {
    let read_only = access == VolumeAccess::ReadOnly;
    let set = qmp.execute_with("add-fd", json!({}), file.as_fd()).await?;
    let number = set["fdset-id"].as_u64().unwrap_or_default();
    let file = json!({
        "driver": "file", "filename": format!("/dev/fdset/{number}"), "locking": "off", "discard": "unmap",
        "read-only": read_only, "cache": { "direct": false, "no-flush": false },
    });
    let cache = json!({ "direct": false, "no-flush": false });
    let disk = json!({
        "driver": "raw", "node-name": node, "read-only": read_only, "discard": "unmap", "cache": cache, "file": file,
    });
    qmp.execute("blockdev-add", disk).await.map(drop)
}

async fn exchange(qmp: &Qmp, slot: VolumeSlot, node: &str) -> Result<(), MachineError> {
    let path = format!("/machine/peripheral/{slot}");
    qmp.execute("qom-set", json!({ "path": path, "property": "drive", "value": node })).await.map(drop)
}

/// Resizes a disk, even to its present size: the device then tells its guest to read the size
/// again.
async fn resize(qmp: &Qmp, node: &str, bytes: u64) -> Result<Value, MachineError> {
    qmp.execute("block_resize", json!({ "node-name": node, "size": bytes })).await
}

/// Makes a slot tell its guest to read the size again. A read-only disk cannot be resized, so a
/// disk in memory replaces it briefly. Returns the name of that disk.
async fn ring(qmp: &Qmp, slot: VolumeSlot) -> Result<String, MachineError> {
    let bell = format!("{slot}-bell");
    let memory =
        memory_file().map_err(|cause| MachineError::Io { action: "create a disk in memory".to_owned(), cause })?;
    add_disk(qmp, &bell, &memory, VolumeAccess::ReadWrite).await?;
    exchange(qmp, slot, &bell).await?;
    resize(qmp, &bell, BELL_BYTES).await?;
    Ok(bell)
}

fn memory_file() -> io::Result<File> {
    let file = File::from(memfd_create("bell", MFdFlags::MFD_CLOEXEC)?);
    file.set_len(BELL_BYTES)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_disk_is_found_by_its_set() {
        let nodes = json!([
            { "node-name": "#block1", "file": "/dev/fdset/7" },
            { "node-name": "rw0-volume", "file": "/dev/fdset/8" },
            { "node-name": "rw1", "file": "null-co://" },
        ]);
        let sets = json!([
            { "fdset-id": 8, "fds": [{ "fd": 31 }] },
            { "fdset-id": 7, "fds": [{ "fd": 30 }] },
        ]);
        assert_eq!(file_number(&nodes, &sets, "rw0-volume"), Some(31));
        for other in ["rw1", "rw1-volume", ""] {
            assert_eq!(file_number(&nodes, &sets, other), None, "{other}");
        }
        for strange in [Value::Null, json!([]), json!([{ "fdset-id": 8 }]), json!([{ "fdset-id": 8, "fds": [] }])] {
            assert_eq!(file_number(&nodes, &strange, "rw0-volume"), None, "{strange}");
        }
    }
}
