//! A mail server on loopback, for tests. It keeps what it gets, fails on demand, and can speak
//! TLS with a certificate for `localhost`. Enabled by the feature `smtp-for-tests`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod talk;

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pandastack_kit::Scope;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

use self::talk::{Ended, talk};
use crate::{SmtpSecurity, SmtpSettings};

/// The authority of the certificate. Made once, valid for a hundred years.
pub const AUTHORITY: &[u8] = include_bytes!("tls/ca.der");
/// A certificate for `localhost`, and its key.
pub const CERTIFICATE: &[u8] = include_bytes!("tls/localhost.der");
pub const KEY: &[u8] = include_bytes!("tls/localhost.key.der");

/// How long a test waits for a letter, and connections may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A letter that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedLetter {
    pub from: String,
    pub to: Vec<String>,
    /// The lines of the headers, unfolded.
    pub headers: Vec<String>,
    /// The text with single line breaks.
    pub text: String,
    /// What followed `AUTH PLAIN`, in base64.
    pub login: Option<String>,
    pub encrypted: bool,
}

impl ReceivedLetter {
    /// Returns the first word of the text that contains a part.
    pub fn word_with(&self, part: &str) -> Option<&str> {
        self.text.split_whitespace().find(|word| word.contains(part))
    }

    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.headers.iter().filter_map(|line| line.split_once(": "));
        pairs.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }
}

/// A failure on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpFault {
    /// Answers the recipient with this status.
    Refuse(u16),
    /// Takes the whole letter and hangs up without an answer.
    HangUp,
}

/// What connections share.
pub(crate) struct Office {
    letters: watch::Sender<Vec<ReceivedLetter>>,
    faults: Mutex<VecDeque<SmtpFault>>,
    tls: Option<TlsAcceptor>,
    security: SmtpSecurity,
}

impl Office {
    fn next_fault(&self) -> Option<SmtpFault> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A running stand-in for a mail server.
pub struct SmtpStandIn {
    address: SocketAddr,
    office: Arc<Office>,
    scope: Scope,
}

impl SmtpStandIn {
    /// Starts a server that takes letters from everybody.
    pub async fn start(security: SmtpSecurity) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = (security != SmtpSecurity::Plain).then(acceptor);
        let letters = watch::Sender::new(Vec::new());
        let office = Arc::new(Office { letters, faults: Mutex::default(), tls, security });
        let scope = Scope::new();
        scope.start("stand-in for a mail server", serve(listener, office.clone(), scope.clone()));
        Self { address, office, scope }
    }

    /// Returns its URL.
    pub fn url(&self) -> String {
        let port = self.address.port();
        match self.office.security {
            SmtpSecurity::StartTls => format!("smtp://localhost:{port}"),
            SmtpSecurity::Tls => format!("smtps://localhost:{port}"),
            SmtpSecurity::Plain => format!("smtp+plain://127.0.0.1:{port}"),
        }
    }

    /// Returns settings for it, with short pauses between tries.
    pub fn settings(&self) -> SmtpSettings {
        let settings = SmtpSettings::parse(&self.url(), "PandaStack <noreply@pandas.example>").unwrap();
        settings.with_authority(AUTHORITY).with_pauses(&[Duration::from_millis(20); 3])
    }

    /// Lets the next letters fail, each with one fault.
    pub fn fail_next(&self, faults: impl IntoIterator<Item = SmtpFault>) {
        self.office.faults.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// Counts the faults that have not happened yet.
    pub fn faults_left(&self) -> usize {
        self.office.faults.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns every letter that arrived, in order.
    pub fn letters(&self) -> Vec<ReceivedLetter> {
        self.office.letters.borrow().clone()
    }

    /// Waits until this many letters have arrived.
    pub async fn wait(&self, count: usize) -> Vec<ReceivedLetter> {
        let mut letters = self.office.letters.subscribe();
        let arrived = tokio::time::timeout(PATIENCE, letters.wait_for(|letters| letters.len() >= count)).await;
        assert!(arrived.is_ok(), "{count} letters never came, but only: {:?}", self.letters());
        self.letters()
    }

    /// Stops the server. Connections in progress break.
    pub async fn stop(&self) {
        assert_eq!(self.scope.close(PATIENCE).await, 0, "the stand-in's tasks end");
    }
}

fn acceptor() -> TlsAcceptor {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(KEY.to_vec()).unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(listener: TcpListener, office: Arc<Office>, scope: Scope) {
    let token = scope.token();
    while let Some(Ok((stream, _))) = token.run_until_cancelled(listener.accept()).await {
        let (office, token) = (office.clone(), scope.token());
        scope.start("connection to the mail server", async move {
            // A broken connection is a fault that the test asked for, or the end of the test.
            let _ = token.run_until_cancelled(answer(stream, &office)).await;
        });
    }
}

async fn answer(stream: TcpStream, office: &Office) -> std::io::Result<()> {
    match &office.tls {
        Some(tls) if office.security == SmtpSecurity::Tls => {
            talk(tls.accept(stream).await?, office, true, true).await.map(drop)
        }
        Some(tls) => match talk(stream, office, false, true).await? {
            Ended::Quit => Ok(()),
            Ended::StartTls(stream) => talk(tls.accept(stream).await?, office, true, false).await.map(drop),
        },
        None => talk(stream, office, false, true).await.map(drop),
    }
}
