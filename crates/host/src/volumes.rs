//! The volumes of this host: which sandbox uses which, and the order in which files and ledger
//! change. Never starts a machine; a launch attaches the [`VolumeClaim`]. A use is recorded before
//! a machine gets the file and removed after that machine is gone: no two machines write one file.
//! A sleeping sandbox still uses its volumes.

mod images;
mod locks;
mod plan;

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use pandastack_kit::{Scope, ScopeError};
use pandastack_layers::{
    SealedVolume, VOLUME_BYTES_MAX, VOLUME_BYTES_MIN, VolumeCondition, VolumeStore, VolumeStoreError,
};
use pandastack_model::{ByteSize, Fault, FaultKind, SandboxId, VolumeAccess, VolumeId, VolumeMount};
use pandastack_vmm::{Machine, MachineError, SlotVolume, VolumeSlot};
use pandastack_wire_fleet::VolumeView;
use pandastack_wire_guest as wire;
use tokio::sync::{Mutex, OwnedMutexGuard};

use self::{
    images::SealedDisk,
    locks::{VolumeFile, VolumeLocks},
};
pub use self::{
    images::{SealedVolumes, VolumeImages, clones},
    locks::VolumeLock,
};
use crate::{
    guest::{self, GuestSession, LinkError},
    ledger::{ClaimOutcome, Ledger, LedgerError, VolumeUse},
};

/// Time limit for a guest to write its volumes out before its machine is stopped.
const FLUSH_DEADLINE: Duration = Duration::from_secs(10);

/// The volumes of a host.
pub struct HostVolumes {
    store: VolumeStore,
    /// Lock taken from the check that a volume fits until it is made or has grown.
    gate: Arc<Mutex<()>>,
    turns: VolumeLocks,
    ledger: Ledger,
    scope: Scope,
}

