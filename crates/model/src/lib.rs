//! Pure values of the product: ids, sizes, states and faults. No I/O, no async, no clock.

mod bytes;
mod code;
mod defaults;
mod egress;
mod event;
mod fault;
mod id;
mod name;
mod path_rules;
mod port;
mod preview;
mod role;
mod share;
mod spec;
pub mod state;
mod tier;
mod volume;

pub use bytes::ByteSize;
pub use code::{CodeLanguage, CodeSessionId};
pub use defaults::ExecDefaults;
pub use egress::{BadEgressRule, EGRESS_RULES_MAX, Egress, EgressRule};
pub use event::{EventAudience, EventKind};
pub use fault::{Fault, FaultKind};
pub use id::{BadId, BuildId, DeliveryId, EventId, HostId, LayerId, MachineId, SandboxId, VolumeId, WebhookId};
pub use name::{BadTemplateName, TemplateName};
pub use path_rules::{BadPathRule, PATH_RULE_BYTES_MAX, PATH_RULES_MAX, PathRules};
pub use port::{AGENT_PORT, BadPort, GuestPort};
pub use preview::{BadPreview, BadPreviewSuffix, LINK_LABEL_BYTES, LinkLabel, PreviewName, PreviewSuffix};
pub use role::{BadRole, Role};
pub use share::{Owner, ShareRefusal, Shares, admit_share, share};
pub use spec::{SandboxOrigin, SandboxSpec, TTL_SECONDS_DEFAULT};
pub use state::{HostAction, SandboxRefusal, SandboxRequest, SandboxState};
pub use tier::{BadTier, Tier};
pub use volume::{VOLUMES_OVERCOMMIT, VolumeAccess, VolumeMount};
