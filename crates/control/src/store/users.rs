//! Users, their sessions and their reset links. Only hashes of tokens are stored.

use pandastack_database::{DatabaseRow, Transaction, WriteLock, query, query_scalar};
use pandastack_kit::Secret;

use super::{Revoked, Store, StoreError, failed, from_sql, intent::column, to_sql};

/// The fixed user of development without authentication. It does not count as an account: the
/// server can still be set up.
pub const STUB_USER: &str = "00000000-0000-0000-0000-000000000001";

/// A user as it is stored.
#[derive(Clone)]
pub struct UserRow {
    pub id: String,
    /// In lower case. Empty if it is not known.
    pub email: String,
    pub name: String,
    /// An argon2id string.
    pub password: Option<Secret<String>>,
    /// May administer the server.
    pub operator: bool,
    pub disabled: bool,
    pub created_at_ns: u64,
    pub last_login_at_ns: Option<u64>,
}

impl UserRow {
    /// An account without a name and a password.
    pub fn new(created_at_ns: u64) -> Self {
        Self {
            id: String::new(),
            email: String::new(),
            name: String::new(),
            password: None,
            operator: false,
            disabled: false,
            created_at_ns,
            last_login_at_ns: None,
        }
    }
}

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    pub hash: String,
    pub user_id: String,
    pub created_at_ns: u64,
    pub expires_at_ns: u64,
    pub last_used_at_ns: u64,
    pub address: String,
    pub agent: String,
}

/// Whom a provider knows a user as.
#[derive(Clone, Copy, Debug)]
pub struct ProviderIdentity<'a> {
    pub issuer: &'a str,
    pub subject: &'a str,
    pub link: AccountLink,
}

/// Whether a provider's user may be the operator that has the same e-mail address and a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountLink {
    /// The provider has verified the address, and the operator trusts the provider.
    ByEmail,
    Never,
}

/// Whether a user was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserAdded {
    Yes,
    /// Another user signs in with this e-mail address.
    Taken,
    /// The user would have been the first one, but there are users already.
    NotFirst,
}

/// Which users may be there already when one is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserOrder {
    First,
    Any,
}

impl Store {
    /// Returns whether there are no users yet.
    pub async fn has_no_users(&self) -> Result<bool, StoreError> {
        let any: i64 = query_scalar("SELECT COUNT(*) FROM (SELECT 1 FROM user_account WHERE id <> ? LIMIT 1) AS first")
            .bind(STUB_USER)
            .fetch_one(&self.database)
            .await
            .map_err(failed("look for users"))?;
        Ok(any == 0)
    }

    /// Adds a user.
    pub async fn add_user(&self, user: &UserRow, order: UserOrder) -> Result<UserAdded, StoreError> {
        let lock = WriteLock::on_all("user");
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin a user"))?;
        if order == UserOrder::First {
            let count: i64 = query_scalar("SELECT COUNT(*) FROM user_account WHERE id <> ?")
                .bind(STUB_USER)
                .fetch_one(&mut tx)
                .await
                .map_err(failed("count users"))?;
            if count > 0 {
                return Ok(UserAdded::NotFirst);
            }
        }
        match insert(&mut tx, user).await {
            Err(StoreError::Query { cause, .. }) if cause.is_duplicate() => return Ok(UserAdded::Taken),
            added => added?,
        }
        tx.commit().await.map_err(failed("commit a user"))?;
        Ok(UserAdded::Yes)
    }

    /// Finds a user.
    pub async fn user(&self, id: &str) -> Result<Option<UserRow>, StoreError> {
        let row = query("SELECT * FROM user_account WHERE id = ?")
            .bind(id)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a user"))?;
        row.as_ref().map(read).transpose()
    }

    /// Finds the user that signs in with an e-mail address and a password.
    pub async fn user_with_password(&self, email: &str) -> Result<Option<UserRow>, StoreError> {
        let row = query("SELECT * FROM user_account WHERE email = ? AND password IS NOT NULL")
            .bind(email)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a user by e-mail"))?;
        row.as_ref().map(read).transpose()
    }

    /// Lists users by e-mail address.
    pub async fn list_users(&self, limit: u64) -> Result<Vec<UserRow>, StoreError> {
        let rows = query("SELECT * FROM user_account ORDER BY email, id LIMIT ?")
            .bind(to_sql(limit))
            .fetch_all(&self.database)
            .await
            .map_err(failed("list users"))?;
        rows.iter().map(read).collect()
    }

