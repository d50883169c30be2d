//! Sandboxes: what the next process of this host needs to continue with them.

use std::collections::BTreeMap;

use pandastack_model::{
    Egress, LayerId, Owner, SandboxId, SandboxOrigin, SandboxSpec, SandboxState, VolumeAccess, VolumeMount,
};
use pandastack_wire_fleet::{EnsureParams, RecordedSandbox};
use serde::{Deserialize, Serialize};
use sqlx::{Row, sqlite::SqliteRow};

use super::{
    Ledger, LedgerError, sql,
    usage::{BilledSize, billed_state, whole},
};

pub(super) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS sandboxes (
    id         TEXT PRIMARY KEY,
    generation INTEGER NOT NULL,
    spec       TEXT NOT NULL,
    state      TEXT NOT NULL,
    reason     TEXT,
    layer      TEXT,
    secret     BLOB
) STRICT";

/// Takes a sandbox's new state, or `gone`. Its trigger changes the row and adds the usage fact, in
/// one statement: both are written or none.
pub(super) const CHANGES: &str = "
CREATE VIEW IF NOT EXISTS sandbox_changes AS
    SELECT id, state, reason, layer, secret, state AS billed, 0 AS vcpus, 0 AS memory_mib, 0 AS disk_bytes,
        0 AS at_ns, 0 AS lost FROM sandboxes;
CREATE TRIGGER IF NOT EXISTS sandbox_changes_write INSTEAD OF INSERT ON sandbox_changes BEGIN
    INSERT INTO usage_changes (sandbox, state, vcpus, memory_mib, disk_bytes, at_ns, lost)
        SELECT NEW.id, NEW.billed, NEW.vcpus, NEW.memory_mib, NEW.disk_bytes, NEW.at_ns, NEW.lost
        WHERE NEW.billed IS NOT NULL AND EXISTS (SELECT 1 FROM sandboxes WHERE id = NEW.id);
    UPDATE sandboxes SET state = NEW.state, reason = NEW.reason, layer = NEW.layer, secret = NEW.secret
        WHERE id = NEW.id AND NEW.state != 'gone';
    DELETE FROM sandboxes WHERE id = NEW.id AND NEW.state = 'gone';
END;";

/// What is known of the machine that a new state ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MachineEnd {
    /// It ended now, if it ended.
    Now,
    /// It ended at an unknown time since its last heartbeat.
    Unknown,
}

/// One sandbox's row.
#[derive(Clone, Debug)]
pub struct SandboxRow {
    pub id: SandboxId,
    pub generation: u64,
    pub spec: SandboxSpec,
    pub record: SandboxRecord,
}

/// The part of a sandbox's row that changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxRecord {
    pub state: SandboxState,
    /// The layer it sleeps in: set from falling asleep until its machine runs again or it is
    /// removed.
    pub layer: Option<LayerId>,
    /// The secret that its agent requires at the handshake.
    pub secret: Option<Vec<u8>>,
}

impl Ledger {
    /// Records a sandbox that is about to be made. Does nothing if it is already recorded.
    pub async fn wanted(&self, id: SandboxId, generation: u64, spec: &SandboxSpec) -> Result<(), LedgerError> {
        let line = "INSERT INTO sandboxes (id, generation, spec, state) VALUES (?, ?, ?, 'creating')
                    ON CONFLICT (id) DO NOTHING";
        sqlx::query(line)
            .bind(id.to_string())
            .bind(i64::try_from(generation).unwrap_or(i64::MAX))
            .bind(StoredSpec::write(spec))
            .execute(&self.pool)
            .await
            .map_err(sql("record a sandbox"))?;
        Ok(())
    }

    /// Records the current state of a sandbox.
    pub async fn record(&self, id: SandboxId, now: &SandboxRecord) -> Result<(), LedgerError> {
        self.write(id, Some(now), None, MachineEnd::Now).await.map_err(sql("record a sandbox's state"))
    }

    /// Records a sandbox that has a new machine.
    pub async fn record_machine(
        &self,
        id: SandboxId,
        now: &SandboxRecord,
        size: BilledSize,
    ) -> Result<(), LedgerError> {
        self.write(id, Some(now), Some(size), MachineEnd::Now).await.map_err(sql("record a sandbox's state"))
    }

