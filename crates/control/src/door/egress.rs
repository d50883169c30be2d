//! The egress list of a sandbox: the destinations it may reach.

use axum::{Json, body::Body, extract::State};
use pandastack_door::http::{Answer, SandboxPath, json_body};
use pandastack_model::Egress;
use pandastack_wire_public::{EgressList, SetEgress, egress_list};

use super::caller::Authenticated;
use crate::Control;

/// Shows the egress list.
pub async fn show(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
) -> Answer<Json<EgressList>> {
    let egress = control.egress(&caller, id).await?;
    Ok(Json(EgressList { egress_allowlist: egress_list(&egress) }))
}

/// Changes the egress list. The change applies at once.
pub async fn change(
    State(control): State<Control>,
    Authenticated(caller): Authenticated,
    SandboxPath(id): SandboxPath,
    body: Body,
) -> Answer<Json<EgressList>> {
    let egress = Egress::try_from(json_body::<SetEgress>(body).await?)?;
    let egress = control.set_egress(&caller, id, egress).await?;
    Ok(Json(EgressList { egress_allowlist: egress_list(&egress) }))
}
