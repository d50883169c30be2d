//! Limits of certificates and of ACME. The reference page is docs/limits.md.

use std::time::Duration;

/// Largest file with certificates or a key.
pub const CERTIFICATE_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// How often certificate files are looked at for a change.
pub const CERTIFICATE_POLL: Duration = Duration::from_secs(2);
/// Domains with a certificate from an ACME server.
pub const ACME_DOMAINS_MAX: usize = 32;
/// How long one ACME order may take, hooks included.
pub const ACME_ORDER_MAX: Duration = Duration::from_secs(900);
/// How long one call of the DNS hook may take, and how much of its output an error quotes.
pub const ACME_HOOK_MAX: Duration = Duration::from_secs(300);
pub const ACME_HOOK_OUTPUT_BYTES_MAX: usize = 2048;
/// Waiting time after a failed order: doubled with each failure, up to the last. Authorities allow
/// few failures per hour. An authority that cannot be reached is asked again sooner.
pub const ACME_RETRY_MIN: Duration = Duration::from_secs(300);
pub const ACME_RETRY_UNREACHABLE_MIN: Duration = Duration::from_secs(10);
pub const ACME_RETRY_MAX: Duration = Duration::from_secs(6 * 3600);
