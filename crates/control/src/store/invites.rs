//! Invites to orgs: for one e-mail address, used once, for a limited time.

use pandastack_database::{DatabaseRow, WriteLock, query, query_scalar};
use pandastack_model::Role;

use super::{
    Revoked, Store, StoreError, failed, from_sql,
    intent::column,
    orgs::{add_member, parse_role, role},
    to_sql,
};

/// An invite as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InviteRow {
    pub id: String,
    pub org: String,
    pub email: String,
    pub role: Role,
    pub invited_by: String,
    pub created_at_ns: u64,
    pub expires_at_ns: u64,
    pub used: bool,
}

/// Whether an invite was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InviteAdded {
    Yes,
    /// The inviting user's role does not allow it.
    Forbidden,
    /// The org has too many open invites.
    Full,
}

/// The result of accepting an invite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InviteAccepted {
    Yes {
        org: String,
        role: Role,
    },
    Missing,
    /// It was used before, or has expired.
    Over,
    /// It is for another e-mail address.
    OtherEmail,
}

impl Store {
    /// Adds an invite on behalf of a member.
    pub async fn add_invite(&self, hash: &str, invite: &InviteRow, open_max: u64) -> Result<InviteAdded, StoreError> {
        let lock = WriteLock::on("org", &invite.org);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin an invite"))?;
        let by = role(&mut tx, &invite.org, &invite.invited_by).await?;
        if !by.is_some_and(|by| by.may_invite(invite.role)) {
            return Ok(InviteAdded::Forbidden);
        }
        let open: i64 =
            query_scalar("SELECT COUNT(*) FROM org_invite WHERE org = ? AND used_at IS NULL AND expires_at > ?")
                .bind(&invite.org)
                .bind(to_sql(invite.created_at_ns))
                .fetch_one(&mut tx)
                .await
                .map_err(failed("count invites"))?;
        if from_sql(open) >= open_max {
            return Ok(InviteAdded::Full);
        }
        let sql = "INSERT INTO org_invite (hash, id, org, email, role, invited_by, created_at, expires_at)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        query(sql)
            .bind(hash)
            .bind(&invite.id)
            .bind(&invite.org)
            .bind(&invite.email)
            .bind(invite.role.as_str())
            .bind(&invite.invited_by)
            .bind(to_sql(invite.created_at_ns))
            .bind(to_sql(invite.expires_at_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("add an invite"))?;
        tx.commit().await.map_err(failed("commit an invite"))?;
        Ok(InviteAdded::Yes)
    }

    /// Finds an invite by its token, with the name of its org.
    pub async fn invite(&self, hash: &str) -> Result<Option<(InviteRow, String)>, StoreError> {
        let sql = "SELECT org_invite.*, org.name AS org_name FROM org_invite JOIN org ON org.id = org_invite.org
                   WHERE hash = ? AND org.deleting_at IS NULL";
        let row = query(sql).bind(hash).fetch_optional(&self.database).await.map_err(failed("find an invite"))?;
        row.as_ref().map(|row| Ok((read(row)?, column(row, "org_name")?))).transpose()
    }

    /// Lists the open invites of an org, newest first.
    pub async fn open_invites(&self, org: &str, now_ns: u64) -> Result<Vec<InviteRow>, StoreError> {
        let sql = "SELECT * FROM org_invite WHERE org = ? AND used_at IS NULL AND expires_at > ?
                   ORDER BY created_at DESC, id";
        let rows = query(sql)
            .bind(org)
            .bind(to_sql(now_ns))
            .fetch_all(&self.database)
            .await
            .map_err(failed("list invites"))?;
        rows.iter().map(read).collect()
    }

    /// Withdraws an open invite. Returns false if there is none.
    pub async fn withdraw_invite(&self, org: &str, id: &str) -> Result<bool, StoreError> {
        let done = query("DELETE FROM org_invite WHERE org = ? AND id = ? AND used_at IS NULL")
            .bind(org)
            .bind(id)
            .execute(&self.database)
            .await;
        done.map(|count| count > 0).map_err(failed("withdraw an invite"))
    }

    /// Makes a user a member by an invite. `email` is `None` if the user's address is not known,
    /// and is then not compared.
    pub async fn accept_invite(
        &self,
        hash: &str,
        (user, email): (&str, Option<&str>),
        now_ns: u64,
    ) -> Result<InviteAccepted, StoreError> {
        let mut tx =
            self.database.begin_write(WriteLock::on("invite", hash)).await.map_err(failed("begin to accept"))?;
        let sql = "SELECT org_invite.*, org.deleting_at FROM org_invite JOIN org ON org.id = org_invite.org
                   WHERE hash = ?";
        let row = query(sql).bind(hash).fetch_optional(&mut tx).await.map_err(failed("find an invite"))?;
        let Some(row) = row else { return Ok(InviteAccepted::Missing) };
        let invite = read(&row)?;
        let is_gone = column::<Option<i64>>(&row, "deleting_at")?.is_some();
        if invite.used || is_gone || invite.expires_at_ns <= now_ns {
            return Ok(InviteAccepted::Over);
        }
        if email.is_some_and(|email| email != invite.email) {
            return Ok(InviteAccepted::OtherEmail);
        }
        query("UPDATE org_invite SET used_at = ?, used_by = ? WHERE hash = ?")
            .bind(to_sql(now_ns))
            .bind(user)
            .bind(hash)
            .execute(&mut tx)
            .await
            .map_err(failed("use an invite"))?;
        // An invite never takes a role away.
        let role = role(&mut tx, &invite.org, user).await?.map_or(invite.role, |held| held.max(invite.role));
        add_member(&mut tx, (&invite.org, user), role, now_ns).await?;
        self.announce(&mut tx, &[Revoked::CachedUser(user.to_owned())], now_ns).await?;
        tx.commit().await.map_err(failed("commit an accepted invite"))?;
        Ok(InviteAccepted::Yes { org: invite.org, role })
    }
}

fn read(row: &DatabaseRow) -> Result<InviteRow, StoreError> {
    let text = |name| column::<String>(row, name);
    let id = text("id")?;
    Ok(InviteRow {
        org: text("org")?,
        email: text("email")?,
        role: parse_role(&id, &text("role")?)?,
        invited_by: text("invited_by")?,
        created_at_ns: column(row, "created_at").map(from_sql)?,
        expires_at_ns: column(row, "expires_at").map(from_sql)?,
        used: column::<Option<i64>>(row, "used_at")?.is_some(),
        id,
    })
}