/// Permission to make or to grow a volume. It is exclusive, so that the caller's sum of all sizes
/// stays true.
pub struct VolumeSizePermit(#[expect(dead_code, reason = "held for its lock")] OwnedMutexGuard<()>);

/// The volumes of a sandbox, for its machine and for its guest.
#[derive(Clone, Debug, Default)]
pub struct VolumeClaim {
    uses: Vec<ClaimedVolume>,
}

/// One volume of a claim.
#[derive(Clone, Debug)]
struct ClaimedVolume {
    by: VolumeUse,
    /// Size when it was claimed. It may have grown since.
    size: ByteSize,
    disk: VolumeFile,
}

/// A volume that has grown under a sandbox that may write it.
#[derive(Clone, Debug)]
pub struct VolumeGrowth {
    pub sandbox: SandboxId,
    slot: VolumeSlot,
    path: String,
    disk: VolumeFile,
}

/// The volumes cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum VolumesError {
    #[error(transparent)]
    Store(#[from] VolumeStoreError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl HostVolumes {
    /// Opens the volumes below a data volume, and finishes removals that an earlier process began.
    pub async fn open(root: &Path, ledger: Ledger, scope: Scope) -> Result<Self, VolumesError> {
        let store = VolumeStore::open(root)?;
        store.clear_drafts();
        for volume in ledger.volumes_being_removed().await? {
            store.remove(volume)?;
            ledger.volume_gone(volume).await?;
        }
        Ok(Self { store, gate: Arc::default(), turns: VolumeLocks::default(), ledger, scope })
    }

    /// Waits for permission to make or to grow a volume.
    pub async fn room(&self) -> VolumeSizePermit {
        VolumeSizePermit(self.gate.clone().lock_owned().await)
    }

    /// Makes an empty volume. A repeated call with the same id and size gives the same answer.
    pub async fn make(&self, volume: VolumeId, size: ByteSize, room: VolumeSizePermit) -> Result<VolumeView, Fault> {
        let make = move |store: &VolumeStore| {
            // Held until the work ends, even if the caller leaves.
            let _room = room;
            store.make(volume, size)
        };
        let size = self.on_store("create a volume", make).await?;
        Ok(VolumeView { volume, size, created_ns: self.made_ns(volume), users: self.users(volume).await? })
    }

    /// Makes a volume with the content of an image.
    pub async fn make_from(&self, volume: VolumeId, image: PathBuf, room: VolumeSizePermit) -> Result<(), Fault> {
        let make = move |store: &VolumeStore| {
            // Held until the work ends, even if the caller leaves.
            let _room = room;
            store.make_from(volume, &image)
        };
        self.on_store("clone a volume", make).await
    }

    /// Grows a volume. Returns a `VolumeGrowth` if a sandbox may write it: its machine and guest
    /// must be told.
    pub async fn grow(
        &self,
        volume: VolumeId,
        size: ByteSize,
        room: VolumeSizePermit,
    ) -> Result<(VolumeView, Option<VolumeGrowth>), Fault> {
        let disk = self.disk(volume);
        let turn = disk.turn().await;
        let grow = move |store: &VolumeStore| {
            // Both are held until the work ends, even if the caller leaves.
            let _held = (turn, room);
            store.grow(volume, size)
        };
        let size = self.on_store("grow a volume", grow).await?;
        let mut users = Vec::new();
        let mut growth = None;
        for (sandbox, used) in self.ledger.volume_users().await? {
            if used.volume == volume {
                users.push(sandbox);
                if used.slot.access() == VolumeAccess::ReadWrite {
                    growth = Some(VolumeGrowth { sandbox, slot: used.slot, path: used.path, disk: disk.clone() });
                }
            }
        }
        Ok((VolumeView { volume, size, created_ns: self.made_ns(volume), users }, growth))
    }

    /// Removes a volume and its data. Refused while a sandbox uses it. An unknown volume is no
    /// error.
    pub async fn remove(&self, volume: VolumeId) -> Result<(), Fault> {
        // Recorded first: it cannot be claimed from now on, and after a crash the next start
        // finishes the removal.
        let users = self.ledger.begin_volume_removal(volume).await?;
        if let Some(user) = users.first() {
            let text = format!("the volume is attached to sandbox {user}; delete that sandbox first");
            return Err(Fault::new(FaultKind::Conflict, "volume.attached", text));
        }
        self.on_store("remove a volume", move |store| store.remove(volume)).await?;
        self.ledger.volume_gone(volume).await.map_err(Fault::from)
    }

    /// Lists every volume here.
    pub async fn list(&self) -> Result<Vec<VolumeView>, Fault> {
        let volumes = self.on_store("list volumes", |store| Ok(store.list())).await?;
        let uses = self.ledger.volume_users().await?;
        let users =
            |volume| uses.iter().filter(|(_, used)| used.volume == volume).map(|(sandbox, _)| *sandbox).collect();
        let view = |(volume, size)| VolumeView { volume, size, created_ns: self.made_ns(volume), users: users(volume) };
        Ok(volumes.into_iter().map(view).collect())
    }

    fn made_ns(&self, volume: VolumeId) -> Option<u64> {
        let since = self.store.made_at(volume)?.duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(since.as_nanos()).ok()
    }

    /// Returns the size of a volume.
    pub async fn size(&self, volume: VolumeId) -> Result<ByteSize, Fault> {
        self.list().await?.into_iter().find(|view| view.volume == volume).map(|view| view.size).ok_or_else(no_volume)
    }

    /// Returns the file of a volume that no sandbox uses.
    pub async fn unused_file(&self, volume: VolumeId) -> Result<PathBuf, Fault> {
        match self.users(volume).await?.first() {
            None => Ok(self.store.file(volume)),
            Some(user) => {
                let text = format!("the volume is attached to sandbox {user}");
                Err(Fault::new(FaultKind::Conflict, "volume.attached", text))
            }
        }
    }

    /// Lists the sandboxes that use a volume, asleep ones included.
    pub async fn users(&self, volume: VolumeId) -> Result<Vec<SandboxId>, Fault> {
        let uses = self.ledger.volume_users().await?;
        Ok(uses.into_iter().filter(|(_, used)| used.volume == volume).map(|(sandbox, _)| sandbox).collect())
    }

    /// Records that a sandbox uses volumes, all of them or none. A repeated call gives the same
    /// answer. `release` ends the use.
    pub async fn claim(&self, sandbox: SandboxId, mounts: &[VolumeMount]) -> Result<VolumeClaim, Fault> {
        let uses = plan::uses(mounts)?;
        if uses.is_empty() {
            return Ok(VolumeClaim::default());
        }
        match self.ledger.claim_volumes(sandbox, &uses).await? {
            ClaimOutcome::Yes => {}
            ClaimOutcome::Otherwise => return Err(Fault::bug(format!("sandbox {sandbox} already uses other volumes"))),
            ClaimOutcome::Taken { by, access, .. } => return Err(taken(by, access)),
            ClaimOutcome::Going { .. } => return Err(no_volume()),
        }
        let checked = self.on_store("check volumes", move |store| check(store, uses)).await.and_then(|checked| checked);
        match checked {
            Ok(uses) => Ok(self.claimed(uses)),
            Err(fault) => {
                self.release(sandbox).await?;
                Err(fault)
            }
        }
    }

    /// Returns the existing claim of a sandbox, for a machine that replaces its last one.
    pub async fn held(&self, sandbox: SandboxId) -> Result<VolumeClaim, Fault> {
        let uses = self.ledger.volume_uses(sandbox).await?;
        if uses.is_empty() {
            return Ok(VolumeClaim::default());
        }
        let sized = move |store: &VolumeStore| {
            uses.into_iter().map(|used| Ok((used.clone(), store.size(used.volume)?))).collect()
        };
        Ok(self.claimed(self.on_store("check volumes", sized).await?))
    }

    /// Records that a sandbox uses no volume any more. Its machine must be gone.
    pub async fn release(&self, sandbox: SandboxId) -> Result<(), Fault> {
        self.ledger.release_volumes(sandbox).await.map_err(Fault::from)
    }

    /// Releases the volumes of all sandboxes that are not in the set, and returns those sandboxes.
    /// A killed process may have left such uses.
    pub async fn retain(&self, sandboxes: &HashSet<SandboxId>) -> Result<Vec<SandboxId>, LedgerError> {
        let uses = self.ledger.volume_users().await?;
        let gone: HashSet<SandboxId> =
            uses.into_iter().map(|(sandbox, _)| sandbox).filter(|sandbox| !sandboxes.contains(sandbox)).collect();
        for sandbox in &gone {
            self.ledger.release_volumes(*sandbox).await?;
        }
        Ok(gone.into_iter().collect())
    }

    /// Counts the volumes and lists the sandboxes that use any. Call it before reading the
    /// sandboxes: a sandbox is recorded before its uses.
    pub async fn present(&self) -> Result<(usize, Vec<SandboxId>), LedgerError> {
        let users = self.ledger.volume_users().await?.into_iter().map(|(sandbox, _)| sandbox).collect();
        let volumes = self.on_store("list volumes", |store| Ok(store.list().len())).await.unwrap_or_default();
        Ok((volumes, users))
    }

    fn claimed(&self, uses: Vec<(VolumeUse, ByteSize)>) -> VolumeClaim {
        let used = |(by, size): (VolumeUse, ByteSize)| ClaimedVolume { size, disk: self.disk(by.volume), by };
        VolumeClaim { uses: uses.into_iter().map(used).collect() }
    }

    fn disk(&self, volume: VolumeId) -> VolumeFile {
        self.turns.disk(volume, self.store.file(volume))
    }

    async fn on_store<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl FnOnce(&VolumeStore) -> Result<T, VolumeStoreError> + Send + 'static,
    ) -> Result<T, Fault> {
        let store = self.store.clone();
        let worked: Result<_, ScopeError> = self.scope.block(name, move || work(&store)).await;
        worked.map_err(|error| Fault::bug(error).with_detail(name))?.map_err(store_fault)
    }
}

