//! Organisations: each owns one workspace with everything in it.

use pandastack_identity::{EmailAddress, Slug, personal_org};
use pandastack_kit::random_hex;
use pandastack_model::{Fault, FaultKind, Role};
use pandastack_wire_fleet::{Caller, CallerUser, FIRST_WORKSPACE, WorkspaceId};
use pandastack_wire_public::{CreateOrg, org_name};

use super::login::fresh_id;
use crate::{
    Control,
    limits::ORGS_PER_OWNER_MAX,
    store::{NewOrg, OrgAdded, OrgRow, UserRow},
};

/// How often a personal organisation is tried with another slug.
const SLUG_TRIES: usize = 4;

impl Control {
    /// Lists the organisations of a user, oldest membership first.
    pub(crate) async fn orgs(&self, user: &CallerUser) -> Result<Vec<OrgRow>, Fault> {
        Ok(self.store.orgs_of(&user.id).await?)
    }

    /// Finds an organisation of a user.
    pub(crate) async fn org(&self, user: &CallerUser, org: &str) -> Result<OrgRow, Fault> {
        self.store.org_of(&user.id, org).await?.ok_or_else(no_org)
    }

    /// Finds an organisation in which the user has at least a role.
    pub(crate) async fn org_as(&self, user: &CallerUser, org: &str, least: Role) -> Result<OrgRow, Fault> {
        let found = self.org(user, org).await?;
        if found.role < least {
            return Err(insufficient());
        }
        Ok(found)
    }

    /// Makes an organisation that the user owns.
    pub(crate) async fn make_org(&self, user: &CallerUser, ask: CreateOrg) -> Result<OrgRow, Fault> {
        let name = org_name(&ask.name)?;
        let slug = match ask.slug.as_deref().filter(|slug| !slug.is_empty()) {
            Some(slug) => {
                Slug::parse(slug).map_err(|error| Fault::new(FaultKind::Caller, "org.bad_slug", error.to_string()))?
            }
            None => Slug::from_name(&name),
        };
        let (id, workspace) = (fresh_id(), WorkspaceId(slug.as_str().to_owned()));
        let org =
            NewOrg { id: &id, workspace: &workspace, name: &name, owner: &user.id, created_at_ns: self.clock.now_ns() };
        match self.store.add_org(&org, ORGS_PER_OWNER_MAX).await? {
            OrgAdded::Yes => {}
            OrgAdded::Taken => return Err(Fault::new(FaultKind::Conflict, "org.slug_taken", "slug already taken")),
            OrgAdded::Full => {
                let text = format!("you already own {ORGS_PER_OWNER_MAX} organisations; delete one first");
                return Err(Fault::new(FaultKind::Quota, "quota.orgs", text));
            }
        }
        self.forget_cached(&user.id);
        self.org(user, &id).await
    }

    /// Makes the organisation of a user that is in none. Concurrent requests make one.
    pub(super) async fn make_personal_org(&self, user: &UserRow) -> Result<OrgRow, Fault> {
        let email = EmailAddress::parse(&user.email).ok();
        let fresh = personal_org(email.as_ref(), &user.id);
        for tried in 0..SLUG_TRIES {
            let slug = match tried {
                0 => fresh.slug.as_str().to_owned(),
                // Two users may share the start of their ids.
                _ => format!("{}-{}", fresh.slug.as_str(), random_hex::<4>()),
            };
            let workspace = WorkspaceId(slug);
            let org = NewOrg {
                id: &fresh_id(),
                workspace: &workspace,
                name: &fresh.name,
                owner: &user.id,
                created_at_ns: self.clock.now_ns(),
            };
            if self.store.ensure_org(&org).await? {
                let made = self.store.orgs_of(&user.id).await?.into_iter().next();
                return made.ok_or_else(|| Fault::bug("a user's org is gone at once"));
            }
        }
        Err(Fault::bug("no slug for a personal org is free"))
    }

    /// Renames an organisation.
    pub(crate) async fn rename_org(&self, user: &CallerUser, org: &str, name: &str) -> Result<OrgRow, Fault> {
        let name = org_name(name)?;
        let org = self.org_as(user, org, Role::Admin).await?;
        self.store.rename_org(&org.id, &name).await?;
        Ok(OrgRow { name, ..org })
    }

