//! Gives a database credentials of its own: in the session that waits in its machine, or else by a
//! login as the tenant's role. A program in the guest would take much longer to start.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use pandastack_kit::{Secret, random_bytes};
use pandastack_model::{Fault, FaultKind, GuestPort, SandboxId};
use pandastack_postgres_broker::{DirectFailure, DirectSession, Login, password_verifier};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::DATABASE_ROLE;

use super::{DatabaseView, no_database};
use crate::{Control, limits::DATABASE_ERRAND_MAX, store::DatabaseCredentials};

/// Random bytes of a password and of a token.
const SECRET_BYTES: usize = 24;
/// Start of every broker token.
const TOKEN_PREFIX: &str = "pds_pg_";
/// Where PostgreSQL and its pooler listen in the machine of a database.
const POSTGRES_PORT: i64 = 5432;
const POOLER_PORT: i64 = 6432;
/// The database that the platform logs in to: the tenant cannot change its settings.
const LOGIN_DATABASE: &str = "postgres";
/// Ends all other sessions of the role. In a branch they belong to clients of its source.
const END_SESSIONS: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND usename = current_user AND pid <> pg_backend_pid()";

/// What happens with new credentials before anybody is told of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoginCheck {
    /// The server's answer to the change is enough.
    None,
    /// They are tried, and clients with the old ones are cut off.
    BothPorts,
}

