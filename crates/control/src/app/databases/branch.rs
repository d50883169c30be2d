//! Branches a database: a fork of the live machine together with its volume.

use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::ForkSpec;

use super::{DatabaseView, create::LABEL_KEY, credentials::LoginCheck};
use crate::{
    Control,
    app::ForkGrouping,
    store::{Intent, ManagedDatabaseRow},
};

impl Control {
    /// Branches a database. The answer comes when the copy exists; it gets credentials of its own
    /// in the background, and nobody can connect before. The source goes on.
    pub(crate) async fn branch_database(
        &self,
        caller: &Caller,
        id: SandboxId,
        label: Option<String>,
    ) -> Result<DatabaseView, Fault> {
        self.usable_database(caller, id).await?;
        let (control, caller) = (self.clone(), caller.clone());
        let work = async move { control.branch_to_the_end(caller, id, label).await };
        self.scope.run("branch a database", work).await.map_err(Fault::bug)?
    }

    async fn branch_to_the_end(
        &self,
        caller: Caller,
        id: SandboxId,
        label: Option<String>,
    ) -> Result<DatabaseView, Fault> {
        // A reset of the source's credentials waits: the copy must have the password of the row.
        let turn = self.locks.terms.lock(id).await;
        let source = self.usable_database(&caller, id).await?.row;
        let metadata = label.iter().map(|label| (LABEL_KEY.to_owned(), label.clone())).collect();
        let wish = ForkSpec { count: 1, metadata, explore_ttl: None };
        let branch = ManagedDatabaseRow {
            label,
            branched_from: Some(id),
            cloned_from: None,
            broker_token: None,
            next_password: None,
            kept_volume: None,
            drill: None,
            ..source
        };
        let mut forked = self.fork(&caller, id, wish, ForkGrouping::Branch(Box::new(branch.clone()))).await?;
        drop(turn);
        if forked.children.is_empty() {
            return Err(Fault::bug("a fork returned no child"));
        }
        let child = forked.children.remove(0);
        let row = ManagedDatabaseRow { id: child.id, created_at_ns: child.created_at_ns, ..branch };
        let (control, branch) = (self.clone(), row.id);
        self.provision(caller, branch, async move { control.renew_login(branch, LoginCheck::None).await });
        Ok(DatabaseView::new(row, Some(child.state)))
    }
}

/// Returns the row of a branch, for the sandbox that it is the machine of.
pub fn branch_row(branch: &ManagedDatabaseRow, child: &Intent) -> Box<ManagedDatabaseRow> {
    Box::new(ManagedDatabaseRow { id: child.id, created_at_ns: child.created_at_ns, ..branch.clone() })
}
