//! A sandbox as the database stores it, and how a row is read and written.

use std::collections::BTreeMap;

use pandastack_database::{Column, DatabaseRow};
use pandastack_model::{
    Egress, EgressRule, LayerId, SandboxId, SandboxOrigin, SandboxSpec, SandboxState, VolumeAccess, VolumeMount,
};
use pandastack_wire_fleet::{SandboxView, WorkspaceId};
use serde::{Deserialize, Serialize};

use super::{StoreError, failed, from_sql};

/// A sandbox as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub id: SandboxId,
    pub workspace: WorkspaceId,
    pub generation: u64,
    pub created_at_ns: u64,
    pub spec: SandboxSpec,
    /// The names of `spec.volumes`, in the same order.
    pub volume_names: Vec<String>,
    /// The snapshot that the request named.
    pub from_snapshot: Option<String>,
    pub lineage: Lineage,
    pub size: MachineSize,
    pub state: SandboxState,
    pub observed: StartReport,
}

/// The place of a sandbox in its family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    pub parent: Option<SandboxId>,
    pub tree: Option<String>,
    pub index: Option<u32>,
    /// The idle limit that a promotion sets.
    pub promoted: Option<IdleLimit>,
}

/// How long a sandbox may be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleLimit {
    pub ttl_seconds: u64,
    pub persistent: bool,
}

/// The size of the machine, stored because published clients need it in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineSize {
    pub cpus: u32,
    pub memory_mib: u64,
    /// 0 if it is not known yet.
    pub disk_mib: u64,
}

/// The host's report when the sandbox started. Empty until then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartReport {
    pub guest_ip: String,
    pub boot_ms: u64,
    pub boot_mode: String,
    pub isolation: String,
}

impl MachineSize {
    pub fn of(view: &SandboxView) -> Self {
        Self { cpus: u32::from(view.cpus), memory_mib: view.memory_mib, disk_mib: view.disk_mib }
    }
}

impl StartReport {
    pub fn of(view: &SandboxView) -> Self {
        Self {
            guest_ip: view.guest_ip.clone(),
            boot_ms: u64::try_from(view.boot.as_millis()).unwrap_or(u64::MAX),
            boot_mode: view.boot_mode.to_owned(),
            isolation: view.isolation.as_str().to_owned(),
        }
    }
}

/// A volume of a sandbox, as the row stores it.
#[derive(Serialize, Deserialize)]
struct MountRow {
    name: String,
    volume: String,
    path: String,
    read_only: bool,
}

/// Renders the volumes of an intent for its row.
pub(super) fn volumes_to_sql(intent: &Intent) -> String {
    let kept = |(mount, name): (&VolumeMount, &String)| MountRow {
        name: name.clone(),
        volume: mount.volume.to_string(),
        path: mount.path.clone(),
        read_only: mount.access == VolumeAccess::ReadOnly,
    };
    let mounts: Vec<_> = intent.spec.volumes.iter().zip(&intent.volume_names).map(kept).collect();
    serde_json::to_string(&mounts).expect("a list of plain texts is always JSON")
}

/// Renders egress rules for a row; `None` for unrestricted egress.
pub(super) fn egress_to_sql(egress: &Egress) -> Option<String> {
    match egress {
        Egress::Open => None,
        Egress::Only(rules) => {
            let rules: Vec<_> = rules.iter().map(EgressRule::to_string).collect();
            Some(serde_json::to_string(&rules).expect("a list of texts is always JSON"))
        }
    }
}

pub(super) fn map_to_sql(map: &BTreeMap<String, String>) -> String {
    serde_json::to_string(map).expect("a map of text to text is always JSON")
}

/// Reads the state columns.
pub(super) fn read_state(row: &DatabaseRow) -> Result<SandboxState, StoreError> {
    let status: String = column(row, "status")?;
    let known = SandboxState::from_name(&status, column(row, "status_reason")?);
    known.map_or_else(|| Err(StoreError::Corrupt { id: column(row, "id")?, field: "status" }), Ok)
}

pub(super) fn read_id(row: &DatabaseRow) -> Result<SandboxId, StoreError> {
    let text: String = column(row, "id")?;
    text.parse().map_err(|_| StoreError::Corrupt { id: text, field: "id" })
}

/// Reads the columns with the host's report.
pub(super) fn read_observed(row: &DatabaseRow) -> Result<StartReport, StoreError> {
    Ok(StartReport {
        guest_ip: column(row, "guest_ip")?,
        boot_ms: column::<i64>(row, "boot_ms").map(from_sql)?,
        boot_mode: column(row, "boot_mode")?,
        isolation: column(row, "isolation")?,
    })
}

