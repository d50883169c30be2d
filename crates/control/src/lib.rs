//! The control plane. It decides which callers may do what, and stores the wanted sandboxes in its
//! database. It asks a host to run them. It is never in the path of a sandbox's data.

mod app;
mod bakes;
mod boots;
mod build;
mod control;
mod database_meters;
mod door;
mod events;
mod hooks;
pub mod limits;
mod loops;
mod mail;
mod meters;
mod plan;
mod series;
mod settings;
mod sign_in;
mod store;
mod stripe;
mod telemetry;
mod turns;
mod workspace_events;

pub use app::{
    Accounts, AuditChains, BootstrapError, BootstrapKey, DeadMeterEvents, NewKey, OfflineKeyError, OrphanCounts,
    OrphanFault, OrphanView, Orphans, RequeueReport, UserAccount, UserAccountError, WorkspacePlan, WorkspacePlanError,
    WorkspacePlans, mark_restored, usage_fact,
};
pub use bakes::{PendingTemplate, TemplateBakes};
pub use build::ImageSettings;
pub use control::{Control, ControlPlace, OpenError};
pub use database_meters::{DatabaseProxyReader, DatabaseProxyReading};
pub use dial::{AddressPolicy, TrustRoots};
pub use hooks::WebhookSettings;
pub use mail::{MailSettings, reset_link};
pub use pandastack_billing::{
    BUILT_IN_PLANS, PlanName, Plans, PlansError, QuotaLimit, QuotaOverrides, RequestRate, StripeSettings,
    stripe::StripeSettingsError,
};
pub use pandastack_database::{DatabaseAddress, PostgresUrl, PostgresUrlError};
use pandastack_dial as dial;
pub use pandastack_door::{OperatorLimit, ProxyTrust, RateSettings};
pub use pandastack_identity::{JwtSettings, OidcSettings, PasswordSettings};
pub use pandastack_mail::{MailerError, SmtpSettings, SmtpSettingsError};
pub use settings::{ControlSettings, DatabaseAddresses};
pub use sign_in::{AuthMode, SignInError, SignInSettings};
pub use store::{
    ChainDefect, ChainLink, ChainReport, DeadFilter, DeadMeterEvent, DefectKind, ListedKey, SCHEMA, StoreError,
};
pub use stripe::BillingSettings;
pub use telemetry::{TelemetryError, TelemetrySettings, start as start_telemetry};
