//! Gives a database credentials of its own.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use pandastack_kit::{Secret, random_bytes};
use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::Caller;

use super::{DatabaseView, no_database};
use crate::{Control, limits::DATABASE_ERRAND_MAX, store::DatabaseCredentials};

/// Random bytes of a password and of a token.
const SECRET_BYTES: usize = 24;
/// Start of every broker token.
const TOKEN_PREFIX: &str = "pds_pg_";

impl Control {
    /// Replaces the credentials of a running database. If this fails, the old ones hold.
    pub(crate) async fn reset_database_login(&self, caller: &Caller, id: SandboxId) -> Result<DatabaseView, Fault> {
        self.need_host()?;
        self.running_database(caller, id).await?;
        let control = self.clone();
        let work = async move { control.renew_login(id).await };
        self.scope.run("reset the credentials of a database", work).await.map_err(Fault::bug)??;
        self.database(caller, id).await
    }

    /// Sets fresh credentials in the machine, then in the row. One request at a time does so: the
    /// last in the machine must be the last in the row.
    pub(super) async fn renew_login(&self, id: SandboxId) -> Result<(), Fault> {
        let _turn = self.locks.terms.lock(id).await;
        let login = DatabaseCredentials {
            password: Secret::new(random_text()),
            broker_token: Secret::new(format!("{TOKEN_PREFIX}{}", random_text())),
        };
        let input = format!("{}\n", login.password.reveal());
        self.run_in_database(id, &["credentials"], Some(input), DATABASE_ERRAND_MAX).await?;
        if self.store.set_database_login(id, &login).await? { Ok(()) } else { Err(no_database()) }
    }
}

/// Returns text of an alphabet that needs no escape in a URL.
fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(random_bytes::<SECRET_BYTES>())
}
