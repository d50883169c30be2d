//! Fork, fork tree and promotion.

use axum::{Json, body::Body, extract::State, http::StatusCode};
use pandastack_door::http::{Answer, SandboxPath, optional_json_body};
use pandastack_model::Fault;
use pandastack_wire_public::{Fork, ForkFailure, ForkRequest, ForkTree, PromoteRequest, Promotion, rfc3339};

use super::{caller::Authenticated, sandboxes::render};
use crate::{
    Control,
    app::{ForkGrouping, ForkResult},
};

/// Makes one running copy, or several independent ones.
pub async fn fork(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
    body: Body,
) -> Answer<(StatusCode, Json<Fork>)> {
    let wish = optional_json_body::<ForkRequest>(body).await?.forks()?;
    control.refuse_database(&caller, id).await?;
    let ForkResult { parent, layer, tree: _, at_ns, children, failures } =
        control.fork(&caller, id, wish, ForkGrouping::Loose).await?;
    let children: Vec<_> = children.into_iter().map(render).collect();
    let sandbox = children.first().cloned().ok_or_else(|| Fault::bug("a fork returned no children"))?;
    let fork = Fork {
        parent_id: parent.to_string(),
        snapshot_id: layer.uuid().to_string(),
        at: rfc3339(at_ns),
        sandbox,
        children,
        errors: failures.into_iter().map(failure).collect(),
    };
    Ok((StatusCode::CREATED, Json(fork)))
}

/// Makes copies that form a tree. Copies that failed are listed with their reason.
pub async fn tree(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
    body: Body,
) -> Answer<(StatusCode, Json<ForkTree>)> {
    let wish = optional_json_body::<ForkRequest>(body).await?.tree()?;
    control.refuse_database(&caller, id).await?;
    let ForkResult { parent, layer, tree, at_ns, children, failures } =
        control.fork(&caller, id, wish, ForkGrouping::Tree).await?;
    let tree = ForkTree {
        tree_id: tree.unwrap_or_default(),
        parent_id: parent.to_string(),
        snapshot_id: layer.uuid().to_string(),
        at: rfc3339(at_ns),
        children: children.into_iter().map(render).collect(),
        errors: failures.into_iter().map(failure).collect(),
    };
    Ok((StatusCode::CREATED, Json(tree)))
}

/// Keeps one copy of a tree.
pub async fn promote(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
    body: Body,
) -> Answer<Json<Promotion>> {
    let ask = optional_json_body::<PromoteRequest>(body).await?;
    Ok(Json(control.promote(&caller, id, ask).await?))
}

fn failure((index, fault): (usize, Fault)) -> ForkFailure {
    ForkFailure { index, err: fault.text }
}
