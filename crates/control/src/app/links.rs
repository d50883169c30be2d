//! One-time sign-in links for a browser. `pandastack up` prints one for the operator, and
//! `pandastack dashboard` makes one for the user. Only a hash of the secret is stored, in memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pandastack_identity::LinkToken;
use pandastack_kit::Secret;
use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{AuthMethod, Caller, CallerKey, FIRST_WORKSPACE, WorkspaceId};

use super::{login::NewSession, login_trail::LoginOrigin};
use crate::{
    Control,
    limits::{LINK_AGE_MAX, LINKS_OPEN_MAX},
    store::UserRow,
};

/// Whom a link logs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkPurpose {
    /// Whoever sees the server's terminal: makes the first account, later the first owner.
    Operator,
    /// Whoever has the server's API key: makes the first account, and nothing else.
    SetUp,
    /// The user that asked for the link.
    User(String),
}

/// A link that has just been made.
pub(crate) struct NewLink {
    pub(crate) token: LinkToken,
    pub(crate) expires_at_ns: u64,
    pub(crate) purpose: LinkPurpose,
}

/// The links that can still be used.
#[derive(Default)]
pub(crate) struct OpenLinks {
    links: Mutex<Vec<OpenLink>>,
}

struct OpenLink {
    hash: String,
    expires_at_ns: u64,
    purpose: LinkPurpose,
    /// The credential that asked for it. The link ends with it.
    key: CallerKey,
}

impl OpenLinks {
    /// Makes a link. It replaces an earlier one for the same purpose.
    fn add(&self, purpose: LinkPurpose, key: CallerKey, now_ns: u64) -> NewLink {
        let expires_at_ns = now_ns.saturating_add(LINK_AGE_MAX.as_nanos() as u64);
        let token = LinkToken::generate();
        let mut links = self.lock();
        links.retain(|link| link.is_open(now_ns) && link.purpose != purpose);
        // The operator's own link never gives way to those of users.
        let oldest = links.iter().position(|link| link.purpose != LinkPurpose::Operator);
        if let Some(oldest) = oldest.filter(|_| links.len() >= LINKS_OPEN_MAX) {
            links.remove(oldest);
        }
        links.push(OpenLink { hash: token.hash().to_hex(), expires_at_ns, purpose: purpose.clone(), key });
        NewLink { token, expires_at_ns, purpose }
    }

    fn find(&self, token: &str, now_ns: u64) -> Option<LinkPurpose> {
        let hash = LinkToken::parse(token).ok()?.hash().to_hex();
        let links = self.lock();
        links.iter().find(|link| link.hash == hash && link.is_open(now_ns)).map(|link| link.purpose.clone())
    }

