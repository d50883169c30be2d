//! Organisations and their members. Every change that depends on the members happens under the
//! org's lock, so that the last owner cannot leave and a role is never given by somebody without
//! it.

use pandastack_database::{DatabaseRow, Transaction, WriteLock, query, query_as, query_built, query_scalar};
use pandastack_model::Role;
use pandastack_wire_fleet::WorkspaceId;

use super::{Revoked, Store, StoreError, UserRow, failed, from_sql, intent::column, to_sql};

/// An org as one of its members sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrgRow {
    pub id: String,
    pub workspace: WorkspaceId,
    pub name: String,
    /// The owner that joined first.
    pub owner: String,
    /// The role of the member that asks.
    pub role: Role,
    pub members: u64,
    pub created_at_ns: u64,
}

/// A new org.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrg<'a> {
    pub id: &'a str,
    pub workspace: &'a WorkspaceId,
    pub name: &'a str,
    pub owner: &'a str,
    pub created_at_ns: u64,
}

/// Whether an org was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrgAdded {
    Yes,
    /// Another org, or a workspace without one, has the slug.
    Taken,
    /// The user owns too many.
    Full,
}

/// A member of an org.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRow {
    pub user_id: String,
    pub email: String,
    pub name: String,
    pub role: Role,
    pub joined_at_ns: u64,
}

/// The result of a change of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChanged {
    Yes,
    /// The org has no such member.
    Missing,
    /// The actor's role does not allow it.
    Forbidden,
    /// The org would have no owner.
    LastOwner,
}

/// What a member asks to be done to a member, perhaps itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    Remove,
    Role(Role),
}

const ORG: &str = "SELECT org.id, org.workspace, org.name, org.created_at, mine.role,
        (SELECT COUNT(*) FROM org_member AS counted WHERE counted.org = org.id) AS members,
        (SELECT owners.user_id FROM org_member AS owners WHERE owners.org = org.id AND owners.role = 'owner'
         ORDER BY owners.joined_at, owners.user_id LIMIT 1) AS owner
    FROM org JOIN org_member AS mine ON mine.org = org.id";

impl Store {
    /// Lists the orgs of a user, oldest membership first.
    pub async fn orgs_of(&self, user: &str) -> Result<Vec<OrgRow>, StoreError> {
        let sql = format!("{ORG} WHERE mine.user_id = ? AND org.deleting_at IS NULL ORDER BY mine.joined_at, org.id");
        let rows = query_built(sql).bind(user).fetch_all(&self.database).await.map_err(failed("list orgs"))?;
        rows.iter().map(read).collect()
    }

    /// Finds an org that the user is a member of.
    pub async fn org_of(&self, user: &str, org: &str) -> Result<Option<OrgRow>, StoreError> {
        let sql = format!("{ORG} WHERE mine.user_id = ? AND org.id = ? AND org.deleting_at IS NULL");
        let row = query_built(sql)
            .bind(user)
            .bind(org)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find an org"))?;
        row.as_ref().map(read).transpose()
    }

    /// Adds an org with its first owner, and makes it the owner's current one.
    pub async fn add_org(&self, org: &NewOrg<'_>, owned_max: u64) -> Result<OrgAdded, StoreError> {
        let lock = WriteLock::on("user", org.owner);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin an org"))?;
        let owned: i64 = query_scalar("SELECT COUNT(*) FROM org_member WHERE user_id = ? AND role = 'owner'")
            .bind(org.owner)
            .fetch_one(&mut tx)
            .await
            .map_err(failed("count orgs"))?;
        if from_sql(owned) >= owned_max {
            return Ok(OrgAdded::Full);
        }
        if !insert(&mut tx, org, Reuse::No).await? {
            return Ok(OrgAdded::Taken);
        }
        self.announce(&mut tx, &[Revoked::CachedUser(org.owner.to_owned())], org.created_at_ns).await?;
        tx.commit().await.map_err(failed("commit an org"))?;
        Ok(OrgAdded::Yes)
    }

