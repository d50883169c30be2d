//! Letters by SMTP: the operator's settings, letters that nobody can smuggle a header into, and a
//! bounded queue that sends them. Knows nothing about who gets a letter and why
//! (docs/decisions/0035-mail.md).

mod letter;
pub mod limits;
mod mailer;
mod settings;
#[cfg(any(test, feature = "smtp-for-tests"))]
pub mod stand_in;

pub use letter::{Letter, LetterError};
pub use mailer::{LetterQueueFull, Mailer, MailerError};
pub use settings::{SmtpSecurity, SmtpSettings, SmtpSettingsError};
