//! Exchanges the disk in a slot of a paused machine. The file is opened here and handed over the monitor, so that a jailed process
//! needs no path to it; one that may only be read is opened for reading only, so that even a process that was taken over from
//! inside cannot write it.

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::AsFd,
};

use nix::sys::memfd::{MFdFlags, memfd_create};
use pandastack_model::{Access, Bytes};
use pandastack_vmm::{MachineError, VolumePort, VolumeSlot};
use serde_json::{Value, json};

use crate::qmp::Qmp;

/// Size of the disk that is only there to be resized.
const BELL_BYTES: u64 = 512;

/// Puts a volume into its slot.
pub async fn attach(qmp: &Qmp, port: &VolumePort) -> Result<(), MachineError> {
    let VolumePort { slot, file } = port;
    let action = || format!("open volume {}", file.display());
    let writable = slot.access() == Access::ReadWrite;
    let opened = OpenOptions::new().read(true).write(writable).open(file);
    let size = |file: &File| Ok(file.metadata()?.len());
    let (opened, size) = opened
        .and_then(|file| size(&file).map(|size| (file, size)))
        .map_err(|cause| MachineError::Io { action: action(), cause })?;
    let node = node_of(*slot);
    add_disk(qmp, &node, &opened, slot.access()).await?;
    match slot.access() {
        Access::ReadWrite => {
            exchange(qmp, *slot, &node).await?;
            resize(qmp, &node, size).await.map(drop)
        }
        Access::ReadOnly => {
            let bell = ring(qmp, *slot).await?;
            exchange(qmp, *slot, &node).await?;
            qmp.execute("blockdev-del", json!({ "node-name": bell })).await.map(drop)
        }
    }
}

/// Tells the guest of a slot's new size.
pub async fn grown(qmp: &Qmp, slot: VolumeSlot, size: Bytes) -> Result<(), MachineError> {
    resize(qmp, &node_of(slot), size.get()).await.map(drop)
}

fn node_of(slot: VolumeSlot) -> String {
    format!("{slot}-volume")
}

/// Adds a disk over an open file. The guest's flushes reach the host's file system: QEMU's cache is the host's, and is written
/// back when the guest says so.
async fn add_disk(qmp: &Qmp, node: &str, file: &File, access: Access) -> Result<(), MachineError> {
    let read_only = access == Access::ReadOnly;
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

/// Resizes a disk, if only to the size it has: that makes the device tell its guest to look at the size again.
async fn resize(qmp: &Qmp, node: &str, bytes: u64) -> Result<Value, MachineError> {
    qmp.execute("block_resize", json!({ "node-name": node, "size": bytes })).await
}

/// Makes a slot tell its guest to look at the size again. A disk that may only be read cannot be resized, so one in memory takes its
/// place for that moment: its name is returned.
async fn ring(qmp: &Qmp, slot: VolumeSlot) -> Result<String, MachineError> {
    let bell = format!("{slot}-bell");
    let memory =
        memory_file().map_err(|cause| MachineError::Io { action: "make a disk in memory".to_owned(), cause })?;
    add_disk(qmp, &bell, &memory, Access::ReadWrite).await?;
    exchange(qmp, slot, &bell).await?;
    resize(qmp, &bell, BELL_BYTES).await?;
    Ok(bell)
}

fn memory_file() -> io::Result<File> {
    let file = File::from(memfd_create("bell", MFdFlags::MFD_CLOEXEC)?);
    file.set_len(BELL_BYTES)?;
    Ok(file)
}