    /// Records the state of a sandbox whose machine was lost while nobody watched it.
    pub async fn record_lost(&self, id: SandboxId, now: &SandboxRecord) -> Result<(), LedgerError> {
        self.write(id, Some(now), None, MachineEnd::Unknown).await.map_err(sql("record a sandbox's state"))
    }

    /// Records the current state of a sandbox durably. Falling asleep cannot be undone after this.
    pub async fn record_durably(&self, id: SandboxId, now: &SandboxRecord) -> Result<(), LedgerError> {
        self.durably("record a sandbox's state", async |connection| {
            change(id, Some(now), None, MachineEnd::Now, self.meter.now_ns()).execute(connection).await.map(drop)
        })
        .await
    }

    /// Records the specification that the owner changed.
    pub async fn update_spec(&self, id: SandboxId, spec: &SandboxSpec) -> Result<(), LedgerError> {
        sqlx::query("UPDATE sandboxes SET spec = ? WHERE id = ?")
            .bind(StoredSpec::write(spec))
            .bind(id.to_string())
            .execute(&self.pool)
            .await
            .map_err(sql("record a sandbox's new terms"))?;
        Ok(())
    }

    /// Records that a sandbox is removed.
    pub async fn sandbox_gone(&self, id: SandboxId) -> Result<(), LedgerError> {
        self.write(id, None, None, MachineEnd::Now).await.map_err(sql("delete a sandbox"))
    }

    /// Records that a sandbox is removed whose machine was lost while nobody watched it.
    pub async fn sandbox_lost(&self, id: SandboxId) -> Result<(), LedgerError> {
        self.write(id, None, None, MachineEnd::Unknown).await.map_err(sql("delete a sandbox"))
    }

    async fn write(
        &self,
        id: SandboxId,
        now: Option<&SandboxRecord>,
        size: Option<BilledSize>,
        end: MachineEnd,
    ) -> Result<(), sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        change(id, now, size, end, self.meter.now_ns()).execute(&mut *connection).await.map(drop)
    }

    /// Lists all recorded sandboxes.
    pub async fn sandboxes(&self) -> Result<Vec<SandboxRow>, LedgerError> {
        let rows = sqlx::query("SELECT * FROM sandboxes ORDER BY id")
            .fetch_all(&self.pool)
            .await
            .map_err(sql("list sandboxes"))?;
        rows.iter().map(read).collect()
    }

    /// Lists what was asked for every sandbox.
    pub async fn recorded(&self) -> Result<Vec<RecordedSandbox>, LedgerError> {
        let since = "SELECT *, (SELECT min(at_ns) FROM usage_facts WHERE sandbox = sandboxes.id) AS since_ns
                     FROM sandboxes ORDER BY id";
        let rows = sqlx::query(since).fetch_all(&self.pool).await.map_err(sql("list recorded sandboxes"))?;
        let one = |row: &SqliteRow| {
            let SandboxRow { id, generation, spec, record: _ } = read(row)?;
            let since_ns: Option<i64> = row.try_get("since_ns").map_err(sql("read recorded sandboxes"))?;
            let ask = EnsureParams { id, generation, spec };
            Ok(RecordedSandbox { ask, since_ns: since_ns.and_then(|ns| u64::try_from(ns).ok()) })
        };
        rows.iter().map(one).collect()
    }
}

/// The new state of a sandbox; `None` removes it.
fn change(
    id: SandboxId,
    now: Option<&SandboxRecord>,
    size: Option<BilledSize>,
    end: MachineEnd,
    at_ns: i64,
) -> sqlx::query::Query<'static, sqlx::Sqlite, sqlx::sqlite::SqliteArguments> {
    let reason = match now.map(|now| &now.state) {
        Some(SandboxState::Failed { reason }) => Some(reason.clone()),
        _ => None,
    };
    let written = "INSERT INTO sandbox_changes
                       (id, state, reason, layer, secret, billed, vcpus, memory_mib, disk_bytes, at_ns, lost)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    sqlx::query(written)
        .bind(id.to_string())
        .bind(now.map_or("gone", |now| now.state.as_str()))
        .bind(reason)
        .bind(now.and_then(|now| now.layer).map(|layer| layer.to_string()))
        .bind(now.and_then(|now| now.secret.clone()))
        .bind(now.map_or(Some("ended"), |now| billed_state(&now.state)))
        .bind(size.map(|size| i64::from(size.vcpus)))
        .bind(size.map(|size| whole(size.memory_mib)))
        .bind(size.map(|size| whole(size.disk_bytes)))
        .bind(at_ns)
        .bind(end == MachineEnd::Unknown)
}

