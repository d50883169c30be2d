//! Bounds of everything that outsiders feed into this room, and of what it waits for.

use std::time::Duration;

/// Longest plan file.
pub const PLANS_FILE_BYTES_MAX: usize = 256 * 1024;
/// Largest volume of any plan. The host formats no larger one.
pub const VOLUME_SIZE_GIB_MAX: u64 = 64;
/// Highest price in a plan file, in dollars for one unit. Keeps every sum inside 128 bits.
pub const PRICE_DOLLARS_MAX: i128 = 10;
/// Highest monthly price or credit in a plan file, in dollars.
pub const MONTHLY_DOLLARS_MAX: i128 = 1_000_000;

/// Longest name of a meter event, and longest identifier. Stripe's own limits.
pub const METER_EVENT_NAME_BYTES_MAX: usize = 100;
pub const METER_IDENTIFIER_BYTES_MAX: usize = 100;
/// How long after the end of an hour its meter event is made, so that late facts are included.
pub const METER_SETTLE: Duration = Duration::from_secs(600);
/// Oldest and newest time that Stripe takes for a meter event.
pub const METER_EVENT_AGE_MAX: Duration = Duration::from_secs(35 * 86_400);
pub const METER_EVENT_AHEAD_MAX: Duration = Duration::from_secs(300);
/// Stripe remembers identifiers and idempotency keys for at least this long, and perhaps no longer.
pub const STRIPE_REMEMBERS: Duration = Duration::from_secs(24 * 3600);
/// How long an event whose outcome is unknown is sent again. An hour less than Stripe remembers.
pub const UNSURE_MAX: Duration = Duration::from_secs(23 * 3600);

/// Longest answer of Stripe that is read. A transport cuts the rest off.
pub const STRIPE_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long a transport waits for one answer. Stripe itself gives up after 80 seconds.
pub const STRIPE_ANSWER_MAX: Duration = Duration::from_secs(30);
/// Longest text that is kept from an answer.
pub const STRIPE_TEXT_CHARS_MAX: usize = 500;
/// Longest id of Stripe, and longest key or secret in the settings.
pub const STRIPE_ID_BYTES_MAX: usize = 255;

/// First pause after a failed try, and the longest one.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_secs(5);
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(3600);
/// Shortest pause after Stripe refused the key: only an operator can change that.
pub const RETRY_PAUSE_UNAUTHORIZED: Duration = Duration::from_secs(300);

/// Longest `Stripe-Signature` header, and most signatures in it.
pub const SIGNATURE_HEADER_BYTES_MAX: usize = 4096;
pub const SIGNATURES_MAX: usize = 16;
/// Largest difference between a signature's time and ours.
pub const SIGNATURE_TOLERANCE: Duration = Duration::from_secs(300);
/// Longest body of a webhook.
pub const WEBHOOK_EVENT_BYTES_MAX: usize = 1024 * 1024;
/// Most prices that are read from one subscription.
pub const SUBSCRIPTION_PRICES_MAX: usize = 20;
/// Most failed payments that are remembered for one subscription.
pub const UNPAID_MARKS_MAX: usize = 16;
/// How long an unpaid subscription keeps its plan.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(14 * 86_400);