    fn take(&self, token: &str, now_ns: u64) -> Option<LinkPurpose> {
        let hash = LinkToken::parse(token).ok()?.hash().to_hex();
        let mut links = self.lock();
        let at = links.iter().position(|link| link.hash == hash && link.is_open(now_ns))?;
        Some(links.remove(at).purpose)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OpenLink>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenLink {
    fn is_open(&self, now_ns: u64) -> bool {
        now_ns < self.expires_at_ns && !self.key.is_revoked()
    }
}

impl Control {
    /// Makes the link that the server shows its operator. Returns the part after the `#`; `None` if
    /// nobody needs to log in.
    pub fn operator_link(&self) -> Option<Secret<String>> {
        if self.sign_in.stub.is_some() {
            return None;
        }
        let link = self.links.add(LinkPurpose::Operator, CallerKey::default(), self.clock.now_ns());
        Some(Secret::new(link.token.reveal().to_owned()))
    }

    /// Makes a link for a caller. An API key belongs to nobody, so it only makes one for the
    /// first account, which it could make itself.
    pub(crate) async fn make_link(&self, caller: &Caller) -> Result<NewLink, Fault> {
        let purpose = match &caller.user {
            Some(user) if user.method == AuthMethod::Session => LinkPurpose::User(user.id.clone()),
            None if caller.workspace.0 == FIRST_WORKSPACE && self.store.has_no_users().await? => LinkPurpose::SetUp,
            Some(_) | None => {
                let text = "only a login can make a link, for the same person: log in with \"pandastack login\"";
                return Err(Fault::new(FaultKind::Forbidden, "auth.not_a_session", text));
            }
        };
        Ok(self.links.add(purpose, caller.key.clone(), self.clock.now_ns()))
    }

    /// Logs in with a link.
    pub(crate) async fn use_link(&self, token: &str, origin: &LoginOrigin) -> Result<NewSession, Fault> {
        let now_ns = self.clock.now_ns();
        self.links.find(token, now_ns).ok_or_else(link_over)?;
        if self.store.has_no_users().await? {
            // The link is not used up: the set-up page needs it.
            let text = "there is no account yet; make the first one with this link (POST /v1/auth/setup)";
            return Err(Fault::new(FaultKind::Conflict, "auth.setup_required", text));
        }
        let user = match self.links.take(token, now_ns).ok_or_else(link_over)? {
            LinkPurpose::User(id) => self.store.user(&id).await?,
            LinkPurpose::Operator => self.store.first_owner(&WorkspaceId(FIRST_WORKSPACE.to_owned())).await?,
            LinkPurpose::SetUp => None,
        };
        let user: UserRow = user.filter(|user| !user.disabled).ok_or_else(link_over)?;
        let begun = self.begin_session(user, origin).await?;
        self.note_login(&begun.user, origin, 200);
        Ok(begun)
    }

    /// Checks that a link may make the first account. It is used up only by `end_setup_link`.
    pub(super) fn check_setup_link(&self, token: &str) -> Result<(), Fault> {
        match self.links.find(token, self.clock.now_ns()) {
            Some(LinkPurpose::Operator | LinkPurpose::SetUp) => Ok(()),
            Some(LinkPurpose::User(_)) | None => Err(link_over()),
        }
    }

    /// Uses up a link that made the first account.
    pub(super) fn end_setup_link(&self, token: &str) {
        self.links.take(token, self.clock.now_ns());
    }
}

fn link_over() -> Fault {
    let text = "this link was used, or has expired; log in, or get another one with \"pandastack dashboard\"";
    Fault::new(FaultKind::Gone, "auth.link_over", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> LinkPurpose {
        LinkPurpose::User(name.to_owned())
    }

    #[test]
    fn a_link_works_once_and_not_for_long() {
        let links = OpenLinks::default();
        let link = links.add(user("a"), CallerKey::default(), 5);
        let token = link.token.reveal();
        assert_eq!(links.find(token, 6), Some(user("a")));
        assert_eq!((links.take(token, 6), links.take(token, 6)), (Some(user("a")), None));
        let late = links.add(user("a"), CallerKey::default(), 5);
        assert_eq!(links.take(late.token.reveal(), late.expires_at_ns), None);
        for bad in ["", "psl_", "x", LinkToken::generate().reveal()] {
            assert_eq!(links.find(bad, 6), None, "{bad}");
        }
    }

    #[test]
    fn a_newer_link_and_the_end_of_the_login_end_it() {
        let (links, key) = (OpenLinks::default(), CallerKey::new("key-1"));
        let first = links.add(user("a"), key.clone(), 5);
        let second = links.add(user("a"), key.clone(), 5);
        assert_eq!(
            (links.find(first.token.reveal(), 6), links.find(second.token.reveal(), 6)),
            (None, Some(user("a")))
        );
        key.revoke();
        assert_eq!(links.find(second.token.reveal(), 6), None);
    }

    #[test]
    fn users_cannot_push_the_operators_link_out() {
        let links = OpenLinks::default();
        let operator = links.add(LinkPurpose::Operator, CallerKey::default(), 5);
        for number in 0..LINKS_OPEN_MAX + 5 {
            links.add(user(&number.to_string()), CallerKey::default(), 6);
        }
        assert_eq!(links.lock().len(), LINKS_OPEN_MAX);
        assert_eq!(links.find(operator.token.reveal(), 7), Some(LinkPurpose::Operator));
    }
}
