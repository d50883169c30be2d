//! Organisations, their members and invites.

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, StatusCode, Uri},
};
use pandastack_door::http::{Answer, json_body, public_base, query_value};
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_public::{
    AcceptedInvite, ChangeMember, CreateInvite, CreateOrg, CurrentOrg, InviteInfo, Org, OrgInvite, OrgMember,
    RenameOrg, TransferOrg, rfc3339,
};
use serde::de::DeserializeOwned;

use super::caller::Person;
use crate::{
    Control,
    store::{InviteRow, MemberRow, OrgRow},
};

type OnePath = Result<Path<String>, PathRejection>;
type TwoPaths = Result<Path<(String, String)>, PathRejection>;

/// Chooses the organisation that the caller's later requests act in.
pub async fn choose(State(control): State<Control>, person: Person, body: Body) -> Answer<Json<CurrentOrg>> {
    let ask: CurrentOrg = asked(body).await?;
    control.choose_org(&person.user, &ask.org_id).await?;
    Ok(Json(ask))
}

/// Lists the caller's organisations.
pub async fn list(State(control): State<Control>, person: Person) -> Answer<Json<Vec<Org>>> {
    Ok(Json(control.orgs(&person.user).await?.into_iter().map(render).collect()))
}

/// Makes an organisation.
pub async fn create(State(control): State<Control>, person: Person, body: Body) -> Answer<(StatusCode, Json<Org>)> {
    let ask: CreateOrg = asked(body).await?;
    Ok((StatusCode::CREATED, Json(render(control.make_org(&person.user, ask).await?))))
}

/// Shows an organisation.
pub async fn get(State(control): State<Control>, person: Person, path: OnePath) -> Answer<Json<Org>> {
    Ok(Json(render(control.org(&person.user, &one(path)?).await?)))
}

/// Renames an organisation.
pub async fn rename(State(control): State<Control>, person: Person, path: OnePath, body: Body) -> Answer<Json<Org>> {
    let ask: RenameOrg = asked(body).await?;
    Ok(Json(render(control.rename_org(&person.user, &one(path)?, &ask.name).await?)))
}

/// Deletes an organisation with everything that it owns.
pub async fn delete(State(control): State<Control>, person: Person, path: OnePath, uri: Uri) -> Answer<StatusCode> {
    let confirmed = query_value(&uri, "confirm");
    control.delete_org(&person.user, &one(path)?, confirmed.as_deref()).await?;
    Ok(StatusCode::ACCEPTED)
}

/// Ends the caller's membership.
pub async fn leave(State(control): State<Control>, person: Person, path: OnePath) -> Answer<StatusCode> {
    control.leave_org(&person.user, &one(path)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes another member the owner.
pub async fn transfer(State(control): State<Control>, person: Person, path: OnePath, body: Body) -> Answer<StatusCode> {
    let ask: TransferOrg = asked(body).await?;
    control.transfer_org(&person.user, &one(path)?, &ask.user_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the members of an organisation.
pub async fn members(State(control): State<Control>, person: Person, path: OnePath) -> Answer<Json<Vec<OrgMember>>> {
    let found = control.members(&person.user, &one(path)?).await?;
    let shown = found.into_iter().map(|MemberRow { user_id, email, name, role, joined_at_ns }| OrgMember {
        user_id,
        email,
        name,
        role: role.to_string(),
        joined_at: rfc3339(joined_at_ns),
    });
    Ok(Json(shown.collect()))
}

/// Invites somebody. This is the only answer with the link.
pub async fn invite(
    State(control): State<Control>,
    person: Person,
    path: OnePath,
    headers: HeaderMap,
    uri: Uri,
    body: Body,
) -> Answer<(StatusCode, Json<OrgInvite>)> {
    let ask: CreateInvite = asked(body).await?;
    let (invite, token) = control.make_invite(&person.user, &one(path)?, ask).await?;
    control.mail_invite(&person.user, &invite, &token).await;
    let base = control.sign_in.dashboard_url.as_deref().map_or_else(|| public_base(&headers, &uri), str::to_owned);
    let shown = OrgInvite {
        token: Some(token.reveal().to_owned()),
        invite_url: Some(format!("{base}/invite/{}", token.reveal())),
        ..render_invite(invite)
    };
    Ok((StatusCode::CREATED, Json(shown)))
}

/// Changes the role of a member.
pub async fn change_member(
    State(control): State<Control>,
    person: Person,
    path: TwoPaths,
    body: Body,
) -> Answer<StatusCode> {
    let ask: ChangeMember = asked(body).await?;
    let (org, member) = two(path)?;
    control.change_role(&person.user, (&org, &member), &ask.role).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes a member.
pub async fn remove_member(State(control): State<Control>, person: Person, path: TwoPaths) -> Answer<StatusCode> {
    let (org, member) = two(path)?;
    control.remove_member(&person.user, (&org, &member)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the open invites of an organisation.
pub async fn invites(State(control): State<Control>, person: Person, path: OnePath) -> Answer<Json<Vec<OrgInvite>>> {
    let found = control.invites(&person.user, &one(path)?).await?;
    Ok(Json(found.into_iter().map(render_invite).collect()))
}

/// Withdraws an invite.
pub async fn withdraw(State(control): State<Control>, person: Person, path: TwoPaths) -> Answer<StatusCode> {
    let (org, invite) = two(path)?;
    control.withdraw_invite(&person.user, (&org, &invite)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Shows an invite to the person who has its link.
pub async fn show_invite(State(control): State<Control>, path: OnePath) -> Answer<Json<InviteInfo>> {
    let (invite, org_name) = control.invite(&one(path)?).await?;
    let (role, expires_at) = (invite.role.to_string(), rfc3339(invite.expires_at_ns));
    Ok(Json(InviteInfo { org_name, email: invite.email, role, expires_at }))
}

/// Accepts an invite.
pub async fn accept(State(control): State<Control>, person: Person, path: OnePath) -> Answer<Json<AcceptedInvite>> {
    let (org_id, role) = control.accept_invite(&person.user, &one(path)?).await?;
    Ok(Json(AcceptedInvite { org_id, role: role.to_string() }))
}

/// Renders an organisation as one of its members sees it.
pub fn render(org: OrgRow) -> Org {
    Org {
        id: org.id,
        slug: org.workspace.0,
        name: org.name,
        owner_user_id: org.owner,
        role: org.role.to_string(),
        created_at: rfc3339(org.created_at_ns),
        member_count: Some(org.members),
    }
}

fn render_invite(invite: InviteRow) -> OrgInvite {
    OrgInvite {
        id: invite.id,
        org_id: invite.org,
        email: invite.email,
        role: invite.role.to_string(),
        invited_by: invite.invited_by,
        expires_at: rfc3339(invite.expires_at_ns),
        token: None,
        invite_url: None,
    }
}

/// Reads a body. Published clients match this text.
async fn asked<T: DeserializeOwned>(body: Body) -> Result<T, Fault> {
    json_body(body).await.map_err(|fault| match fault.kind {
        FaultKind::Caller => Fault { text: format!("bad json: {}", fault.text), ..fault },
        _ => fault,
    })
}

fn one(path: OnePath) -> Result<String, Fault> {
    path.map(|Path(name)| name).map_err(|_| missing())
}

fn two(path: TwoPaths) -> Result<(String, String), Fault> {
    path.map(|Path(names)| names).map_err(|_| missing())
}

fn missing() -> Fault {
    Fault::new(FaultKind::Missing, "org.not_found", "not found or not a member")
}
