//! All SQL of the control plane. Rows enter and leave as types; no other module knows a table.

mod attempts;
mod billing;
mod builds;
mod chain;
mod databases;
mod deliveries;
mod intent;
mod invites;
mod keys;
mod leases;
mod lineage;
mod logins;
mod meter_events;
mod orgs;
mod orphans;
mod outbox;
mod ports;
mod quotas;
mod restores;
mod revocations;
mod sandboxes;
mod schema;
mod shown;
mod snapshots;
mod states;
mod templates;
mod terms;
mod trail;
mod usage;
mod usage_reports;
mod users;
mod verify;
mod volumes;
mod webhooks;

use std::sync::Arc;

pub use attempts::{EndedServer, ResourceKind};
pub use billing::{BillingAccount, StoredBudget, StripeEventEffect, WorkspaceHold};
pub use builds::{BuildAdded, BuildResource, BuildRow, BuildStatus};
pub use chain::{ChainLink, ChainedEntry};
pub use databases::{DatabaseCredentials, DatabaseRepair, GoldenRow, ManagedDatabaseRow};
pub use deliveries::{DeliveryFilter, DeliveryRow, DeliveryStage, TryEffect, TryRow};
pub use intent::{IdleLimit, Intent, Lineage, MachineSize, StartReport};
pub use invites::{InviteAccepted, InviteAdded, InviteRow};
pub use keys::{KeyAdded, KeyLimits, KeyRevoked, KeyRow, LastKey, ListedKey, OPERATOR, key_id};
pub use leases::{HOST_LEASE_NAME, LeaseTerm};
pub use lineage::FamilyMember;
pub use logins::{LoginCode, OidcLogin};
pub use meter_events::{ClaimParams, DeadFilter, DeadMeterEvent, MeterQueue};
pub use orgs::{MemberChange, MemberChanged, MemberRow, NewOrg, OrgAdded, OrgRow};
pub use orphans::{AdoptedRows, OrphanEntered, OrphanFacts, OrphanId, OrphanRow};
use pandastack_database::{
    Database, DatabaseAddress, DatabaseError, MigrateError, PoolSettings, Transaction, WriteLock,
};
use pandastack_kit::random_hex;
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::WorkspaceId;
pub use ports::{PortAdded, SIGNING_KEY_BYTES};
pub use quotas::{StoredPlan, WorkspaceTerms};
pub use restores::RestoreMark;
pub use revocations::Revoked;
pub use sandboxes::{PlannedSandbox, SandboxesAdded};
pub use schema::SCHEMA;
pub use shown::{ListPage, ShownSandbox};
pub use snapshots::{SealedMount, SnapshotRow};
pub use states::HostReport;
pub use templates::{CachedLayer, TemplateRow};
pub use terms::{StoredLimit, Term};
use tokio::sync::Notify;
pub use trail::{AuditCursor, AuditFilter};
pub use usage::SandboxFact;
pub use usage_reports::{UsageSlice, UsageSplit};
pub use users::{AccountLink, ProviderIdentity, STUB_USER, SessionRow, UserAdded, UserOrder, UserRow};
pub use verify::{ChainDefect, ChainReport, DefectKind};
pub use volumes::{UnfinishedOperation, VolumeAdded, VolumeBytes, VolumeRow};
pub use webhooks::{WebhookAdded, WebhookRow, WebhookSecret};

use crate::{
    events::EventLog,
    limits::{DATABASE_BUSY_MAX, DATABASE_CONNECTIONS_MAX, DATABASE_SERVER_CONNECTIONS_MAX, DATABASE_STATEMENT_MAX},
    workspace_events::WorkspaceLog,
};

/// The database.
#[derive(Clone)]
pub struct Store {
    database: Database,
    /// A random name, by which this server knows its own revocations.
    server: Arc<str>,
    /// The name under which this server takes leases.
    holder: Arc<str>,
    /// Notified when the outbox has new deliveries.
    outbox: Arc<Notify>,
    /// The recent events of every sandbox.
    events: Arc<EventLog>,
    /// The recent events of every workspace.
    workspace_events: Arc<WorkspaceLog>,
}