    /// Ensures that a user has an org. Without any membership, `fresh` becomes the user's own one.
    /// Concurrent first requests make one org.
    pub async fn ensure_org(&self, fresh: &NewOrg<'_>) -> Result<bool, StoreError> {
        let lock = WriteLock::on("user", fresh.owner);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin a personal org"))?;
        let held = "SELECT COUNT(*) FROM org_member JOIN org ON org.id = org_member.org
                    WHERE user_id = ? AND deleting_at IS NULL";
        let held: i64 =
            query_scalar(held).bind(fresh.owner).fetch_one(&mut tx).await.map_err(failed("count memberships"))?;
        let made = held == 0 && insert(&mut tx, fresh, Reuse::No).await?;
        tx.commit().await.map_err(failed("commit a personal org"))?;
        Ok(made || held > 0)
    }

    /// Gives a workspace that has no org to a user, with everything in it.
    pub async fn adopt_workspace(&self, org: &NewOrg<'_>) -> Result<bool, StoreError> {
        let lock = WriteLock::on("user", org.owner);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin an org"))?;
        let held: i64 = query_scalar("SELECT COUNT(*) FROM org WHERE workspace = ?")
            .bind(&org.workspace.0)
            .fetch_one(&mut tx)
            .await
            .map_err(failed("look for the org of a workspace"))?;
        let made = held == 0 && insert(&mut tx, org, Reuse::Yes).await?;
        tx.commit().await.map_err(failed("commit an org"))?;
        Ok(made)
    }

