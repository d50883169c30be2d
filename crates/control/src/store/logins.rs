//! Logins at an identity provider: those that have begun, and the codes at their end.

use pandastack_database::{query, query_as};

use super::{Store, StoreError, failed, to_sql};

/// A login that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcLogin {
    pub state: String,
    /// What the identity room needs to finish it.
    pub pending: String,
    /// The hash of the cookie in the browser that began it.
    pub cookie: String,
    pub redirect: String,
    pub challenge: String,
}

/// A code at the end of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginCode {
    pub hash: String,
    pub user_id: String,
    pub challenge: String,
}

impl Store {
    /// Records a login that begins. Returns false if too many are open.
    pub async fn add_oidc_login(
        &self,
        login: &OidcLogin,
        expires_at_ns: u64,
        open_max: u64,
    ) -> Result<bool, StoreError> {
        let sql = "INSERT INTO oidc_login (state, pending, cookie, redirect, challenge, expires_at)
                   SELECT ?, ?, ?, ?, ?, ? WHERE (SELECT COUNT(*) FROM oidc_login) < ?";
        let added = query(sql)
            .bind(&login.state)
            .bind(&login.pending)
            .bind(&login.cookie)
            .bind(&login.redirect)
            .bind(&login.challenge)
            .bind(to_sql(expires_at_ns))
            .bind(to_sql(open_max))
            .execute(&self.database)
            .await
            .map_err(failed("record a login"))?;
        Ok(added > 0)
    }

    /// Takes a login that has begun, so that it can be finished only once.
    pub async fn take_oidc_login(&self, state: &str, now_ns: u64) -> Result<Option<OidcLogin>, StoreError> {
        let sql = "DELETE FROM oidc_login WHERE state = ? AND expires_at > ?
                   RETURNING state, pending, cookie, redirect, challenge";
        let row: Option<(String, String, String, String, String)> = query_as(sql)
            .bind(state)
            .bind(to_sql(now_ns))
            .fetch_optional(&self.database)
            .await
            .map_err(failed("take a login"))?;
        Ok(row.map(|(state, pending, cookie, redirect, challenge)| OidcLogin {
            state,
            pending,
            cookie,
            redirect,
            challenge,
        }))
    }

    /// Records a code.
    pub async fn add_login_code(&self, code: &LoginCode, expires_at_ns: u64) -> Result<(), StoreError> {
        query("INSERT INTO login_code (hash, user_id, challenge, expires_at) VALUES (?, ?, ?, ?)")
            .bind(&code.hash)
            .bind(&code.user_id)
            .bind(&code.challenge)
            .bind(to_sql(expires_at_ns))
            .execute(&self.database)
            .await
            .map(drop)
            .map_err(failed("record a login code"))
    }

    /// Takes a code, even if the caller turns out to be the wrong one: a code is tried only once.
    pub async fn take_login_code(&self, hash: &str, now_ns: u64) -> Result<Option<LoginCode>, StoreError> {
        let sql = "DELETE FROM login_code WHERE hash = ? AND expires_at > ? RETURNING user_id, challenge";
        let row: Option<(String, String)> = query_as(sql)
            .bind(hash)
            .bind(to_sql(now_ns))
            .fetch_optional(&self.database)
            .await
            .map_err(failed("take a login code"))?;
        Ok(row.map(|(user_id, challenge)| LoginCode { hash: hash.to_owned(), user_id, challenge }))
    }

    /// Removes expired logins and codes.
    pub(super) async fn prune_logins(&self, now_ns: u64) -> Result<(), StoreError> {
        for sql in ["DELETE FROM oidc_login WHERE expires_at <= ?", "DELETE FROM login_code WHERE expires_at <= ?"] {
            query(sql).bind(to_sql(now_ns)).execute(&self.database).await.map_err(failed("remove old logins"))?;
        }
        Ok(())
    }
}
