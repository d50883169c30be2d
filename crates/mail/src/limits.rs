//! Bounds of letters, of their queue, and of the time that a mail server may take.

use std::time::Duration;

/// Longest address, as in RFC 5321.
pub const MAIL_ADDRESS_BYTES_MAX: usize = 254;
/// Longest subject and longest text of a letter.
pub const SUBJECT_BYTES_MAX: usize = 200;
pub const LETTER_TEXT_BYTES_MAX: usize = 16 * 1024;

/// Letters that wait for their first try, and letters that wait for another one.
pub const LETTERS_QUEUED_MAX: usize = 256;
pub const LETTERS_RETRIED_MAX: usize = 256;
/// How long the mail server may take for one step, and for a whole letter.
pub const SMTP_STEP_MAX: Duration = Duration::from_secs(15);
pub const SMTP_LETTER_MAX: Duration = Duration::from_secs(45);
/// Pauses before further tries. After the last one the letter is dropped.
pub const SMTP_RETRY_PAUSES: [Duration; 4] =
    [Duration::from_secs(5), Duration::from_secs(30), Duration::from_secs(180), Duration::from_secs(900)];
/// How long a shutdown waits until the queued letters are sent.
pub const MAIL_FLUSH_MAX: Duration = Duration::from_secs(3);

/// Longest URL of a mail server.
pub const SMTP_URL_BYTES_MAX: usize = 2048;
/// Longest text of a mail server's refusal that is logged.
pub const SMTP_REFUSAL_CHARS_MAX: usize = 300;