impl VolumeClaim {
    /// Whether there is nothing to attach.
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// Whether the guest may write to a volume.
    pub fn writes(&self) -> bool {
        self.uses.iter().any(ClaimedVolume::is_written)
    }

    /// Returns the volumes that are sealed with the machine.
    pub fn images(&self, wanted: SealedVolumes) -> VolumeImages {
        let uses = self.uses.iter().filter(|used| match wanted {
            SealedVolumes::None => false,
            SealedVolumes::Written => used.is_written(),
            SealedVolumes::All => true,
        });
        let image = |used: &ClaimedVolume| SealedDisk {
            slot: used.by.slot,
            path: used.by.path.clone(),
            disk: used.disk.clone(),
        };
        VolumeImages::new(uses.map(image).collect())
    }

    /// Attaches the volumes to a paused machine.
    pub async fn attach(&self, machine: &dyn Machine) -> Result<(), MachineError> {
        for used in &self.uses {
            let _turn = used.disk.turn().await;
            machine.attach(&SlotVolume { slot: used.by.slot, file: used.disk.file().to_owned() }).await?;
        }
        Ok(())
    }

    /// Prepares the volumes in the guest of a new sandbox. Its memory already has those of its
    /// layer, mounted or not as its owner left them; they may have grown just before the seal.
    pub async fn mount(&self, sealed: &[SealedVolume], session: &GuestSession) -> Result<(), Fault> {
        let is_sealed = |used: &&ClaimedVolume| sealed.iter().any(|image| image.slot == used.by.slot.to_string());
        // The disks have at least these sizes: a machine shows the size at the time of the attach.
        let device = |used: &ClaimedVolume| for_guest(used.by.slot, &used.by.path, used.size);
        let (present, new): (Vec<_>, Vec<_>) = self.uses.iter().partition(is_sealed);
        let present: Vec<_> = present.into_iter().filter(|used| used.is_written()).map(device).collect();
        if !present.is_empty() {
            guest::grow(session, &wire::VolumeDevices { volumes: present }).await?;
        }
        if new.is_empty() {
            return Ok(());
        }
        guest::mount(session, &wire::VolumeDevices { volumes: new.into_iter().map(device).collect() }).await
    }

