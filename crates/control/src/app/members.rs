//! Members of organisations and their roles, and the invites by which they come.

use pandastack_identity::{EmailAddress, InviteToken};
use pandastack_model::{Fault, FaultKind, Role, SandboxId};
use pandastack_wire_fleet::CallerUser;
use pandastack_wire_public::{CreateInvite, invited_role};

use super::orgs::{insufficient, no_org};
use crate::{
    Control,
    limits::{INVITE_AGE_MAX, INVITES_PER_ORG_MAX},
    store::{InviteAccepted, InviteAdded, InviteRow, MemberChange, MemberChanged, MemberRow, Revoked},
};

impl Control {
    /// Lists the members of an organisation by the time they joined.
    pub(crate) async fn members(&self, user: &CallerUser, org: &str) -> Result<Vec<MemberRow>, Fault> {
        let org = self.member_org(user, org).await?;
        Ok(self.store.members(&org).await?)
    }

    /// Changes the role of a member.
    pub(crate) async fn change_role(
        &self,
        user: &CallerUser,
        (org, member): (&str, &str),
        role: &str,
    ) -> Result<(), Fault> {
        let role: Role = role
            .parse()
            .map_err(|_| Fault::new(FaultKind::Caller, "org.bad_role", "role must be owner, admin or member"))?;
        self.change_member(user, (org, member), MemberChange::Role(role)).await
    }

    /// Removes a member.
    pub(crate) async fn remove_member(&self, user: &CallerUser, who: (&str, &str)) -> Result<(), Fault> {
        self.change_member(user, who, MemberChange::Remove).await
    }

    /// Ends the caller's own membership.
    pub(crate) async fn leave_org(&self, user: &CallerUser, org: &str) -> Result<(), Fault> {
        self.change_member(user, (org, &user.id), MemberChange::Remove).await
    }

    async fn change_member(
        &self,
        user: &CallerUser,
        (org, member): (&str, &str),
        change: MemberChange,
    ) -> Result<(), Fault> {
        let org = self.member_org(user, org).await?;
        let changed = self.store.change_member(&org, (&user.id, member), change, self.clock.now_ns()).await?;
        self.settle(changed, &[Revoked::User(member.to_owned())])
    }

    /// Makes another member the owner, and the caller an admin.
    pub(crate) async fn transfer_org(&self, user: &CallerUser, org: &str, heir: &str) -> Result<(), Fault> {
        let org = self.member_org(user, org).await?;
        let changed = self.store.transfer_org(&org, (&user.id, heir), self.clock.now_ns()).await?;
        self.settle(changed, &[Revoked::CachedUser(heir.to_owned()), Revoked::User(user.id.clone())])
    }

    fn settle(&self, changed: MemberChanged, revoked: &[Revoked]) -> Result<(), Fault> {
        match changed {
            MemberChanged::Yes => {
                // This must be the last step: it may end this request.
                self.access.cache.forget(revoked);
                Ok(())
            }
            MemberChanged::Missing => Err(Fault::new(FaultKind::Missing, "org.no_member", "member not found")),
            MemberChanged::Forbidden => Err(insufficient()),
            MemberChanged::LastOwner => {
                let text = "the last owner cannot be removed or change role; transfer the organisation first";
                Err(Fault::new(FaultKind::Caller, "org.last_owner", text))
            }
        }
    }

    /// Invites somebody. Returns the invite and the secret of its link.
    pub(crate) async fn make_invite(
        &self,
        user: &CallerUser,
        org: &str,
        ask: CreateInvite,
    ) -> Result<(InviteRow, InviteToken), Fault> {
        let org = self.member_org(user, org).await?;
        let email = EmailAddress::parse(&ask.email)
            .map_err(|error| Fault::new(FaultKind::Caller, "org.bad_email", error.to_string()))?;
        let role = invited_role(ask.role.as_deref())?;
        let (token, now_ns) = (InviteToken::generate(), self.clock.now_ns());
        let invite = InviteRow {
            id: format!("inv_{}", SandboxId::random().uuid().simple()),
            org,
            email: email.as_str().to_owned(),
            role,
            invited_by: user.id.clone(),
            created_at_ns: now_ns,
            expires_at_ns: now_ns.saturating_add(INVITE_AGE_MAX.as_nanos() as u64),
            used: false,
        };
        match self.store.add_invite(&token.hash().to_hex(), &invite, INVITES_PER_ORG_MAX).await? {
            InviteAdded::Yes => Ok((invite, token)),
            InviteAdded::Forbidden => Err(insufficient()),
            InviteAdded::Full => {
                let text =
                    format!("the organisation already has {INVITES_PER_ORG_MAX} open invites; withdraw one first");
                Err(Fault::new(FaultKind::Quota, "quota.invites", text))
            }
        }
    }

    /// Lists the open invites of an organisation, newest first.
    pub(crate) async fn invites(&self, user: &CallerUser, org: &str) -> Result<Vec<InviteRow>, Fault> {
        let org = self.org_as(user, org, Role::Admin).await?;
        Ok(self.store.open_invites(&org.id, self.clock.now_ns()).await?)
    }

    /// Withdraws an open invite.
    pub(crate) async fn withdraw_invite(&self, user: &CallerUser, (org, id): (&str, &str)) -> Result<(), Fault> {
        let org = self.org_as(user, org, Role::Admin).await?;
        if self.store.withdraw_invite(&org.id, id).await? {
            return Ok(());
        }
        Err(Fault::new(FaultKind::Missing, "org.no_invite", "invite not found"))
    }

    /// Finds an open invite by the secret of its link, with the name of its organisation.
    pub(crate) async fn invite(&self, token: &str) -> Result<(InviteRow, String), Fault> {
        let hash = InviteToken::parse(token).map_err(|_| no_invite())?.hash().to_hex();
        let found = self.store.invite(&hash).await?.ok_or_else(no_invite)?;
        if found.0.used || found.0.expires_at_ns <= self.clock.now_ns() {
            return Err(invite_over());
        }
        Ok(found)
    }

    /// Makes the caller a member by an invite, and the organisation the current one.
    pub(crate) async fn accept_invite(&self, user: &CallerUser, token: &str) -> Result<(String, Role), Fault> {
        let hash = InviteToken::parse(token).map_err(|_| no_invite())?.hash().to_hex();
        let email = Some(user.email.as_str()).filter(|email| !email.is_empty());
        let now_ns = self.clock.now_ns();
        match self.store.accept_invite(&hash, (&user.id, email), now_ns).await? {
            InviteAccepted::Yes { org, role } => {
                self.store.set_current_org(&user.id, &org, now_ns).await?;
                self.forget_cached(&user.id);
                self.tell_members_changed(&org).await;
                Ok((org, role))
            }
            InviteAccepted::Missing => Err(no_invite()),
            InviteAccepted::Over => Err(invite_over()),
            InviteAccepted::OtherEmail => {
                let text = "this invite is for another e-mail address";
                Err(Fault::new(FaultKind::Forbidden, "org.other_email", text))
            }
        }
    }

    /// Returns the id of an organisation that the caller is a member of.
    async fn member_org(&self, user: &CallerUser, org: &str) -> Result<String, Fault> {
        self.store.org_of(&user.id, org).await?.map(|org| org.id).ok_or_else(no_org)
    }
}

fn no_invite() -> Fault {
    Fault::new(FaultKind::Missing, "org.no_invite", "invite not found")
}

fn invite_over() -> Fault {
    Fault::new(FaultKind::Gone, "org.invite_over", "this invite was used, or has expired")
}