    /// Finds the user of a provider's subject, and adds it if there is none. `fresh` is the user as
    /// the provider describes it; a changed e-mail address or name is taken over. `None` if another
    /// user has its id.
    pub async fn provider_user(
        &self,
        identity: ProviderIdentity<'_>,
        fresh: &UserRow,
    ) -> Result<Option<UserRow>, StoreError> {
        let known = "SELECT user_account.* FROM user_account
                     JOIN user_identity ON user_identity.user_id = user_account.id WHERE issuer = ? AND subject = ?";
        let found = query(known)
            .bind(identity.issuer)
            .bind(identity.subject)
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a provider's user"))?;
        // Every request of such a user comes here, so a known one costs only this read.
        if let Some(user) = found.as_ref().map(read).transpose()?
            && is_current(&user, fresh)
        {
            return Ok(Some(user));
        }
        let lock = format!("{} {}", identity.issuer, identity.subject);
        let lock = WriteLock::on("identity", &lock);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin a provider's user"))?;
        let found = query(known)
            .bind(identity.issuer)
            .bind(identity.subject)
            .fetch_optional(&mut tx)
            .await
            .map_err(failed("find a provider's user"))?;
        let user = match found.as_ref().map(read).transpose()? {
            Some(user) => refresh(&mut tx, user, fresh).await?,
            None => match adopt(&mut tx, identity, fresh).await {
                Err(StoreError::Query { cause, .. }) if cause.is_duplicate() => return Ok(None),
                added => added?,
            },
        };
        tx.commit().await.map_err(failed("commit a provider's user"))?;
        Ok(Some(user))
    }

    /// Changes a password, and ends every session and reset link of the user.
    pub async fn set_password(
        &self,
        user: &str,
        password: &Secret<String>,
        now_ns: u64,
    ) -> Result<Vec<Revoked>, StoreError> {
        let mut tx =
            self.database.begin_write(WriteLock::on("user", user)).await.map_err(failed("begin a password"))?;
        query("UPDATE user_account SET password = ? WHERE id = ?")
            .bind(password.reveal())
            .bind(user)
            .execute(&mut tx)
            .await
            .map_err(failed("change a password"))?;
        query("DELETE FROM password_reset WHERE user_id = ?")
            .bind(user)
            .execute(&mut tx)
            .await
            .map_err(failed("end reset links"))?;
        let ended: Vec<String> = query_scalar("DELETE FROM user_session WHERE user_id = ? RETURNING hash")
            .bind(user)
            .fetch_all(&mut tx)
            .await
            .map_err(failed("end sessions"))?;
        let ended: Vec<_> = ended.into_iter().map(Revoked::Token).collect();
        self.announce(&mut tx, &ended, now_ns).await?;
        tx.commit().await.map_err(failed("commit a password"))?;
        Ok(ended)
    }