    /// Asks the guest to use the full size of volumes that grew while it slept or was paused.
    pub async fn grow_in_guest(&self, machine: &dyn Machine, session: &GuestSession) -> Result<(), Fault> {
        let mut volumes = Vec::with_capacity(self.uses.len());
        for ClaimedVolume { by, disk, .. } in self.uses.iter().filter(|used| used.is_written()) {
            volumes.push(for_guest(by.slot, &by.path, tell_size(machine, by.slot, disk).await?));
        }
        if volumes.is_empty() { Ok(()) } else { guest::grow(session, &wire::VolumeDevices { volumes }).await }
    }

    /// Asks the guest to write out all its data before its machine is stopped, so that the next one
    /// finds it. If the guest does not answer, only what it had flushed itself is kept.
    pub async fn flush(&self, machine: &dyn Machine, session: &GuestSession) {
        if !self.writes() {
            return;
        }
        let flushing = async {
            machine.resume().await.map_err(|error| error.to_string())?;
            session.quiesce().await.map_err(|error: LinkError| error.to_string())
        };
        let flushed = tokio::time::timeout(FLUSH_DEADLINE, flushing).await;
        if let Err(reason) = flushed.unwrap_or_else(|_| Err("no response in time".to_owned())) {
            tracing::info!(reason, "the guest could not flush its volumes before it stopped");
        }
    }

    /// Lets the guest write again after a `flush` if its machine was not stopped.
    pub async fn unflush(&self, session: &GuestSession) {
        if self.writes() {
            // If this fails, the guest continues by itself after a while.
            let _ = tokio::time::timeout(FLUSH_DEADLINE, session.thaw()).await;
        }
    }
}

impl ClaimedVolume {
    fn is_written(&self) -> bool {
        self.by.slot.access() == VolumeAccess::ReadWrite
    }
}

impl VolumeGrowth {
    /// Tells the machine and the guest of a running sandbox the current size. The volume may have
    /// grown again since.
    pub async fn tell(&self, machine: &dyn Machine, session: &GuestSession) -> Result<(), Fault> {
        let size = tell_size(machine, self.slot, &self.disk).await?;
        guest::grow(session, &wire::VolumeDevices { volumes: vec![for_guest(self.slot, &self.path, size)] }).await
    }
}

