//! Promotes a child of a fork tree. The child gets the idle limit of its parent. Its siblings are
//! deleted on request.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};

use futures_util::{StreamExt, stream};
use pandastack_model::{EventKind, Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::{PromoteRequest, Promotion};
use serde_json::json;

use crate::{
    Control,
    limits::{CHANGE_MAX, REAPED_AT_ONCE_MAX},
};

/// The trees with a promotion that deletes siblings.
#[derive(Default)]
pub struct Promotions(Mutex<HashSet<String>>);

/// The exclusive right to promote in one tree, until it is dropped.
pub struct PromotionLock {
    trees: Arc<Promotions>,
    tree: String,
}

impl Promotions {
    /// Takes a tree, unless another promotion has it.
    fn take(self: &Arc<Self>, tree: &str) -> Result<PromotionLock, Fault> {
        if self.trees().insert(tree.to_owned()) {
            return Ok(PromotionLock { trees: self.clone(), tree: tree.to_owned() });
        }
        let text = "another sandbox of this tree is being promoted; check the tree and try again";
        Err(Fault::new(FaultKind::Conflict, "fork.promoting", text))
    }

    fn trees(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for PromotionLock {
    fn drop(&mut self) {
        self.trees.trees().remove(&self.tree);
    }
}

impl Control {
    /// Promotes a sandbox of the caller. A repeated call does no harm.
    pub(crate) async fn promote(
        &self,
        caller: &Caller,
        id: SandboxId,
        ask: PromoteRequest,
    ) -> Result<Promotion, Fault> {
        self.need_host()?;
        let (control, caller) = (self.clone(), caller.clone());
        let work = async move { control.promote_to_the_end(&caller, id, ask).await };
        self.in_time("promote", CHANGE_MAX, work).await
    }

    async fn promote_to_the_end(
        &self,
        caller: &Caller,
        id: SandboxId,
        ask: PromoteRequest,
    ) -> Result<Promotion, Fault> {
        let winner = self.store.find(&caller.workspace, id).await?.ok_or_else(Fault::no_sandbox)?;
        let tree = which_tree(winner.lineage.tree, &ask)?;
        // Two promotions of one tree must not delete each other's winner, so the first one takes
        // the tree.
        let _turn = match (&tree, ask.cleanup_siblings) {
            (Some(tree), true) => Some(self.locks.promotions.take(tree)?),
            _ => None,
        };
        // Check only now, because another promotion may have deleted the winner. If a missing
        // or failed winner were promoted, nothing of the tree would remain.
        self.reachable(caller, id).await?;
        if let Some(limit) = winner.lineage.promoted {
            self.change_idle_limit(id, limit).await?;
        }
        let siblings = match (&tree, ask.cleanup_siblings) {
            (Some(tree), true) => self.store.list_tree(&caller.workspace, tree).await?,
            _ => Vec::new(),
        };
        let losers: Vec<_> = siblings.into_iter().filter(|sibling| *sibling != id).collect();
        let (deleted, failures) = self.reap(caller, losers).await;
        let payload = json!({"tree_id": tree, "winner": id.to_string(), "deleted": deleted, "failed": failures.len()});
        self.tell(id, EventKind::TreePromoted, payload).await?;
        tracing::info!(sandbox = %id, deleted = deleted.len(), failed = failures.len(), "sandbox promoted");
        Ok(Promotion { winner: id.to_string(), tree_id: tree.unwrap_or_default(), deleted, failures })
    }

    /// Deletes each sandbox, a few at a time. A failure does not stop the others.
    async fn reap(&self, caller: &Caller, losers: Vec<SandboxId>) -> (Vec<String>, BTreeMap<String, String>) {
        let delete = |id| async move { (id, self.delete_to_the_end(caller.clone(), id).await) };
        let ended: Vec<_> = stream::iter(losers).map(delete).buffered(REAPED_AT_ONCE_MAX).collect().await;
        let (mut deleted, mut failures) = (Vec::new(), BTreeMap::new());
        for (id, ended) in ended {
            match ended {
                Ok(()) => deleted.push(id.to_string()),
                Err(fault) => {
                    tracing::warn!(sandbox = %id, %fault, "could not delete a sibling of a promoted sandbox");
                    failures.insert(id.to_string(), fault.text);
                }
            }
        }
        (deleted, failures)
    }
}

/// Returns the tree: the named one, which must be the winner's, or the winner's own.
fn which_tree(own: Option<String>, ask: &PromoteRequest) -> Result<Option<String>, Fault> {
    let refused = |code, text: &str| Err(Fault::new(FaultKind::Caller, code, text));
    let named = ask.tree_id.as_deref().filter(|named| !named.is_empty());
    match (own, named) {
        (None, Some(_)) => refused("fork.other_tree", "the sandbox does not belong to that tree"),
        (Some(own), Some(named)) if own != named => {
            refused("fork.other_tree", "the sandbox belongs to another tree; omit tree_id")
        }
        (None, None) if ask.cleanup_siblings => refused("fork.no_tree", "the sandbox does not belong to a fork tree"),
        (own, _) => Ok(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: Option<&str>, named: Option<&str>, cleanup: bool, expected: Result<Option<&str>, &str>) {
        let ask = PromoteRequest { cleanup_siblings: cleanup, tree_id: named.map(str::to_owned) };
        let got = which_tree(own.map(str::to_owned), &ask);
        assert_eq!(got.as_ref().map(|tree| tree.as_deref()).map_err(|fault| fault.code), expected);
    }

    #[test]
    fn a_tree_has_one_turn_at_a_time() {
        let promotions = Arc::new(Promotions::default());
        let turn = promotions.take("t").ok();
        assert!(turn.is_some() && promotions.take("u").is_ok());
        assert_eq!(promotions.take("t").err().unwrap().code, "fork.promoting");
        drop(turn);
        assert!(promotions.take("t").is_ok());
    }

    #[test]
    fn the_tree_is_inferred_and_never_somebody_elses() {
        check(Some("t"), None, true, Ok(Some("t")));
        check(Some("t"), Some("t"), true, Ok(Some("t")));
        check(Some("t"), Some(""), true, Ok(Some("t")));
        check(Some("t"), Some("u"), true, Err("fork.other_tree"));
        check(None, Some("u"), false, Err("fork.other_tree"));
        check(None, None, true, Err("fork.no_tree"));
        check(None, None, false, Ok(None));
    }
}