    /// Renames an org.
    pub async fn rename_org(&self, org: &str, name: &str) -> Result<(), StoreError> {
        query("UPDATE org SET name = ? WHERE id = ?")
            .bind(name)
            .bind(org)
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("rename an org"))
    }

    /// Lists the members of an org by the time they joined.
    pub async fn members(&self, org: &str) -> Result<Vec<MemberRow>, StoreError> {
        let sql = "SELECT user_id, email, name, role, joined_at FROM org_member
                   JOIN user_account ON user_account.id = org_member.user_id WHERE org = ? ORDER BY joined_at, user_id";
        let rows = query(sql).bind(org).fetch_all(&self.database).await.map_err(failed("list members"))?;
        rows.iter().map(read_member).collect()
    }

    /// Returns the workspace of an org.
    pub async fn workspace_of_org(&self, org: &str) -> Result<Option<WorkspaceId>, StoreError> {
        let found: Option<String> = query_scalar("SELECT workspace FROM org WHERE id = ?")
            .bind(org)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find an org's workspace"))?;
        Ok(found.map(WorkspaceId))
    }

    /// Finds the owner of a workspace that joined first and may log in.
    pub async fn first_owner(&self, workspace: &WorkspaceId) -> Result<Option<UserRow>, StoreError> {
        let sql = "SELECT org_member.user_id FROM org_member JOIN org ON org.id = org_member.org
                   JOIN user_account ON user_account.id = org_member.user_id
                   WHERE org.workspace = ? AND org.deleting_at IS NULL AND role = 'owner' AND NOT disabled
                   ORDER BY joined_at, org_member.user_id LIMIT 1";
        let id: Option<String> = query_scalar(sql)
            .bind(&workspace.0)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find the first owner"))?;
        match id {
            Some(id) => self.user(&id).await,
            None => Ok(None),
        }
    }

    /// Returns the name of a workspace's org, and the e-mail addresses of its owners and admins, up
    /// to a number. `None` if the workspace has no org.
    pub async fn managers(
        &self,
        workspace: &WorkspaceId,
        limit: u64,
    ) -> Result<Option<(String, Vec<String>)>, StoreError> {
        let sql = "SELECT name FROM org WHERE workspace = ? AND deleting_at IS NULL";
        let name: Option<String> = query_scalar(sql)
            .bind(&workspace.0)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a workspace's org"))?;
        let Some(name) = name else { return Ok(None) };
        let sql = "SELECT DISTINCT user_account.email FROM org_member
                   JOIN org ON org.id = org_member.org
                   JOIN user_account ON user_account.id = org_member.user_id
                   WHERE org.workspace = ? AND role IN ('owner', 'admin') AND NOT disabled AND user_account.email <> ''
                   ORDER BY user_account.email LIMIT ?";
        let emails = query_scalar(sql)
            .bind(&workspace.0)
            .bind(to_sql(limit))
            .fetch_all(&self.database)
            .await
            .map_err(failed("list the owners and admins of a workspace"))?;
        Ok(Some((name, emails)))
    }

    /// Changes a member on behalf of another one. Everybody may leave.
    pub async fn change_member(
        &self,
        org: &str,
        (actor, member): (&str, &str),
        change: MemberChange,
        now_ns: u64,
    ) -> Result<MemberChanged, StoreError> {
        let lock = WriteLock::on("org", org);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin a change of members"))?;
        let (Some(by), Some(from)) = (role(&mut tx, org, actor).await?, role(&mut tx, org, member).await?) else {
            return Ok(MemberChanged::Missing);
        };
        let is_leaving = actor == member && change == MemberChange::Remove;
        let to = match change {
            MemberChange::Remove => None,
            MemberChange::Role(role) => Some(role),
        };
        if !is_leaving && !by.may_change(from, to) {
            return Ok(MemberChanged::Forbidden);
        }
        if from == Role::Owner && to != Some(Role::Owner) && owners(&mut tx, org).await? < 2 {
            return Ok(MemberChanged::LastOwner);
        }
        match to {
            Some(role) => set_role(&mut tx, org, member, role).await?,
            None => remove(&mut tx, org, member).await?,
        }
        self.announce(&mut tx, &[Revoked::User(member.to_owned())], now_ns).await?;
        tx.commit().await.map_err(failed("commit a change of members"))?;
        Ok(MemberChanged::Yes)
    }

    /// Makes another member an owner and the present owner an admin, in one step.
    pub async fn transfer_org(
        &self,
        org: &str,
        (owner, heir): (&str, &str),
        now_ns: u64,
    ) -> Result<MemberChanged, StoreError> {
        let lock = WriteLock::on("org", org);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin a transfer"))?;
        if role(&mut tx, org, owner).await? != Some(Role::Owner) {
            return Ok(MemberChanged::Forbidden);
        }
        if role(&mut tx, org, heir).await?.is_none() || owner == heir {
            return Ok(MemberChanged::Missing);
        }
        set_role(&mut tx, org, heir, Role::Owner).await?;
        set_role(&mut tx, org, owner, Role::Admin).await?;
        let changed = [Revoked::User(owner.to_owned()), Revoked::CachedUser(heir.to_owned())];
        self.announce(&mut tx, &changed, now_ns).await?;
        tx.commit().await.map_err(failed("commit a transfer"))?;
        Ok(MemberChanged::Yes)
    }

    /// Returns the org that a user last chose, if the user is still a member.
    pub async fn current_org(&self, user: &str) -> Result<Option<OrgRow>, StoreError> {
        let sql = format!(
            "{ORG} JOIN user_current_org ON user_current_org.org = org.id AND user_current_org.user_id = mine.user_id
             WHERE mine.user_id = ? AND org.deleting_at IS NULL"
        );
        let row =
            query_built(sql).bind(user).fetch_optional(&self.database).await.map_err(failed("find the current org"))?;
        row.as_ref().map(read).transpose()
    }

    /// Returns the org that a user acts in without naming one: the one last chosen, else the one of
    /// the oldest membership.
    pub async fn default_org(&self, user: &str) -> Result<Option<OrgRow>, StoreError> {
        match self.current_org(user).await? {
            Some(current) => Ok(Some(current)),
            None => Ok(self.orgs_of(user).await?.into_iter().next()),
        }
    }

    /// Records the org that a user chose. Returns false if the user is no member of it.
    pub async fn set_current_org(&self, user: &str, org: &str, now_ns: u64) -> Result<bool, StoreError> {
        let lock = WriteLock::on("user", user);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin a choice"))?;
        let sql = "INSERT INTO user_current_org (user_id, org)
                   SELECT org_member.user_id, org_member.org FROM org_member JOIN org ON org.id = org_member.org
                   WHERE org_member.user_id = ? AND org_member.org = ? AND org.deleting_at IS NULL
                   ON CONFLICT (user_id) DO UPDATE SET org = excluded.org";
        let set = query(sql).bind(user).bind(org).execute(&mut tx).await.map_err(failed("choose an org"))?;
        self.announce(&mut tx, &[Revoked::CachedUser(user.to_owned())], now_ns).await?;
        tx.commit().await.map_err(failed("commit a choice"))?;
        Ok(set > 0)
    }

    /// Hides an org on behalf of an owner, revokes its keys and ends its members' requests. What it
    /// owns is removed later.
    pub async fn begin_org_removal(
        &self,
        (org, owner): (&str, &str),
        now_ns: u64,
    ) -> Result<Option<Vec<Revoked>>, StoreError> {
        let lock = WriteLock::on("org", org);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin to remove an org"))?;
        if role(&mut tx, org, owner).await? != Some(Role::Owner) {
            return Ok(None);
        }
        query("UPDATE org SET deleting_at = ? WHERE id = ? AND deleting_at IS NULL")
            .bind(to_sql(now_ns))
            .bind(org)
            .execute(&mut tx)
            .await
            .map_err(failed("hide an org"))?;
        let keys = "UPDATE api_key SET revoked_at = ? WHERE revoked_at IS NULL
                    AND workspace = (SELECT workspace FROM org WHERE id = ?) RETURNING hash";
        let keys: Vec<String> = query_scalar(keys)
            .bind(to_sql(now_ns))
            .bind(org)
            .fetch_all(&mut tx)
            .await
            .map_err(failed("revoke the keys of an org"))?;
        let members: Vec<String> = query_scalar("SELECT user_id FROM org_member WHERE org = ?")
            .bind(org)
            .fetch_all(&mut tx)
            .await
            .map_err(failed("list members"))?;
        let revoked: Vec<_> =
            keys.into_iter().map(Revoked::Token).chain(members.into_iter().map(Revoked::User)).collect();
        self.announce(&mut tx, &revoked, now_ns).await?;
        tx.commit().await.map_err(failed("commit the removal of an org"))?;
        Ok(Some(revoked))
    }

    /// Lists the orgs whose removal is not finished, with their workspaces.
    pub async fn orgs_being_removed(&self) -> Result<Vec<(String, WorkspaceId)>, StoreError> {
        let sql = "SELECT id, workspace FROM org WHERE deleting_at IS NOT NULL ORDER BY deleting_at";
        let rows: Vec<(String, String)> =
            query_as(sql).fetch_all(&self.database).await.map_err(failed("list removed orgs"))?;
        Ok(rows.into_iter().map(|(org, workspace)| (org, WorkspaceId(workspace))).collect())
    }

    /// Removes the rows of an org that owns nothing any more. The workspace stays, so that its slug
    /// never leads to the audit trail of somebody else.
    pub async fn finish_org_removal(&self, org: &str) -> Result<(), StoreError> {
        query("DELETE FROM org WHERE id = ? AND deleting_at IS NOT NULL")
            .bind(org)
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("remove an org"))
    }
}