    /// Makes an organisation the one that the user's later requests act in.
    pub(crate) async fn choose_org(&self, user: &CallerUser, org: &str) -> Result<(), Fault> {
        if !self.store.set_current_org(&user.id, org, self.clock.now_ns()).await? {
            return Err(Fault::new(FaultKind::Forbidden, "org.not_member", "not a member of that org"));
        }
        self.forget_cached(&user.id);
        Ok(())
    }

    /// Deletes an organisation: its keys stop now, and what it owns is removed in the background.
    pub(crate) async fn delete_org(&self, user: &CallerUser, org: &str, confirmed: Option<&str>) -> Result<(), Fault> {
        let org = self.org_as(user, org, Role::Owner).await?;
        if org.workspace.0 == FIRST_WORKSPACE {
            let text = "this is the server's first workspace, which cannot be deleted";
            return Err(Fault::new(FaultKind::Conflict, "org.first", text));
        }
        if confirmed != Some(org.workspace.0.as_str()) {
            let text = format!("to delete everything that this organisation owns, send confirm={}", org.workspace.0);
            return Err(Fault::new(FaultKind::Caller, "org.unconfirmed", text));
        }
        let revoked = self.store.begin_org_removal((&org.id, &user.id), self.clock.now_ns()).await?;
        let revoked = revoked.ok_or_else(insufficient)?;
        let control = self.clone();
        self.scope.start("remove an organisation", async move { control.finish_removals().await });
        // This must be the last step: it may end this request.
        self.access.cache.forget(&revoked);
        Ok(())
    }

    /// Removes what deleted organisations own. What fails is tried again later.
    pub(crate) async fn finish_removals(&self) {
        // The server with the host does it.
        if !self.host.is_here() {
            return;
        }
        let orgs = match self.store.orgs_being_removed().await {
            Ok(orgs) => orgs,
            Err(error) => return tracing::warn!(%error, "could not list organisations that are being removed"),
        };
        for (org, workspace) in orgs {
            match self.empty_workspace(workspace).await {
                Ok(()) => {
                    if let Err(error) = self.store.finish_org_removal(&org).await {
                        tracing::warn!(%error, org, "could not remove an organisation");
                    }
                }
                Err(fault) => tracing::warn!(%fault, org, "an organisation still owns something; trying again later"),
            }
        }
    }

    /// Removes everything in a workspace.
    async fn empty_workspace(&self, workspace: WorkspaceId) -> Result<(), Fault> {
        let caller = Caller::of(workspace);
        for database in self.store.list_databases(&caller.workspace).await? {
            ignore_missing(self.delete_database(&caller, database.id).await)?;
        }
        for sandbox in self.store.list(&caller.workspace).await? {
            ignore_missing(self.delete(caller.clone(), sandbox.id).await)?;
        }
        for snapshot in self.store.list_snapshots(&caller.workspace, None).await? {
            ignore_missing(self.delete_snapshot(&caller, snapshot.layer).await)?;
        }
        for volume in self.store.list_volumes(&caller.workspace).await? {
            ignore_missing(self.delete_volume(&caller, &volume.name).await)?;
        }
        for template in self.store.list_templates(&caller.workspace).await? {
            ignore_missing(self.delete_template(&caller, &template.name.to_string()).await)?;
        }
        for webhook in self.store.list_webhooks(&caller.workspace).await? {
            ignore_missing(self.unsubscribe(&caller, webhook.id).await)?;
        }
        Ok(())
    }

    /// Forgets what is cached about a user. Other servers read it from the database.
    pub(super) fn forget_cached(&self, user: &str) {
        self.access.cache.forget(&[crate::store::Revoked::CachedUser(user.to_owned())]);
    }
}

fn ignore_missing(done: Result<(), Fault>) -> Result<(), Fault> {
    match done {
        Err(fault) if fault.kind == FaultKind::Missing => Ok(()),
        done => done,
    }
}

/// The fault of an organisation that does not exist, or that the caller is not a member of.
pub(super) fn no_org() -> Fault {
    Fault::new(FaultKind::Missing, "org.not_found", "not found or not a member")
}

/// The fault of a member whose role does not allow something.
pub(super) fn insufficient() -> Fault {
    Fault::new(FaultKind::Forbidden, "org.insufficient_role", "insufficient role")
}