    /// Replaces the stored form of the same password, after its cost settings have changed.
    pub async fn rehash_password(&self, user: &str, password: &Secret<String>) -> Result<(), StoreError> {
        query("UPDATE user_account SET password = ? WHERE id = ? AND password IS NOT NULL")
            .bind(password.reveal())
            .bind(user)
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("hash a password again"))
    }

    /// Adds a session. Past a number the user's oldest ones end, and are returned.
    pub async fn add_session(&self, session: &SessionRow, sessions_max: u64) -> Result<Vec<Revoked>, StoreError> {
        let lock = WriteLock::on("user", &session.user_id);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin a session"))?;
        let sql = "INSERT INTO user_session (hash, user_id, created_at, expires_at, last_used_at, address, agent)
                   VALUES (?, ?, ?, ?, ?, ?, ?)";
        query(sql)
            .bind(&session.hash)
            .bind(&session.user_id)
            .bind(to_sql(session.created_at_ns))
            .bind(to_sql(session.expires_at_ns))
            .bind(to_sql(session.last_used_at_ns))
            .bind(&session.address)
            .bind(&session.agent)
            .execute(&mut tx)
            .await
            .map_err(failed("record a session"))?;
        query("UPDATE user_account SET last_login_at = ? WHERE id = ?")
            .bind(to_sql(session.created_at_ns))
            .bind(&session.user_id)
            .execute(&mut tx)
            .await
            .map_err(failed("record the time of a session"))?;
        let old = "DELETE FROM user_session WHERE hash IN (SELECT hash FROM user_session WHERE user_id = ?
                   ORDER BY created_at DESC, hash LIMIT 1000000000 OFFSET ?) RETURNING hash";
        let ended: Vec<String> = query_scalar(old)
            .bind(&session.user_id)
            .bind(to_sql(sessions_max))
            .fetch_all(&mut tx)
            .await
            .map_err(failed("end the oldest sessions"))?;
        let ended: Vec<_> = ended.into_iter().map(Revoked::Token).collect();
        self.announce(&mut tx, &ended, session.created_at_ns).await?;
        tx.commit().await.map_err(failed("commit a session"))?;
        Ok(ended)
    }

    /// Finds a session that has not expired, and its user.
    pub async fn session(&self, hash: &str, now_ns: u64) -> Result<Option<(SessionRow, UserRow)>, StoreError> {
        let sql = "SELECT user_account.*, hash, user_id, user_session.created_at AS session_created_at, expires_at,
                       last_used_at, address, agent FROM user_session
                   JOIN user_account ON user_account.id = user_session.user_id
                   WHERE hash = ? AND expires_at > ?";
        let row = query(sql)
            .bind(hash)
            .bind(to_sql(now_ns))
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a session"))?;
        row.as_ref().map(|row| Ok((read_session(row, "session_created_at")?, read(row)?))).transpose()
    }

    /// Lists a user's sessions, newest first.
    pub async fn list_sessions(&self, user: &str, now_ns: u64) -> Result<Vec<SessionRow>, StoreError> {
        let sql = "SELECT * FROM user_session WHERE user_id = ? AND expires_at > ? ORDER BY created_at DESC, hash";
        let rows = query(sql)
            .bind(user)
            .bind(to_sql(now_ns))
            .fetch_all(&self.database)
            .await
            .map_err(failed("list sessions"))?;
        rows.iter().map(|row| read_session(row, "created_at")).collect()
    }

    /// Records the use of a session.
    pub async fn touch_session(&self, hash: &str, now_ns: u64) -> Result<(), StoreError> {
        query("UPDATE user_session SET last_used_at = ? WHERE hash = ?")
            .bind(to_sql(now_ns))
            .bind(hash)
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record the use of a session"))
    }

    /// Ends one session of a user, by the start of its hash. Returns what ended.
    pub async fn end_session(&self, user: &str, hash: &str, now_ns: u64) -> Result<Vec<Revoked>, StoreError> {
        let lock = WriteLock::on("user", user);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin to end a session"))?;
        let sql =
            "DELETE FROM user_session WHERE user_id = ? AND substr(hash, 1, CAST(? AS INTEGER)) = ? RETURNING hash";
        let ended: Vec<String> = query_scalar(sql)
            .bind(user)
            .bind(i64::try_from(hash.len()).unwrap_or(i64::MAX))
            .bind(hash)
            .fetch_all(&mut tx)
            .await
            .map_err(failed("end a session"))?;
        let ended: Vec<_> = ended.into_iter().map(Revoked::Token).collect();
        self.announce(&mut tx, &ended, now_ns).await?;
        tx.commit().await.map_err(failed("commit the end of a session"))?;
        Ok(ended)
    }

    /// Allows or forbids a user to use the server. Returns false if there is no such user.
    pub async fn set_disabled(&self, user: &str, disabled: bool, now_ns: u64) -> Result<bool, StoreError> {
        let lock = WriteLock::on("user", user);
        let mut tx = self.database.begin_write(lock).await.map_err(failed("begin to change a user"))?;
        let changed = query("UPDATE user_account SET disabled = ? WHERE id = ?")
            .bind(disabled)
            .bind(user)
            .execute(&mut tx)
            .await
            .map_err(failed("change a user"))?;
        self.announce(&mut tx, &[Revoked::User(user.to_owned())], now_ns).await?;
        tx.commit().await.map_err(failed("commit a change of a user"))?;
        Ok(changed > 0)
    }

    /// Removes expired sessions and reset links.
    pub(super) async fn prune_sessions(&self, now_ns: u64) -> Result<(), StoreError> {
        for sql in
            ["DELETE FROM user_session WHERE expires_at <= ?", "DELETE FROM password_reset WHERE expires_at <= ?"]
        {
            query(sql).bind(to_sql(now_ns)).execute(&self.database).await.map_err(failed("remove old sessions"))?;
        }
        Ok(())
    }

    /// Records a reset link. Earlier ones of the user end.
    pub async fn add_reset(
        &self,
        (hash, user): (&str, &str),
        now_ns: u64,
        expires_at_ns: u64,
    ) -> Result<(), StoreError> {
        let mut tx =
            self.database.begin_write(WriteLock::on("user", user)).await.map_err(failed("begin a reset link"))?;
        query("DELETE FROM password_reset WHERE user_id = ?")
            .bind(user)
            .execute(&mut tx)
            .await
            .map_err(failed("end reset links"))?;
        query("INSERT INTO password_reset (hash, user_id, created_at, expires_at) VALUES (?, ?, ?, ?)")
            .bind(hash)
            .bind(user)
            .bind(to_sql(now_ns))
            .bind(to_sql(expires_at_ns))
            .execute(&mut tx)
            .await
            .map_err(failed("record a reset link"))?;
        tx.commit().await.map_err(failed("commit a reset link"))
    }

    /// Finds the user of a reset link.
    pub async fn reset_user(&self, hash: &str, now_ns: u64) -> Result<Option<UserRow>, StoreError> {
        let sql = "SELECT user_account.* FROM user_account
                   JOIN password_reset ON password_reset.user_id = user_account.id WHERE hash = ? AND expires_at > ?";
        let row = query(sql)
            .bind(hash)
            .bind(to_sql(now_ns))
            .fetch_optional(&self.database)
            .await
            .map_err(failed("find a reset link"))?;
        row.as_ref().map(read).transpose()
    }

    /// Uses up a reset link, and returns its user. `None` if it was used or has expired.
    pub async fn take_reset(&self, hash: &str, now_ns: u64) -> Result<Option<String>, StoreError> {
        query_scalar("DELETE FROM password_reset WHERE hash = ? AND expires_at > ? RETURNING user_id")
            .bind(hash)
            .bind(to_sql(now_ns))
            .fetch_optional(&self.database)
            .await
            .map_err(failed("use a reset link"))
    }
}

