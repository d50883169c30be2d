//! Sends letters in the background. The queue is bounded, a letter is tried a few times, and one
//! that cannot be sent is logged and dropped. Nothing survives a restart.

use lettre::{
    AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor,
    transport::smtp::{
        authentication::Credentials,
        client::{Certificate, CertificateStore, Tls, TlsParameters},
        extension::ClientId,
    },
};
use pandastack_kit::{Scope, random_hex};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Letter, SmtpSecurity, SmtpSettings,
    limits::{
        LETTERS_QUEUED_MAX, LETTERS_RETRIED_MAX, MAIL_FLUSH_MAX, SMTP_LETTER_MAX, SMTP_REFUSAL_CHARS_MAX, SMTP_STEP_MAX,
    },
};

/// The queue of letters. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Mailer {
    queue: mpsc::Sender<Letter>,
}

/// A letter was dropped, because too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{LETTERS_QUEUED_MAX} letters wait already")]
pub struct LetterQueueFull;

/// Why letters cannot be sent at all.
#[derive(Debug, thiserror::Error)]
#[error("set up TLS for the mail server")]
pub struct MailerError(#[source] lettre::transport::smtp::Error);

impl Mailer {
    /// Starts to send letters.
    pub fn start(settings: SmtpSettings, scope: &Scope) -> Result<Self, MailerError> {
        let (queue, letters) = mpsc::channel(LETTERS_QUEUED_MAX);
        let worker = Worker { transport: transport(&settings)?, settings, waiting: Vec::new(), stop: scope.token() };
        scope.start("mail", worker.run(letters));
        Ok(Self { queue })
    }

    /// Queues a letter.
    pub fn send(&self, letter: Letter) -> Result<(), LetterQueueFull> {
        self.queue.try_send(letter).map_err(|refused| {
            let to = refused.into_inner().to().to_owned();
            tracing::warn!(to, "dropped a letter, because too many wait for the mail server");
            LetterQueueFull
        })
    }
}

type SmtpTransport = AsyncSmtpTransport<Tokio1Executor>;

fn transport(settings: &SmtpSettings) -> Result<SmtpTransport, MailerError> {
    let SmtpSettings { host, port, security, login, from, authority, .. } = settings;
    let tls = || {
        let mut parameters = TlsParameters::builder(host.clone());
        if let Some(authority) = authority {
            parameters = parameters.certificate_store(CertificateStore::None);
            parameters = parameters.add_root_certificate(Certificate::from_der(authority.clone())?);
        }
        parameters.build_rustls()
    };
    let tls = match security {
        SmtpSecurity::StartTls => Tls::Required(tls().map_err(MailerError)?),
        SmtpSecurity::Tls => Tls::Wrapper(tls().map_err(MailerError)?),
        SmtpSecurity::Plain => Tls::None,
    };
    let builder = SmtpTransport::builder_dangerous(host.clone())
        .port(*port)
        .tls(tls)
        .timeout(Some(SMTP_STEP_MAX))
        .hello_name(ClientId::Domain(from.email.domain().to_owned()));
    Ok(match login {
        Some((user, password)) => builder.credentials(Credentials::new(user.clone(), password.reveal().clone())),
        None => builder,
    }
    .build())
}

struct Worker {
    transport: SmtpTransport,
    settings: SmtpSettings,
    /// Letters whose last try failed.
    waiting: Vec<WaitingLetter>,
    stop: CancellationToken,
}

/// A letter on its way.
struct WaitingLetter {
    to: String,
    message: Message,
    /// Tries that have failed.
    failures: usize,
    due: Instant,
}

/// What became of a try.
enum Posting {
    Sent,
    /// Another try may help.
    Later(String),
    /// The mail server does not want this letter.
    Refused(String),
}

impl Worker {
    async fn run(mut self, mut letters: mpsc::Receiver<Letter>) {
        let stop = self.stop.clone();
        loop {
            let next = self.waiting.iter().map(|letter| letter.due).min();
            tokio::select! {
                () = stop.cancelled() => break,
                letter = letters.recv(), if self.waiting.len() < LETTERS_RETRIED_MAX => match letter {
                    Some(letter) => self.post_new(letter).await,
                    None => return,
                },
                () = until(next) => self.post_due().await,
            }
        }
        letters.close();
        let flush = async {
            while let Some(letter) = letters.recv().await {
                self.post_new(letter).await;
            }
        };
        let _ = timeout(MAIL_FLUSH_MAX, flush).await;
        let lost = self.waiting.len() + letters.len();
        if lost > 0 {
            tracing::warn!(lost, "letters were not sent before the shutdown");
        }
    }

    async fn post_new(&mut self, letter: Letter) {
        let to = letter.to().to_owned();
        match letter.message(&self.settings.from, &random_hex::<16>()) {
            Ok(message) => self.post(WaitingLetter { to, message, failures: 0, due: Instant::now() }).await,
            Err(error) => tracing::error!(to, %error, "dropped a letter"),
        }
    }

    /// Tries the letter that has been due for longest.
    async fn post_due(&mut self) {
        let now = Instant::now();
        let due = (0..self.waiting.len()).filter(|at| self.waiting[*at].due <= now);
        let Some(at) = due.min_by_key(|at| self.waiting[*at].due) else { return };
        let letter = self.waiting.swap_remove(at);
        self.post(letter).await;
    }

    async fn post(&mut self, mut letter: WaitingLetter) {
        let to = &letter.to;
        match self.try_once(letter.message.clone()).await {
            Posting::Sent => tracing::info!(to, "sent a letter"),
            Posting::Refused(reason) => tracing::error!(to, reason, "the mail server refused a letter"),
            Posting::Later(reason) => match self.settings.pauses.get(letter.failures) {
                Some(pause) => {
                    tracing::warn!(to, reason, ?pause, "could not send a letter yet");
                    letter.failures += 1;
                    letter.due = Instant::now() + *pause;
                    self.waiting.push(letter);
                }
                None => tracing::error!(to, reason, "dropped a letter after several tries"),
            },
        }
    }

    async fn try_once(&self, message: Message) -> Posting {
        let too_late = async {
            let _ = timeout(SMTP_LETTER_MAX, self.stop.cancelled()).await;
            if self.stop.is_cancelled() {
                sleep(MAIL_FLUSH_MAX).await;
            }
        };
        tokio::select! {
            sent = self.transport.send(message) => match sent {
                Ok(_) => Posting::Sent,
                Err(error) if error.is_permanent() => Posting::Refused(reason(&error)),
                Err(error) => Posting::Later(reason(&error)),
            },
            () = too_late => Posting::Later("the mail server takes too long".to_owned()),
        }
    }
}

/// Waits until a moment, or for ever.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Describes an error in one line.
fn reason(error: &lettre::transport::smtp::Error) -> String {
    let text = error.to_string().replace(char::is_control, " ");
    text.chars().take(SMTP_REFUSAL_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
