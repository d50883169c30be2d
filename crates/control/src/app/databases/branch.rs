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
        let (control, caller) = (self.clone(), caller.clone());
        // In a task of its own: a caller that hangs up must not leave a copy that is no database.
        let work = async move { control.branch_to_the_end(caller, source, label).await };
        self.scope.run("branch a database", work).await.map_err(Fault::bug)?
    }

    async fn branch_to_the_end(
        &self,
        caller: Caller,
        source: ManagedDatabaseRow,
        label: Option<String>,
    ) -> Result<DatabaseView, Fault> {
        let metadata = label.iter().map(|label| (LABEL_KEY.to_owned(), label.clone())).collect();
        let wish = ForkSpec { count: 1, metadata, explore_ttl: None };
        let mut forked = self.fork(&caller, source.id, wish, ForkGrouping::Loose).await?;
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
            branched_from: Some(source.id),
            login: None,
            error: None,
            created_at_ns: child.created_at_ns,
        };
        if let Err(error) = self.store.add_database(&row).await {
            self.delete_to_the_end(caller, row.id).await?;
            return Err(error.into());
        }
        let (control, branch) = (self.clone(), row.id);
        self.provision(caller, branch, async move { control.renew_login(branch).await });
        Ok(DatabaseView { row, state: Some(child.state) })
    }
}
