//! Turns a credential into a caller: an API key, the token of a session, or a token that an
//! identity provider signed. Keys and sessions are looked up by their SHA-256, never compared byte
//! by byte.

use std::sync::Arc;

use pandastack_door::{http::not_our_page, revoked_key};
use pandastack_identity::SessionToken;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{AuthMethod, Caller, CallerKey, CallerUser, Credential};
use sha2::{Digest, Sha256};

use super::{
    credentials::{CacheKey, CachedCaller},
    stub::{STUB_KEY, StubAccount},
};
use crate::{
    Control,
    limits::ORG_ID_BYTES_MAX,
    store::{AccountLink, OrgRow, ProviderIdentity, UserRow, key_id},
};

/// Prefix of every API key.
pub const KEY_PREFIX: &str = "pds_";
const KEY_HEX: usize = 32;
/// Prefix of every session's token.
const SESSION_PREFIX: &str = "pss_";

const NS_PER_SECOND: u64 = 1_000_000_000;

/// A credential that was found to be good, before it is cached.
struct Checked {
    caller: Caller,
    expires_at_ns: Option<u64>,
}

impl Control {
    /// Authenticates the sender of a credential.
    pub(crate) async fn caller(&self, credential: Credential<'_>) -> Result<Caller, Fault> {
        if let Some(account) = &self.sign_in.stub {
            match credential.token.filter(|token| token.starts_with(KEY_PREFIX)) {
                None => return self.stub_caller(account, credential).await,
                Some(STUB_KEY) => self.ensure_stub(account).await?,
                Some(_) => {}
            }
        }
        let Some(token) = credential.token else {
            if credential.forged {
                return Err(not_our_page());
            }
            return Err(unauthorized("missing bearer token: send Authorization: Bearer <API key>"));
        };
        let is_key_like = token.starts_with(KEY_PREFIX);
        if is_key_like && !is_key(token) && !(token == STUB_KEY && self.sign_in.stub.is_some()) {
            return Err(unauthorized("invalid api token: a key is pds_ followed by 32 lowercase hex digits"));
        }
        // A key belongs to one workspace; only persons choose.
        let org = credential.org.filter(|_| !is_key_like);
        if org.is_some_and(|org| org.len() > ORG_ID_BYTES_MAX) {
            return Err(not_a_member());
        }
        let (hash, now_ns) = (key_hash(token), self.clock.now_ns());
        let place = CacheKey { hash, org: org.map(str::to_owned) };
        if let Some(caller) = self.access.cache.get(&place, now_ns) {
            return Ok(caller);
        }
        let (key, revocations) = self.access.cache.watch(&place.hash, || key_id(&place.hash));
        let Checked { caller, expires_at_ns } = if is_key_like {
            self.check_key(&place.hash, key, now_ns).await?
        } else if token.starts_with(SESSION_PREFIX) {
            self.check_session(token, org, key, now_ns).await?
        } else {
            self.check_jwt(token, org, key, now_ns).await?
        };
        let caller = self.limited(caller).await?;
        let cached = CachedCaller { caller: caller.clone(), since_ns: now_ns, expires_at_ns };
        self.access.cache.put(place, cached, revocations);
        Ok(caller)
    }

    /// Authenticates nobody: the request is one of the fixed user of development.
    async fn stub_caller(&self, account: &StubAccount, credential: Credential<'_>) -> Result<Caller, Fault> {
        if credential.foreign {
            let text = "this server authenticates nobody (--auth-mode stub), so it answers only this machine: use \
                        http://localhost or send an API key";
            return Err(Fault::new(FaultKind::Forbidden, "auth.stub_foreign", text));
        }
        let user = self.stub_user(account, credential.stub_user).await?;
        let caller = self.person(user, credential.org, AuthMethod::Stub).await?;
        self.limited(caller).await
    }

    /// Adds the limits of the caller's workspace.
    async fn limited(&self, caller: Caller) -> Result<Caller, Fault> {
        let limits = self.limits_of(&caller.workspace).await?;
        let connections_max = limits.limits.connections_max.number();
        Ok(Caller { rate: limits.rate, connections_max, ..caller })
    }

    async fn check_key(&self, hash: &str, key: CallerKey, now_ns: u64) -> Result<Checked, Fault> {
        let known = self
            .store
            .key_by_hash(hash)
            .await?
            .ok_or_else(|| unauthorized("invalid api token: this server does not know the key"))?;
        if known.revoked {
            return Err(revoked_key());
        }
        if known.expires_at_ns.is_some_and(|end_ns| end_ns <= now_ns) {
            return Err(unauthorized("this API key has expired"));
        }
        let (store, hash) = (self.store.clone(), hash.to_owned());
        self.note_use(async move { store.touch_key(&hash, now_ns).await });
        Ok(Checked { caller: Caller::of(known.workspace).with_key(key), expires_at_ns: known.expires_at_ns })
    }