/// Tells a machine the current size of a volume, while a lock prevents further growth.
async fn tell_size(machine: &dyn Machine, slot: VolumeSlot, disk: &VolumeFile) -> Result<ByteSize, Fault> {
    let turn = disk.turn().await;
    let size = turn.size().map_err(|cause| Fault::bug("volumes").with_detail(cause))?;
    machine.volume_grown(slot, size).await.map_err(machine_fault)?;
    Ok(size)
}

fn for_guest(slot: VolumeSlot, path: &str, size: ByteSize) -> wire::VolumeDevice {
    let read_only = slot.access() == VolumeAccess::ReadOnly;
    wire::VolumeDevice { serial: slot.to_string(), path: path.to_owned(), read_only, size: size.get() }
}

/// Finds the volumes, and checks that the read-only ones were unmounted cleanly.
fn check(
    store: &VolumeStore,
    uses: Vec<VolumeUse>,
) -> Result<Result<Vec<(VolumeUse, ByteSize)>, Fault>, VolumeStoreError> {
    let mut sized = Vec::with_capacity(uses.len());
    for used in uses {
        let size = store.size(used.volume)?;
        if used.slot.access() == VolumeAccess::ReadOnly && store.condition(used.volume)? == VolumeCondition::Unfinished
        {
            return Ok(Err(unfinished(used.volume)));
        }
        sized.push((used, size));
    }
    Ok(Ok(sized))
}

/// Refuses a size outside the limits of a volume.
pub fn check_size(size: ByteSize) -> Result<(), Fault> {
    if (VOLUME_BYTES_MIN..=VOLUME_BYTES_MAX).contains(&size) {
        return Ok(());
    }
    let text = format!("a volume must have {VOLUME_BYTES_MIN} to {VOLUME_BYTES_MAX}, not {size}");
    Err(Fault::new(FaultKind::Caller, "volume.size", text))
}

fn no_volume() -> Fault {
    Fault::new(FaultKind::Missing, "volume.not_found", "volume not found")
}

fn taken(by: SandboxId, access: VolumeAccess) -> Fault {
    let text = match access {
        VolumeAccess::ReadWrite => {
            format!("the volume is attached read-write to sandbox {by}; delete that sandbox first")
        }
        VolumeAccess::ReadOnly => {
            format!(
                "the volume is attached read-only to sandbox {by}; attach it read-only too, or delete that sandbox \
                    first"
            )
        }
    };
    Fault::new(FaultKind::Conflict, "volume.in_use", text)
}

fn unfinished(volume: VolumeId) -> Fault {
    let text = format!(
        "the last writer of volume {volume} ended without unmounting it; attach it read-write once to repair it, then \
         it can be shared"
    );
    Fault::new(FaultKind::Conflict, "volume.unfinished", text)
}

fn machine_fault(error: MachineError) -> Fault {
    Fault::new(FaultKind::Unavailable, "machine.refused", "the sandbox's machine did not carry out a command")
        .with_detail(error)
}

fn store_fault(error: VolumeStoreError) -> Fault {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    match &error {
        VolumeStoreError::Missing { .. } => no_volume(),
        VolumeStoreError::OtherSize { present, .. } | VolumeStoreError::Exists { present, .. } => {
            Fault::new(FaultKind::Conflict, "volume.exists", format!("the volume already exists with {present}"))
        }
        VolumeStoreError::Shrink { present, .. } => {
            let text = format!("a volume cannot shrink; this one has {present}");
            Fault::new(FaultKind::Caller, "volume.shrink", text)
        }
        VolumeStoreError::Io { cause, .. } if matches!(cause.kind(), StorageFull | QuotaExceeded) => {
            Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage for a volume").with_detail(error)
        }
        VolumeStoreError::Format { .. } | VolumeStoreError::Io { .. } => Fault::bug("volumes").with_detail(error),
    }
}
