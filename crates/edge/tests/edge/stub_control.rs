//! A control plane with two tenants, for the edge's tests.

use async_trait::async_trait;
use pandastack_model::{Fault, FaultKind, GuestPort, LINK_LABEL_BYTES, LinkLabel, PathRules, SandboxId};
use pandastack_wire_fleet::{Caller, ControlPort, Credential, DatabaseLogin, PreviewGrant, WorkspaceId};

/// Every key is its own tenant. The sandbox belongs to `mine`.
pub struct StubControl(pub SandboxId);

#[async_trait]
impl ControlPort for StubControl {
    async fn authenticate(&self, credential: Credential<'_>) -> Result<Caller, Fault> {
        let token = credential.token.ok_or_else(|| Fault::new(FaultKind::Unauthorized, "unauthorized", "no key"))?;
        Ok(Caller::of(WorkspaceId(token.to_owned())))
    }

    async fn admit(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault> {
        if caller.workspace.0 == "mine" && sandbox == self.0 { Ok(()) } else { Err(Fault::no_sandbox()) }
    }

    async fn admit_look(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault> {
        self.admit(caller, sandbox).await
    }

    async fn admit_anyone(&self, sandbox: SandboxId) -> Result<(), Fault> {
        if sandbox == self.0 { Ok(()) } else { Err(Fault::no_sandbox()) }
    }

    /// The tokens `all` and `docs` (one path) are valid. `gone` belongs to a deleted sandbox.
    async fn open_preview(&self, token: &str) -> Result<PreviewGrant, Fault> {
        let paths = match token {
            "all" => Vec::new(),
            "docs" => vec!["/docs".to_owned()],
            "gone" => return Err(Fault::no_sandbox()),
            _ => {
                return Err(Fault::new(FaultKind::Unauthorized, "preview.bad_token", "this preview link is not valid"));
            }
        };
        let port = GuestPort::try_from(3000).unwrap();
        let label = LinkLabel::new([token.len() as u8; LINK_LABEL_BYTES]);
        Ok(PreviewGrant { sandbox: self.0, port, paths: PathRules::new(paths).unwrap(), label })
    }

    async fn admit_database(&self, database: SandboxId) -> Result<DatabaseLogin, Fault> {
        self.open_broker(database, "pds_pg_right").await
    }

    async fn revive_database(&self, _: SandboxId) -> Result<(), Fault> {
        Ok(())
    }

    /// `pds_pg_right` is the token of the sandbox. Any other database has the token `pds_pg_` and
    /// its id.
    async fn open_broker(&self, database: SandboxId, token: &str) -> Result<DatabaseLogin, Fault> {
        let is_right = token == "pds_pg_right" && database == self.0 || token == format!("pds_pg_{database}");
        if is_right {
            let workspace = WorkspaceId(if database == self.0 { "mine" } else { "other" }.to_owned());
            return Ok(DatabaseLogin { workspace, user: "pandastack".to_owned(), password: "secret".to_owned() });
        }
        self.admit_anyone(database).await?;
        Err(Fault::new(FaultKind::Unauthorized, "database.bad_token", "bad broker token"))
    }
}