/// Reads a whole row.
pub(super) fn read_intent(row: &DatabaseRow) -> Result<Intent, StoreError> {
    let id = read_id(row)?;
    let number = |name| column::<i64>(row, name).map(from_sql);
    let (volumes, volume_names) = read_volumes(row, id)?;
    Ok(Intent {
        id,
        workspace: WorkspaceId(column(row, "workspace")?),
        generation: number("generation")?,
        created_at_ns: number("created_at")?,
        spec: read_spec(row, id, volumes)?,
        volume_names,
        from_snapshot: column(row, "from_snapshot")?,
        lineage: read_lineage(row, id)?,
        size: read_size(row)?,
        state: read_state(row)?,
        observed: read_observed(row)?,
    })
}

/// Reads the columns of a machine's size.
pub(super) fn read_size(row: &DatabaseRow) -> Result<MachineSize, StoreError> {
    let number = |name| column::<i64>(row, name).map(from_sql);
    let cpus = u32::try_from(number("cpus")?).unwrap_or(1);
    Ok(MachineSize { cpus, memory_mib: number("memory_mib")?, disk_mib: number("disk_mib")? })
}

pub(super) fn column<T: Column>(row: &DatabaseRow, name: &'static str) -> Result<T, StoreError> {
    row.try_get(name).map_err(failed("read a row"))
}

fn read_spec(row: &DatabaseRow, id: SandboxId, volumes: Vec<VolumeMount>) -> Result<SandboxSpec, StoreError> {
    let corrupt = |field| StoreError::Corrupt { id: id.to_string(), field };
    let map = |name| {
        let text: String = column(row, name)?;
        serde_json::from_str::<BTreeMap<String, String>>(&text).map_err(|_| corrupt(name))
    };
    let template: String = column(row, "template")?;
    let layer: Option<String> = column(row, "origin_layer")?;
    let layer = layer.map(|text| text.parse::<LayerId>()).transpose().map_err(|_| corrupt("origin_layer"))?;
    let bandwidth: Option<i64> = column(row, "bandwidth_mbps")?;
    let workspace: String = column(row, "workspace")?;
    Ok(SandboxSpec {
        owner: Some(WorkspaceId(workspace).owner()),
        template: template.parse().map_err(|_| corrupt("template"))?,
        origin: layer.map_or(SandboxOrigin::Template, SandboxOrigin::Layer),
        ttl_seconds: column::<i64>(row, "ttl_seconds").map(from_sql)?,
        persistent: column(row, "persistent")?,
        metadata: map("metadata")?,
        env: map("env")?,
        egress: read_egress(column(row, "egress")?).ok_or_else(|| corrupt("egress"))?,
        bandwidth_mbps: bandwidth.and_then(|mbps| u32::try_from(mbps).ok()),
        volumes,
    })
}

pub(super) fn read_egress(text: Option<String>) -> Option<Egress> {
    let Some(text) = text else { return Some(Egress::Open) };
    let rules: Vec<String> = serde_json::from_str(&text).ok()?;
    rules.iter().map(|rule| rule.parse().ok()).collect::<Option<_>>().map(Egress::Only)
}

fn read_volumes(row: &DatabaseRow, id: SandboxId) -> Result<(Vec<VolumeMount>, Vec<String>), StoreError> {
    let corrupt = || StoreError::Corrupt { id: id.to_string(), field: "volumes" };
    let text: String = column(row, "volumes")?;
    let kept: Vec<MountRow> = serde_json::from_str(&text).map_err(|_| corrupt())?;
    let mount = |kept: MountRow| {
        let volume = kept.volume.parse().map_err(|_| corrupt())?;
        let access = if kept.read_only { VolumeAccess::ReadOnly } else { VolumeAccess::ReadWrite };
        Ok((VolumeMount { volume, path: kept.path, access }, kept.name))
    };
    kept.into_iter().map(mount).collect::<Result<Vec<_>, _>>().map(|mounts| mounts.into_iter().unzip())
}

fn read_lineage(row: &DatabaseRow, id: SandboxId) -> Result<Lineage, StoreError> {
    let corrupt = |field| StoreError::Corrupt { id: id.to_string(), field };
    let parent: Option<String> = column(row, "parent")?;
    let index: Option<i64> = column(row, "fork_index")?;
    let ttl_seconds: Option<i64> = column(row, "promoted_ttl_seconds")?;
    let persistent: Option<bool> = column(row, "promoted_persistent")?;
    let limit = |(ttl_seconds, persistent)| IdleLimit { ttl_seconds: from_sql(ttl_seconds), persistent };
    Ok(Lineage {
        parent: parent.map(|text| text.parse()).transpose().map_err(|_| corrupt("parent"))?,
        tree: column(row, "fork_tree_id")?,
        index: index.and_then(|index| u32::try_from(index).ok()),
        promoted: ttl_seconds.zip(persistent).map(limit),
    })
}
