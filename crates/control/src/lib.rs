//! The control plane. It decides which callers may do what, and stores the wanted sandboxes in its
//! database. It asks a host to run them. It is never in the path of a sandbox's data.

mod app;
mod boots;
mod build;
mod control;
mod door;
mod events;
mod hooks;
pub mod limits;
mod loops;
mod meters;
mod plan;
mod series;
mod settings;
mod store;
mod telemetry;

pub use app::{BootstrapError, BootstrapKey, NewKey, OfflineKeyError};
pub use build::ImageSettings;
pub use control::{Control, OpenError};
pub use dial::{AddressPolicy, TrustRoots};
pub use hooks::WebhookSettings;
use pandastack_dial as dial;
pub use pandastack_door::{OperatorLimit, RateSettings};
pub use settings::ControlSettings;
pub use store::ListedKey;
pub use telemetry::{TelemetryError, TelemetrySettings, start as start_telemetry};