/// Whether an org may take over a workspace that exists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Yes,
    No,
}

/// Adds the rows of an org. Returns false if its slug is in use.
async fn insert(tx: &mut Transaction, org: &NewOrg<'_>, reuse: Reuse) -> Result<bool, StoreError> {
    let workspace = "INSERT INTO workspace (id, created_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING";
    let made = query(workspace)
        .bind(&org.workspace.0)
        .bind(to_sql(org.created_at_ns))
        .execute(&mut *tx)
        .await
        .map_err(failed("make a workspace"))?;
    // A workspace that exists may hold the things of somebody else.
    if made == 0 && reuse == Reuse::No {
        return Ok(false);
    }
    query("INSERT INTO org (id, workspace, name, created_at) VALUES (?, ?, ?, ?)")
        .bind(org.id)
        .bind(&org.workspace.0)
        .bind(org.name)
        .bind(to_sql(org.created_at_ns))
        .execute(&mut *tx)
        .await
        .map_err(failed("add an org"))?;
    add_member(tx, (org.id, org.owner), Role::Owner, org.created_at_ns).await?;
    let sql = "INSERT INTO user_current_org (user_id, org) VALUES (?1, ?2)
               ON CONFLICT (user_id) DO UPDATE SET org = ?2";
    query(sql).bind(org.owner).bind(org.id).execute(tx).await.map_err(failed("choose an org"))?;
    Ok(true)
}

