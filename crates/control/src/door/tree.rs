//! The fork tree of a sandbox.

use axum::{Json, extract::State};
use pandastack_door::http::{Answer, SandboxPath};
use pandastack_model::SandboxId;
use pandastack_wire_public::{FamilyTree, TreeNode, rfc3339};

use super::caller::Authenticated;
use crate::{Control, app::CostedMember, store::FamilyMember};

/// Shows ancestors, siblings and descendants, from the oldest down.
pub async fn show(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<Json<FamilyTree>> {
    let family = control.tree(&caller, id).await?;
    let root = family.first().map_or(id, |root| root.member.id);
    let nodes = family.into_iter().map(|relative| render(relative, root)).collect();
    Ok(Json(FamilyTree { sandbox_id: id.to_string(), root_id: root.to_string(), nodes }))
}

fn render(CostedMember { member, cost }: CostedMember, root: SandboxId) -> TreeNode {
    let FamilyMember { id, parent, status, template, created_at_ns, tree, index, name, size: _ } = member;
    TreeNode {
        id: id.to_string(),
        // The root's parent, if it had one, is no longer recorded.
        parent_id: parent.filter(|_| id != root).map(|parent| parent.to_string()),
        status,
        template,
        created_at: rfc3339(created_at_ns),
        fork_tree_id: tree,
        fork_index: index,
        name,
        cost,
    }
}
