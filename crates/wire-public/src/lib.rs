//! The public API: request and response types, fault codes with their statuses, event-stream text,
//! and (with the `schema` feature) the list of endpoints as an OpenAPI document. Does no I/O.

mod audit;
mod billing;
mod build;
mod build_log;
mod code;
mod database;
mod database_backup;
mod diff;
mod egress;
mod event;
mod exec;
mod failure;
mod file;
mod fork;
mod identity;
mod key;
mod kind;
mod lifecycle;
pub mod limits;
mod log;
pub mod metadata;
mod metrics;
#[cfg(feature = "schema")]
pub mod openapi;
mod port;
mod preview;
mod process;
mod quota;
mod sandbox;
mod session;
mod snapshot;
mod socket;
pub mod sse;
mod team;
mod template;
mod text;
mod time;
mod trail;
pub mod tree;
mod volume;
mod webhook;

pub use audit::Audit;
pub use billing::{
    Bill, BilledSubscription, BillingPage, BuyPlan, MeterFlush, Pricing, PricingTier, UsageRates, UsageReport,
    UsageRow, WorkspaceBudget,
};
pub use build::{Build, BuildFields, BuildSource, BuildSpec, RegistryAuth};
pub use build_log::{BUILD_LOG_END, build_log_event, log_lines};
pub use code::{
    CODE_LANGUAGES, CellResult, CellSpec, CodeSession, Interpreter, MimeBundle, OpenSession, RanOnce, RunCell, RunOnce,
    RunOnceSpec, cell_timeout,
};
pub use database::{
    BranchDatabase, ChangeDatabase, CreateDatabase, DATABASE_ROLE, DatabaseConnection, DatabaseLogs, DatabaseSize,
    DatabaseSleep, DatabaseSpec, DatabaseStats, DatabaseWake, ManagedDatabase, ManagedDatabaseList, database_status,
};
pub use database_backup::{
    BackupDrill, CloneDatabase, CloneSpec, DatabaseArchive, DatabaseBackup, DatabaseBackups, RestoreWindow, SchemaDiff,
    VerifyBackup,
};
pub use diff::{BranchDiff, FileDiff, RunningProgram};
pub use egress::{EgressList, SetEgress, egress_list};
pub use event::{Event, EventList, EventPlace, WorkspaceEvent, WorkspaceEvents};
pub use exec::{ExecChunk, ExecCommand, ExecExit, ExecFailure, ExecRequest, ExecResponse, ExecSpec, exec_timeout};
pub use failure::{ErrorBody, FaultResponse, NO_MACHINE, OTHER_REQUEST, PORT_BROKEN, PORT_CLOSED, WAKE_FAILED, reply};
pub use file::{DirListing, Entry, Written, checked_path};
pub use fork::{
    FamilyTree, Fork, ForkFailure, ForkRequest, ForkSpec, ForkTree, NodeCost, PromoteRequest, Promotion, TreeNode,
};
pub use identity::{Health, Me, Version};
pub use key::{ApiKey, ApiKeys, CreateApiKey, KeySpec};
pub use kind::{KindFilter, MachineKind};
pub use lifecycle::{Lifecycle, LifecycleChange, SetLifecycle, Status};
pub use log::{LogLine, LogLines, plain_line};
pub use metadata::visible_metadata;
pub use metrics::{BootBucket, BootSample, BootStats, MachineMetrics, MetricSeries};
pub use port::{DeclarePort, DeclaredPort, Port, declared_key, declared_ports, is_hidden, proxy_path};
pub use preview::{Preview, PreviewRequest, PreviewSpec, RefusedPath, preview_path};
pub use process::{
    Fed, FollowedChunk, FollowedExit, LostOutput, OutputChunk, Process, ProcessOutput, SignalRequest, SpawnRequest,
    SpawnSpec, process_id, process_number,
};
pub use quota::{QuotaLimits, Quotas, QuotasUsed};
pub use sandbox::{CreateSandbox, CreateSandboxSpec, Sandbox, SandboxSource, checked_ttl};
pub use session::{
    AskReset, ChangePassword, ExchangeCode, LogIn, LoggedIn, LoginMethods, LoginSession, Register, ResetPassword,
    SetUp, SignInLink, UseLink,
};
pub use snapshot::{Snapshot, SnapshotList};
pub use socket::{
    ExecClientFrame, ExecServerFrame, OutputStream, TerminalClientFrame, TerminalServerFrame, socket_text,
    terminal_side,
};
pub use team::{
    AcceptedInvite, ChangeMember, CreateInvite, CreateOrg, CurrentOrg, InviteInfo, Org, OrgInvite, OrgMember,
    RenameOrg, TransferOrg, invited_role, org_name,
};
pub use template::{DatabasePreparation, PreparationStatus, Template};
pub use text::TextTail;
pub use time::{parse_rfc3339, rfc3339};
pub use trail::{AuditEntry, AuditTrail, AuditedRequest, ExportedAuditEntry};
pub use volume::{CreateVolume, GrowVolume, MountSpec, Volume, VolumeAttachment, VolumeName};
pub use webhook::{
    ChangeWebhook, CreateWebhook, Delivery, DeliveryAttempt, EventPattern, PING_KIND, Ping, RotateSecret, Webhook,
    WebhookEvent, checked_description, checked_events,
};