/// Adds a member, or gives a present one the role.
pub(super) async fn add_member(
    tx: &mut Transaction,
    (org, user): (&str, &str),
    role: Role,
    now_ns: u64,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO org_member (org, user_id, role, joined_at) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT (org, user_id) DO UPDATE SET role = ?3";
    query(sql)
        .bind(org)
        .bind(user)
        .bind(role.as_str())
        .bind(to_sql(now_ns))
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("add a member"))
}

/// Returns the role of a member.
pub(super) async fn role(tx: &mut Transaction, org: &str, user: &str) -> Result<Option<Role>, StoreError> {
    let found: Option<String> = query_scalar("SELECT role FROM org_member WHERE org = ? AND user_id = ?")
        .bind(org)
        .bind(user)
        .fetch_optional(tx)
        .await
        .map_err(failed("find a member"))?;
    found.map(|text| parse_role(org, &text)).transpose()
}

async fn owners(tx: &mut Transaction, org: &str) -> Result<i64, StoreError> {
    query_scalar("SELECT COUNT(*) FROM org_member WHERE org = ? AND role = 'owner'")
        .bind(org)
        .fetch_one(tx)
        .await
        .map_err(failed("count owners"))
}

async fn set_role(tx: &mut Transaction, org: &str, user: &str, role: Role) -> Result<(), StoreError> {
    query("UPDATE org_member SET role = ? WHERE org = ? AND user_id = ?")
        .bind(role.as_str())
        .bind(org)
        .bind(user)
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("change a role"))
}

async fn remove(tx: &mut Transaction, org: &str, user: &str) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM org_member WHERE org = ? AND user_id = ?",
        "DELETE FROM user_current_org WHERE org = ? AND user_id = ?",
    ] {
        query(sql).bind(org).bind(user).execute(&mut *tx).await.map_err(failed("remove a member"))?;
    }
    Ok(())
}

pub(super) fn parse_role(id: &str, text: &str) -> Result<Role, StoreError> {
    text.parse().map_err(|_| StoreError::Corrupt { id: id.to_owned(), field: "role" })
}

fn read(row: &DatabaseRow) -> Result<OrgRow, StoreError> {
    let text = |name| column::<String>(row, name);
    let id = text("id")?;
    Ok(OrgRow {
        role: parse_role(&id, &text("role")?)?,
        workspace: WorkspaceId(text("workspace")?),
        name: text("name")?,
        owner: column::<Option<String>>(row, "owner")?.unwrap_or_default(),
        members: column(row, "members").map(from_sql)?,
        created_at_ns: column(row, "created_at").map(from_sql)?,
        id,
    })
}

fn read_member(row: &DatabaseRow) -> Result<MemberRow, StoreError> {
    let text = |name| column::<String>(row, name);
    let user_id = text("user_id")?;
    Ok(MemberRow {
        role: parse_role(&user_id, &text("role")?)?,
        email: text("email")?,
        name: text("name")?,
        joined_at_ns: column(row, "joined_at").map(from_sql)?,
        user_id,
    })
}