impl Control {
    /// Replaces the credentials of a running database. If this fails, the old ones hold.
    pub(crate) async fn reset_database_login(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseView, Fault> {
        self.need_host()?;
        self.running_database(caller, id, FaultKind::Conflict).await?;
        let control = self.clone();
        let work = async move { control.renew_login(id, LoginCheck::BothPorts).await };
        self.scope.run("reset the credentials of a database", work).await.map_err(Fault::bug)??;
        self.database(caller, id).await
    }

    /// Sets fresh credentials in the machine, then in the row. One request at a time does so: the
    /// last in the machine must be the last in the row.
    pub(super) async fn renew_login(&self, id: SandboxId, check: LoginCheck) -> Result<(), Fault> {
        let _turn = self.locks.terms.lock(id).await;
        let row = self.store.any_database(id).await?.ok_or_else(no_database)?;
        // One that an earlier attempt left may be in the machine already.
        let next = match row.next_password {
            Some(next) => next,
            None => {
                let next = Secret::new(random_text());
                self.store.begin_database_login(id, &next).await?;
                next
            }
        };
        if let Err(fault) = self.set_password(id, row.password.as_ref(), &next).await {
            if let Some(old) = &row.password
                && self.log_in_to_database(id, POSTGRES_PORT, old).await.is_ok()
            {
                self.store.drop_next_password(id).await?;
            }
            return Err(fault);
        }
        if check == LoginCheck::BothPorts
            && let Err(fault) = self.verify_and_cut_off(id, &next).await
        {
            if let Some(old) = &row.password {
                self.set_password(id, Some(&next), old).await?;
                self.store.drop_next_password(id).await?;
            }
            return Err(fault);
        }
        let broker_token = Secret::new(format!("{TOKEN_PREFIX}{}", random_text()));
        let login = DatabaseCredentials { password: next, broker_token };
        if self.store.set_database_login(id, &login).await? { Ok(()) } else { Err(no_database()) }
    }

    /// Gives the tenant's role a password and ends its sessions.
    pub(super) async fn set_password(
        &self,
        id: SandboxId,
        known: Option<&Secret<String>>,
        next: &Secret<String>,
    ) -> Result<(), Fault> {
        let verifier = password_verifier(next.reveal());
        match self.set_password_in_session(id, &verifier).await {
            Ok(()) => Ok(()),
            Err(fault) => {
                tracing::debug!(database = %id, %fault, "could not set a password as the superuser");
                self.set_password_by_login(id, known, (next, &verifier)).await?;
                // The next one is quicker.
                self.open_superuser_session(id).await;
                Ok(())
            }
        }
    }

    async fn set_password_by_login(
        &self,
        id: SandboxId,
        known: Option<&Secret<String>>,
        (next, verifier): (&Secret<String>, &str),
    ) -> Result<(), Fault> {
        let change = format!("ALTER ROLE {DATABASE_ROLE} PASSWORD '{verifier}'");
        for password in known.into_iter().chain([next]) {
            let changed = async {
                let mut session = self.log_in_to_database(id, POSTGRES_PORT, password).await?;
                session.run(&change).await?;
                // Only now: nobody can log in with the old password any more.
                session.run(END_SESSIONS).await?;
                session.close().await;
                Ok::<(), DirectFailure>(())
            };
            match changed.await {
                Ok(()) => return Ok(()),
                Err(failure) => tracing::debug!(database = %id, %failure, "could not set a password as the tenant"),
            }
        }
        // The tenant may have changed the password or what its role may do. Root in the machine can
        // always set it.
        let input = format!("{verifier}\n");
        self.run_in_database(id, &["credentials"], Some(input), DATABASE_ERRAND_MAX).await.map(drop)
    }

    /// Whether the tenant's role has this password.
    pub(super) async fn knows_password(&self, id: SandboxId, password: &Secret<String>) -> bool {
        !matches!(self.log_in_to_database(id, POSTGRES_PORT, password).await, Err(DirectFailure::BadLogin))
    }

    /// Logs in as the tenant's role.
    async fn log_in_to_database(
        &self,
        id: SandboxId,
        port: i64,
        password: &Secret<String>,
    ) -> Result<DirectSession, DirectFailure> {
        let other = |fault: Fault| DirectFailure::Other(fault.text);
        let port = GuestPort::try_from(port).map_err(|error| DirectFailure::Other(error.to_string()))?;
        let stream = self.host.connect(id, port).await.map_err(other)?;
        let (user, database) = (DATABASE_ROLE.to_owned(), LOGIN_DATABASE.to_owned());
        DirectSession::open(Box::new(stream), &Login { user, password: password.clone(), database }).await
    }

    async fn verify_and_cut_off(&self, id: SandboxId, password: &Secret<String>) -> Result<(), Fault> {
        self.verify_login(id, password).await?;
        self.cut_off_clients(id).await.map_err(|fault| {
            let text = "clients with the old credentials could not be cut off, so the old ones hold; try again";
            Fault::new(FaultKind::Unavailable, "database.clients_stay", text).with_detail(fault.text)
        })
    }

    /// Ends the connections to the pooler: clients that logged in with an old password would stay.
    pub(super) async fn cut_off_clients(&self, id: SandboxId) -> Result<(), Fault> {
        let renewed = self.run_in_database(id, &["renew-pooler"], None, DATABASE_ERRAND_MAX).await;
        renewed.map(drop)
    }

    /// Checks that clients can log in by the pooler and past it.
    async fn verify_login(&self, id: SandboxId, password: &Secret<String>) -> Result<(), Fault> {
        for port in [POSTGRES_PORT, POOLER_PORT] {
            let mut session = self.log_in_to_database(id, port, password).await.map_err(no_login)?;
            session.run("SELECT 1").await.map_err(no_login)?;
            session.close().await;
        }
        Ok(())
    }

    /// Logs in by the pooler and by the server itself, and sets the same password again, so that a
    /// machine is warm when it is sealed.
    pub(super) async fn rehearse_login(&self, id: SandboxId, password: &Secret<String>) -> Result<(), Fault> {
        self.verify_login(id, password).await?;
        // Ends the sessions of the pooler too: clones must not share the random numbers of one.
        self.set_password(id, Some(password), password).await
    }
}

fn no_login(failure: DirectFailure) -> Fault {
    Fault::new(FaultKind::Unavailable, "database.no_login", format!("log in with the new password: {failure}"))
}

/// Returns text of an alphabet that needs no escape in a URL.
pub(super) fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(random_bytes::<SECRET_BYTES>())
}
