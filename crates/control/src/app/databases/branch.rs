//! Branches a database: a fork of the live machine together with its volume.

use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::ForkSpec;

use super::{DatabaseView, create::LABEL_KEY};
use crate::{Control, app::ForkGrouping, store::ManagedDatabaseRow};

impl Control {
    /// Branches a database. The answer comes when the copy exists; it gets credentials of its own
    /// in the background, and nobody can connect before. The source goes on.
    pub(crate) async fn branch_database(
        &self,
        caller: &Caller,
        id: SandboxId,
        label: Option<String>,
    ) -> Result<DatabaseView, Fault> {
        let source = self.usable_database(caller, id).await?.row;
        let metadata = label.iter().map(|label| (LABEL_KEY.to_owned(), label.clone())).collect();
        let wish = ForkSpec { count: 1, metadata, explore_ttl: None };
        let mut forked = self.fork(caller, id, wish, ForkGrouping::Loose).await?;
        if forked.children.is_empty() {
            return Err(Fault::bug("a fork returned no child"));
        }
        let child = forked.children.remove(0);
        let row = ManagedDatabaseRow {
            id: child.id,
            workspace: caller.workspace.clone(),
            label,
            size: source.size,
            sleep: source.sleep,
            branched_from: Some(id),
            login: None,
            error: None,
            created_at_ns: child.created_at_ns,
        };
        self.store.add_database(&row).await?;
        let control = self.clone();
        let branch = row.id;
        self.provision(branch, async move { control.renew_login(branch).await });
        Ok(DatabaseView { row, state: Some(child.state) })
    }
}
