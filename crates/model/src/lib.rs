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
mod share;
mod spec;
pub mod state;
mod tier;
mod volume;

pub use bytes::Bytes;
pub use code::{CodeLanguage, CodeSessionId};
pub use defaults::ExecDefaults;
pub use egress::{BadRule, EGRESS_RULES_MAX, Egress, EgressRule};
pub use event::{Audience, EventKind};
pub use fault::{Fault, FaultKind};
pub use id::{BadId, BuildId, DeliveryId, EventId, HostId, LayerId, MachineId, SandboxId, VolumeId, WebhookId};
pub use name::{BadName, TemplateName};
pub use path_rules::{BadPathRule, PATH_RULE_BYTES_MAX, PATH_RULES_MAX, PathRules};
pub use port::{AGENT_PORT, BadPort, GuestPort};
pub use preview::{BadPreview, BadSuffix, LINK_LABEL_BYTES, LinkLabel, PreviewName, PreviewSuffix};
pub use share::{NoShare, Owner, Shares, admit_share, share};
pub use spec::{Origin, SandboxSpec, TTL_SECONDS_DEFAULT};
pub use state::{Ask, Next, Refusal, SandboxState};
pub use tier::{BadTier, Tier};
pub use volume::{Access, VOLUMES_OVERCOMMIT, VolumeMount};
