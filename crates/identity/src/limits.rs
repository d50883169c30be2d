//! Limits of passwords, tokens, key sets and logins. The reference page is docs/limits.md.

use std::time::Duration;

/// New passwords: characters, and bytes of any password.
pub const PASSWORD_CHARS_MIN: usize = 10;
pub const PASSWORD_BYTES_MAX: usize = 256;
/// Stored passwords: bytes of the text, memory and passes that one may ask for.
pub const PASSWORD_HASH_BYTES_MAX: usize = 256;
pub const PASSWORD_HASH_MEMORY_KIB_MAX: u32 = 1024 * 1024;
pub const PASSWORD_HASH_PASSES_MAX: u32 = 64;
/// Password checks: how many run at once at most, whatever the number of cores, and how many wait.
pub const PASSWORD_CHECKS_MAX: usize = 8;
pub const PASSWORD_CHECKS_WAITING_MAX: usize = 32;
/// E-mail addresses: bytes of an address, of the part before the @, and of a label of the domain.
pub const EMAIL_BYTES_MIN: usize = 3;
pub const EMAIL_BYTES_MAX: usize = 254;
pub const EMAIL_LOCAL_BYTES_MAX: usize = 64;
pub const EMAIL_LABEL_BYTES_MAX: usize = 63;
/// Bytes of a slug, as in a label of a domain name.
pub const SLUG_BYTES_MAX: usize = 63;
/// Names that a provider gives, in characters.
pub const IDENTITY_NAME_CHARS_MAX: usize = 256;
/// JWTs: bytes of a token and of its subject, entries of its audience, tolerance for clocks.
pub const JWT_BYTES_MAX: usize = 16 * 1024;
pub const JWT_SUBJECT_BYTES_MAX: usize = 255;
pub const JWT_AUDIENCES_MAX: usize = 32;
pub const JWT_LEEWAY: Duration = Duration::from_secs(60);
/// Key sets: bytes and keys of one.
pub const KEY_SET_BYTES_MAX: usize = 256 * 1024;
pub const KEY_SET_KEYS_MAX: usize = 64;
/// Documents of a provider: refreshed after, time between two fetches, time between two fetches
/// while there is nothing to serve, and how long an old one is served while the provider is down.
pub const PROVIDER_DOCUMENT_FRESH: Duration = Duration::from_secs(3600);
pub const PROVIDER_FETCH_PAUSE: Duration = Duration::from_secs(30);
pub const PROVIDER_FIRST_FETCH_PAUSE: Duration = Duration::from_secs(5);
pub const PROVIDER_DOCUMENT_STALE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Logins at a provider: bytes of a URL, of the provider's description, of its answer to a code,
/// of a code, a state and a stored pending login; time until a pending login ends.
pub const PROVIDER_URL_BYTES_MAX: usize = 2048;
pub const PROVIDER_METADATA_BYTES_MAX: usize = 64 * 1024;
pub const PROVIDER_TOKEN_ANSWER_BYTES_MAX: usize = 64 * 1024;
pub const OIDC_CODE_BYTES_MAX: usize = 4096;
pub const OIDC_STATE_BYTES_MAX: usize = 256;
pub const PENDING_LOGIN_BYTES_MAX: usize = 8 * 1024;
pub const PENDING_LOGIN_MAX: Duration = Duration::from_secs(600);
/// Failed logins: how many are free of delay, the first and the longest delay, when they are
/// forgotten, and how many accounts and addresses are remembered.
pub const LOGIN_FAILURES_FREE: u32 = 5;
pub const LOGIN_DELAY_MIN: Duration = Duration::from_secs(1);
pub const LOGIN_DELAY_MAX: Duration = Duration::from_secs(900);
pub const LOGIN_FAILURES_FORGOTTEN: Duration = Duration::from_secs(3600);
pub const LOGIN_ACCOUNTS_MAX: usize = 32_768;
pub const LOGIN_ADDRESSES_MAX: usize = 32_768;