async fn insert(tx: &mut Transaction, user: &UserRow) -> Result<(), StoreError> {
    let sql = "INSERT INTO user_account (id, email, name, password, operator, disabled, created_at)
               VALUES (?, ?, ?, ?, ?, ?, ?)";
    query(sql)
        .bind(&user.id)
        .bind(&user.email)
        .bind(&user.name)
        .bind(user.password.as_ref().map(|password| password.reveal().as_str()))
        .bind(user.operator)
        .bind(user.disabled)
        .bind(to_sql(user.created_at_ns))
        .execute(tx)
        .await
        .map(drop)
        .map_err(failed("add a user"))
}

/// Adds a provider's user, or lets an existing one log in through the provider.
async fn adopt(tx: &mut Transaction, identity: ProviderIdentity<'_>, fresh: &UserRow) -> Result<UserRow, StoreError> {
    let linked = if identity.link == AccountLink::ByEmail && !fresh.email.is_empty() {
        // Only the operator's own account: whoever has an invite's link can register its address.
        let row = query("SELECT * FROM user_account WHERE email = ? AND password IS NOT NULL AND operator")
            .bind(&fresh.email)
            .fetch_optional(&mut *tx)
            .await
            .map_err(failed("find a user by e-mail"))?;
        row.as_ref().map(read).transpose()?
    } else {
        None
    };
    let user = match linked {
        Some(user) => user,
        None => {
            insert(tx, fresh).await?;
            fresh.clone()
        }
    };
    query("INSERT INTO user_identity (issuer, subject, user_id, created_at) VALUES (?, ?, ?, ?)")
        .bind(identity.issuer)
        .bind(identity.subject)
        .bind(&user.id)
        .bind(to_sql(fresh.created_at_ns))
        .execute(tx)
        .await
        .map_err(failed("record a provider's user"))?;
    Ok(user)
}

/// Tells whether a provider's description of a user says nothing new. A user with a password chose
/// its own address, which the provider does not change.
fn is_current(user: &UserRow, fresh: &UserRow) -> bool {
    user.password.is_some() || user.email == fresh.email && (user.name == fresh.name || fresh.name.is_empty())
}

/// Takes over what the provider says now.
async fn refresh(tx: &mut Transaction, user: UserRow, fresh: &UserRow) -> Result<UserRow, StoreError> {
    if is_current(&user, fresh) {
        return Ok(user);
    }
    let name = if fresh.name.is_empty() { user.name.clone() } else { fresh.name.clone() };
    query("UPDATE user_account SET email = ?, name = ? WHERE id = ?")
        .bind(&fresh.email)
        .bind(&name)
        .bind(&user.id)
        .execute(tx)
        .await
        .map_err(failed("change a provider's user"))?;
    Ok(UserRow { email: fresh.email.clone(), name, ..user })
}

fn read(row: &DatabaseRow) -> Result<UserRow, StoreError> {
    let text = |name| column::<String>(row, name);
    let password: Option<String> = column(row, "password")?;
    Ok(UserRow {
        id: text("id")?,
        email: text("email")?,
        name: text("name")?,
        password: password.map(Secret::new),
        operator: column(row, "operator")?,
        disabled: column(row, "disabled")?,
        created_at_ns: column(row, "created_at").map(from_sql)?,
        last_login_at_ns: column::<Option<i64>>(row, "last_login_at")?.map(from_sql),
    })
}

fn read_session(row: &DatabaseRow, created_at: &'static str) -> Result<SessionRow, StoreError> {
    let text = |name| column::<String>(row, name);
    let number = |name| column::<i64>(row, name).map(from_sql);
    Ok(SessionRow {
        hash: text("hash")?,
        user_id: text("user_id")?,
        created_at_ns: number(created_at)?,
        expires_at_ns: number("expires_at")?,
        last_used_at_ns: number("last_used_at")?,
        address: text("address")?,
        agent: text("agent")?,
    })
}