/// Why a database operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("open {address}")]
    Open {
        address: String,
        #[source]
        cause: DatabaseError,
    },
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    #[error("{attempted}")]
    Query {
        attempted: &'static str,
        #[source]
        cause: DatabaseError,
    },
    #[error("the row of {id} has an invalid {field}")]
    Corrupt { id: String, field: &'static str },
}

impl Store {
    /// Opens the database, creates its file if it does not exist, and migrates it to the current
    /// version.
    pub async fn open(address: &DatabaseAddress, now_ns: u64) -> Result<Self, StoreError> {
        let connections_max = match address {
            DatabaseAddress::File(_) => DATABASE_CONNECTIONS_MAX,
            DatabaseAddress::Server(_) => DATABASE_SERVER_CONNECTIONS_MAX,
        };
        let settings =
            PoolSettings { connections_max, busy_max: DATABASE_BUSY_MAX, statement_max: DATABASE_STATEMENT_MAX };
        let opened = Database::open(address, settings).await;
        let database = opened.map_err(|cause| StoreError::Open { address: address.to_string(), cause })?;
        SCHEMA.migrate(&database, to_sql(now_ns)).await?;
        let server: Arc<str> = random_hex::<8>().into();
        Ok(Self {
            database,
            holder: server.clone(),
            server,
            outbox: Arc::default(),
            events: Arc::default(),
            workspace_events: Arc::default(),
        })
    }

    /// Checks that the database responds.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.database.ping().await.map_err(failed("ping the database"))
    }

    /// Returns the notification for new or due deliveries.
    pub fn outbox(&self) -> Arc<Notify> {
        self.outbox.clone()
    }

    /// Returns the event log of the sandboxes. Outside of the store, only an undone fork adds to
    /// it.
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// Returns the event log of the workspaces.
    pub fn workspace_events(&self) -> &WorkspaceLog {
        &self.workspace_events
    }

    /// Begins a transaction that reads, decides and writes rows of one workspace. Others that
    /// begin so for the same workspace wait.
    async fn begin_in(&self, workspace: &WorkspaceId, attempted: &'static str) -> Result<Transaction, StoreError> {
        self.database.begin_write(WriteLock::on("workspace", &workspace.0)).await.map_err(failed(attempted))
    }

    /// Begins a transaction that reads, decides and writes rows of one sandbox. Others that begin
    /// so for the same sandbox wait.
    async fn begin_for(&self, sandbox: SandboxId, attempted: &'static str) -> Result<Transaction, StoreError> {
        self.database.begin_write(WriteLock::on("sandbox", &sandbox.to_string())).await.map_err(failed(attempted))
    }

    /// Removes what has expired: sessions, links, codes and old revocations.
    pub async fn prune_access(&self, now_ns: u64, revocations_before_ns: u64) -> Result<(), StoreError> {
        self.prune_sessions(now_ns).await?;
        self.prune_logins(now_ns).await?;
        self.prune_revocations(revocations_before_ns).await
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.database.close().await;
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let detail = format!("{error}{cause}");
        let StoreError::Query { cause, .. } = &error else { return Fault::bug(detail) };
        if cause.is_full() {
            let text = "the server's disk is full; try again when space has been freed";
            return Fault::new(FaultKind::Storage, "host.storage", text).with_detail(detail);
        }
        if cause.is_unavailable() || cause.is_conflict() {
            let text = "the server's database does not answer; try again";
            return Fault::new(FaultKind::Unavailable, "store.unavailable", text).with_detail(detail);
        }
        Fault::bug(detail)
    }
}

/// Adds the attempted operation to an error.
fn failed(attempted: &'static str) -> impl Fn(DatabaseError) -> StoreError {
    move |cause| StoreError::Query { attempted, cause }
}

/// Converts to the database's integer type. Counts and times stay far below its maximum.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