fn read(row: &SqliteRow) -> Result<SandboxRow, LedgerError> {
    let broken = || sql("read sandboxes");
    let id: String = row.try_get("id").map_err(broken())?;
    let corrupt = |field| LedgerError::Corrupt { id: id.clone(), field };
    let state: String = row.try_get("state").map_err(broken())?;
    let reason: Option<String> = row.try_get("reason").map_err(broken())?;
    let layer: Option<String> = row.try_get("layer").map_err(broken())?;
    let spec: String = row.try_get("spec").map_err(broken())?;
    let generation: i64 = row.try_get("generation").map_err(broken())?;
    Ok(SandboxRow {
        id: id.parse().map_err(|_| corrupt("id"))?,
        generation: u64::try_from(generation).unwrap_or_default(),
        spec: StoredSpec::read(&spec).ok_or_else(|| corrupt("spec"))?,
        record: SandboxRecord {
            state: SandboxState::from_name(&state, reason).ok_or_else(|| corrupt("state"))?,
            layer: layer.map(|layer| layer.parse()).transpose().map_err(|_| corrupt("layer"))?,
            secret: row.try_get("secret").map_err(broken())?,
        },
    })
}

/// A specification as it is stored. Fields may be added, but never renamed.
#[derive(Serialize, Deserialize)]
struct StoredSpec {
    /// Absent in rows of servers without owners.
    #[serde(default)]
    owner: Option<String>,
    template: String,
    layer: Option<LayerId>,
    ttl_seconds: u64,
    persistent: bool,
    metadata: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
    /// Absent if egress is open.
    egress: Option<Vec<String>>,
    bandwidth_mbps: Option<u32>,
    volumes: Vec<StoredMount>,
}

#[derive(Serialize, Deserialize)]
struct StoredMount {
    volume: pandastack_model::VolumeId,
    path: String,
    read_only: bool,
}

impl StoredSpec {
    fn write(spec: &SandboxSpec) -> String {
        let SandboxSpec { owner, template, origin, ttl_seconds, persistent, metadata, env, egress, .. } = spec;
        let SandboxSpec { bandwidth_mbps, volumes, .. } = spec;
        let mount = |mount: &VolumeMount| StoredMount {
            volume: mount.volume,
            path: mount.path.clone(),
            read_only: mount.access == VolumeAccess::ReadOnly,
        };
        let stored = StoredSpec {
            owner: owner.as_ref().map(|owner| owner.0.clone()),
            template: template.to_string(),
            layer: match origin {
                SandboxOrigin::Template => None,
                SandboxOrigin::Layer(layer) => Some(*layer),
            },
            ttl_seconds: *ttl_seconds,
            persistent: *persistent,
            metadata: metadata.clone(),
            env: env.clone(),
            egress: match egress {
                Egress::Open => None,
                Egress::Only(rules) => Some(rules.iter().map(ToString::to_string).collect()),
            },
            bandwidth_mbps: *bandwidth_mbps,
            volumes: volumes.iter().map(mount).collect(),
        };
        serde_json::to_string(&stored).expect("plain text and numbers are always JSON")
    }

    fn read(text: &str) -> Option<SandboxSpec> {
        let stored: StoredSpec = serde_json::from_str(text).ok()?;
        let StoredSpec { owner, template, layer, ttl_seconds, persistent, metadata, env, egress, .. } = stored;
        let StoredSpec { bandwidth_mbps, volumes, .. } = stored;
        let mount = |mount: StoredMount| VolumeMount {
            volume: mount.volume,
            path: mount.path,
            access: if mount.read_only { VolumeAccess::ReadOnly } else { VolumeAccess::ReadWrite },
        };
        Some(SandboxSpec {
            owner: owner.map(Owner),
            template: template.parse().ok()?,
            origin: layer.map_or(SandboxOrigin::Template, SandboxOrigin::Layer),
            ttl_seconds,
            persistent,
            metadata,
            env,
            egress: match egress {
                None => Egress::Open,
                Some(rules) => Egress::Only(rules.iter().map(|rule| rule.parse().ok()).collect::<Option<_>>()?),
            },
            bandwidth_mbps,
            volumes: volumes.into_iter().map(mount).collect(),
        })
    }
}
