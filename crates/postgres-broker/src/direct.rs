//! One connection for the platform's own statements, such as a change of the tenant's password.

use postgres_protocol::password;
use tokio::time::timeout;

use crate::{
    connect::{DatabaseStream, Login},
    fault::SessionFailure,
    limits,
    session::Session,
    startup::log_in_with,
};

/// The class of codes that say: wrong user or password.
const BAD_LOGIN_CLASS: &str = "28";

/// A pooler refuses most others.
const SETTINGS: &[(&str, &str)] = &[("application_name", "pandastack"), ("client_encoding", "UTF8")];

/// A logged-in connection.
pub struct DirectSession(Session);

/// Why a statement of the platform did not run.
#[derive(Debug, thiserror::Error)]
pub enum DirectFailure {
    #[error("the server refused the login")]
    BadLogin,
    #[error("{0}")]
    Other(String),
}

impl DirectSession {
    /// Logs in on a fresh stream.
    pub async fn open(stream: Box<dyn DatabaseStream>, login: &Login) -> Result<Self, DirectFailure> {
        let logged_in = timeout(limits::DIRECT_MAX, log_in_with(stream, login, &login.database, SETTINGS)).await;
        let session = logged_in.map_err(|_| late())?.map_err(|fault| match fault.code.as_deref() {
            Some(code) if code.starts_with(BAD_LOGIN_CLASS) => DirectFailure::BadLogin,
            _ => DirectFailure::Other(fault.error.into()),
        })?;
        Ok(Self(session))
    }

    /// Runs statements, separated by semicolons, in one transaction. Their rows are thrown away.
    pub async fn run(&mut self, sql: &str) -> Result<(), DirectFailure> {
        timeout(limits::DIRECT_MAX, self.0.run(sql)).await.map_err(|_| late())?.map_err(reason)
    }

    /// Says goodbye.
    pub async fn close(self) {
        self.0.close().await;
    }
}

/// Returns what the server stores of a password. It tells nobody the password.
pub fn password_verifier(password: &str) -> String {
    password::scram_sha_256(password.as_bytes())
}

fn late() -> DirectFailure {
    DirectFailure::Other(format!("the database did not answer in {} s", limits::DIRECT_MAX.as_secs()))
}

fn reason(failure: SessionFailure) -> DirectFailure {
    match failure {
        SessionFailure::Lost(reason) => DirectFailure::Other(format!("the connection was lost: {reason}")),
        SessionFailure::Fault(fault) => DirectFailure::Other(fault.error.into()),
    }
}