    async fn check_session(
        &self,
        token: &str,
        org: Option<&str>,
        key: CallerKey,
        now_ns: u64,
    ) -> Result<Checked, Fault> {
        let over = || unauthorized("this login has ended; log in again");
        let hash = SessionToken::parse(token).map_err(|_| over())?.hash().to_hex();
        let (session, user) = self.store.session(&hash, now_ns).await?.ok_or_else(over)?;
        let store = self.store.clone();
        self.note_use(async move { store.touch_session(&hash, now_ns).await });
        let caller = self.person(user, org, AuthMethod::Session).await?.with_key(key);
        Ok(Checked { caller, expires_at_ns: Some(session.expires_at_ns) })
    }

    async fn check_jwt(&self, token: &str, org: Option<&str>, key: CallerKey, now_ns: u64) -> Result<Checked, Fault> {
        let Some(verifier) = &self.sign_in.jwt else {
            return Err(unauthorized("jwt auth disabled: this server accepts API keys (pds_…) and logins"));
        };
        let claims = verifier.verify(token).await.map_err(|error| {
            if error.is_unavailable() {
                let text = "the identity provider does not answer; try again";
                return Fault::new(FaultKind::Busy, "auth.provider_unavailable", text).with_detail(error);
            }
            unauthorized(&error.to_string())
        })?;
        let fresh = UserRow {
            id: claims.subject.clone(),
            email: claims.email.as_ref().map(|email| email.as_str().to_owned()).unwrap_or_default(),
            name: claims.name.clone().unwrap_or_default(),
            ..UserRow::new(now_ns)
        };
        let issuer = claims.issuer.as_deref().unwrap_or_default();
        let identity = ProviderIdentity { issuer, subject: &claims.subject, link: AccountLink::Never };
        let user = self.store.provider_user(identity, &fresh).await?;
        let user = user.ok_or_else(|| unauthorized("another account has this token's subject"))?;
        let caller = self.person(user, org, AuthMethod::Jwt).await?.with_key(key);
        Ok(Checked { caller, expires_at_ns: Some(claims.expires_at_s.saturating_mul(NS_PER_SECOND)) })
    }

    /// Makes a caller of a user, in the organisation that the request names or the user chose.
    async fn person(&self, user: UserRow, org: Option<&str>, method: AuthMethod) -> Result<Caller, Fault> {
        if user.disabled {
            return Err(unauthorized("this account is disabled; ask the operator of the server"));
        }
        let OrgRow { id: org, workspace, role, .. } = self.acting_org(&user, org).await?;
        let UserRow { id, email, operator, .. } = user;
        let user = CallerUser { id, email, operator, org, role, method };
        Ok(Caller { user: Some(Arc::new(user)), ..Caller::of(workspace) })
    }

    async fn acting_org(&self, user: &UserRow, chosen: Option<&str>) -> Result<OrgRow, Fault> {
        if let Some(org) = chosen {
            return self.store.org_of(&user.id, org).await?.ok_or_else(not_a_member);
        }
        match self.store.default_org(&user.id).await? {
            Some(org) => Ok(org),
            None => self.make_personal_org(user).await,
        }
    }

    /// Records the use of a credential: once per cache entry, and without delaying the request.
    fn note_use(&self, record: impl Future<Output = Result<(), crate::store::StoreError>> + Send + 'static) {
        self.scope.start("credential use", async move {
            if let Err(error) = record.await {
                tracing::debug!(%error, "could not record a credential's last use");
            }
        });
    }
}

/// Returns whether text has the form of a key.
pub fn is_key(text: &str) -> bool {
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.strip_prefix(KEY_PREFIX).is_some_and(|rest| rest.len() == KEY_HEX && rest.bytes().all(hex))
}

/// Returns the hash under which a key is stored.
pub fn key_hash(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unauthorized(reason: &str) -> Fault {
    Fault::new(FaultKind::Unauthorized, "unauthorized", reason)
}

fn not_a_member() -> Fault {
    Fault::new(FaultKind::Forbidden, "org.not_member", "not a member of requested org")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_shape() {
        assert!(is_key("pds_0123456789abcdef0123456789abcdef"));
        for bad in ["", "pds_", "pds_0123456789ABCDEF0123456789abcdef", "pds_0123456789abcdef0123456789abcde", "x"] {
            assert!(!is_key(bad), "{bad}");
        }
        assert_eq!(key_hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
