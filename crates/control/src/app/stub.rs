//! Development without authentication: a request without an API key is one of a fixed user. Clients
//! know its names, so they are the same on every server.

use pandastack_door::shown_prefix;
use pandastack_identity::EmailAddress;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::WorkspaceId;
use tokio::sync::OnceCell;

use super::authenticate::key_hash;
use crate::{
    Control,
    store::{KeyRow, NewOrg, STUB_USER, UserAdded, UserOrder, UserRow},
};

const ORG: &str = "00000000-0000-0000-0000-000000000002";
const EMAIL: &str = "dev@local.pandastack";
const WORKSPACE: &str = "local-dev";
/// The API key of that workspace. Outside development it does not have the form of a key.
pub(super) const STUB_KEY: &str = "pds_local_dev_token";

/// The fixed user, which is stored at its first request.
#[derive(Default)]
pub(crate) struct StubAccount {
    stored: OnceCell<()>,
}

impl Control {
    /// Returns the fixed user, with the e-mail address that the request names.
    pub(super) async fn stub_user(&self, account: &StubAccount, email: Option<&str>) -> Result<UserRow, Fault> {
        let email = EmailAddress::parse(email.unwrap_or(EMAIL))
            .map_err(|error| Fault::new(FaultKind::Caller, "auth.bad_stub_user", format!("X-Stub-User: {error}")))?;
        self.ensure_stub(account).await?;
        // Only in development does it administer the server: the stored row says no.
        Ok(UserRow { email: email.as_str().to_owned(), operator: true, ..self.stub_row() })
    }

    /// Ensures that the fixed user, its organisation and its API key are stored.
    pub(super) async fn ensure_stub(&self, account: &StubAccount) -> Result<(), Fault> {
        account.stored.get_or_try_init(|| self.store_stub()).await.copied()
    }

    async fn store_stub(&self) -> Result<(), Fault> {
        let (now_ns, workspace) = (self.clock.now_ns(), WorkspaceId(WORKSPACE.to_owned()));
        match self.store.add_user(&self.stub_row(), UserOrder::Any).await? {
            UserAdded::Yes | UserAdded::Taken | UserAdded::NotFirst => {}
        }
        let org = NewOrg { id: ORG, workspace: &workspace, name: "Local", owner: STUB_USER, created_at_ns: now_ns };
        self.store.ensure_org(&org).await?;
        let (hash, prefix) = (key_hash(STUB_KEY), shown_prefix(STUB_KEY));
        let key = KeyRow { hash: &hash, prefix, label: "development", expires_at_ns: None, created_by: STUB_USER };
        Ok(self.store.ensure_key(&workspace, key, now_ns).await?)
    }

    fn stub_row(&self) -> UserRow {
        UserRow { id: STUB_USER.to_owned(), email: EMAIL.to_owned(), ..UserRow::new(self.clock.now_ns()) }
    }
}
