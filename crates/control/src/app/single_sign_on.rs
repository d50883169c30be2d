//! Logins at the operator's identity provider. The browser that begins a login gets a cookie, and
//! only it can end the login. The end is a code that only the program which began the login can
//! exchange for a session, because it alone knows the verifier of the challenge.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use pandastack_identity::{
    InviteToken, LoginCallback, OidcClient, OidcError, PendingLogin, SecretHash, StartedLogin, secret::same_secret,
};
use pandastack_model::{Fault, FaultKind};
use sha2::{Digest, Sha256};
use url::{Host, Url};

use super::{
    authenticate::unauthorized,
    login::{NewSession, fresh_id},
    login_trail::LoginOrigin,
};
use crate::{
    Control,
    limits::{LOGIN_CODE_AGE_MAX, OIDC_LOGINS_MAX, REDIRECT_BYTES_MAX},
    store::{AccountLink, LoginCode, OidcLogin, ProviderIdentity, UserRow},
};

/// Characters of a SHA-256 in unpadded base64url.
const CHALLENGE_CHARS: usize = 43;
/// Longest error text in a redirect address. The provider writes it, so it can be long.
const REFUSAL_CHARS_MAX: usize = 300;

/// A login that has begun in a browser.
pub(crate) struct BegunLogin {
    /// Where the browser goes.
    pub(crate) url: Url,
    /// What the browser keeps.
    pub(crate) cookie: String,
}

impl Control {
    /// Begins a login. `own_base` is the address under which the browser knows this server.
    pub(crate) async fn begin_oidc(
        &self,
        (redirect, challenge): (&str, &str),
        own_base: &str,
    ) -> Result<BegunLogin, Fault> {
        let client = self.oidc()?;
        self.check_redirect(redirect, own_base)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if challenge.len() != CHALLENGE_CHARS || !challenge.bytes().all(plain) {
            let text = "challenge must be the unpadded base64url SHA-256 of a random text";
            return Err(Fault::new(FaultKind::Caller, "auth.bad_challenge", text));
        }
        let StartedLogin { authorize_url, pending } = client.start().await.map_err(oidc_fault)?;
        let cookie = InviteToken::generate().reveal().to_owned();
        let login = OidcLogin {
            state: SecretHash::of(pending.state()).to_hex(),
            pending: pending.to_json(),
            cookie: SecretHash::of(&cookie).to_hex(),
            redirect: redirect.to_owned(),
            challenge: challenge.to_owned(),
        };
        if !self.store.add_oidc_login(&login, pending.expires_at_ns(), OIDC_LOGINS_MAX).await? {
            let text = "too many logins are in progress; try again in a few minutes";
            return Err(Fault::new(FaultKind::Busy, "auth.too_many_logins", text));
        }
        Ok(BegunLogin { url: authorize_url, cookie })
    }

    /// Ends a login in the browser. Returns where it goes next: to the page that began the login,
    /// with a code or with the reason of a refusal.
    pub(crate) async fn end_oidc(&self, callback: &LoginCallback, cookie: Option<&str>) -> Result<Url, Fault> {
        let client = self.oidc()?;
        let over = || unauthorized("this login has expired or began in another browser; begin it again");
        let (state, now_ns) = (SecretHash::of(callback.state.as_deref().unwrap_or_default()), self.clock.now_ns());
        // Taken before it is checked, so that it can be tried only once.
        let login = self.store.take_oidc_login(&state.to_hex(), now_ns).await?.ok_or_else(over)?;
        let cookie = SecretHash::of(cookie.ok_or_else(over)?).to_hex();
        if !same_secret(&cookie, &login.cookie) {
            return Err(over());
        }
        let pending = PendingLogin::from_json(&login.pending).map_err(Fault::bug)?;
        let identity = match client.finish(pending, callback).await {
            Ok(identity) => identity,
            Err(error) => return refused(&login.redirect, oidc_fault(error)),
        };
        let verified = identity.email.as_ref().filter(|_| identity.email_verified);
        let fresh = UserRow {
            id: fresh_id(),
            // An address that nobody verified could be that of somebody else.
            email: verified.map(|email| email.as_str().to_owned()).unwrap_or_default(),
            name: identity.name.clone().unwrap_or_default(),
            ..UserRow::new(now_ns)
        };
        let link = if verified.is_some() { AccountLink::ByEmail } else { AccountLink::Never };
        let who = ProviderIdentity { issuer: &identity.issuer, subject: &identity.subject, link };
        let user = self.store.provider_user(who, &fresh).await?;
        let user = user.ok_or_else(|| Fault::bug("a fresh user id exists"))?;
        let code = InviteToken::generate();
        let row = LoginCode { hash: code.hash().to_hex(), user_id: user.id, challenge: login.challenge };
        let expires_at_ns = now_ns.saturating_add(LOGIN_CODE_AGE_MAX.as_nanos() as u64);
        self.store.add_login_code(&row, expires_at_ns).await?;
        let mut url = Url::parse(&login.redirect).map_err(Fault::bug)?;
        url.query_pairs_mut().append_pair("code", code.reveal());
        Ok(url)
    }

    /// Exchanges the code of a login for a session.
    pub(crate) async fn exchange_code(
        &self,
        (code, verifier): (&str, &str),
        origin: &LoginOrigin,
    ) -> Result<NewSession, Fault> {
        let over = || unauthorized("this login code was used, or has expired; begin the login again");
        let hash = InviteToken::parse(code).map_err(|_| over())?.hash().to_hex();
        let code = self.store.take_login_code(&hash, self.clock.now_ns()).await?.ok_or_else(over)?;
        let user = self.store.user(&code.user_id).await?.ok_or_else(over)?;
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let refused = if !same_secret(&challenge, &code.challenge) {
            Some(over())
        } else if user.disabled {
            Some(unauthorized("this account is disabled; ask the operator of the server"))
        } else {
            None
        };
        if let Some(fault) = refused {
            self.note_failed_login(&user, origin, &fault);
            return Err(fault);
        }
        let begun = self.begin_session(user, origin).await?;
        self.note_login(&begun.user, origin, 200);
        Ok(begun)
    }

    fn oidc(&self) -> Result<&OidcClient, Fault> {
        self.sign_in.oidc.as_deref().ok_or_else(|| {
            Fault::new(FaultKind::Missing, "auth.no_provider", "no identity provider is set up on this server")
        })
    }

    /// Checks where a browser goes after a login: to the dashboard, to this server, or to a program
    /// on the same computer. Anything else could collect codes.
    fn check_redirect(&self, redirect: &str, own_base: &str) -> Result<(), Fault> {
        let bad = || {
            let text = "redirect must be an address of the dashboard, of this server, or on localhost";
            Fault::new(FaultKind::Caller, "auth.bad_redirect", text)
        };
        let url = Url::parse(redirect).ok().filter(|_| redirect.len() <= REDIRECT_BYTES_MAX).ok_or_else(bad)?;
        let is_near = match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        let origins = self.sign_in.dashboard_url.as_deref().into_iter().chain([own_base]);
        let is_ours = origins.filter_map(|base| Url::parse(base).ok()).any(|base| base.origin() == url.origin());
        let is_web = matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
        // Routes of the API send a browser on, some of them to programs of guests.
        let is_page = url.path_segments().and_then(|mut parts| parts.next()) != Some("v1");
        if is_web && is_page && (is_near || is_ours) { Ok(()) } else { Err(bad()) }
    }
}

/// Returns the redirect address with the reason of the refusal as its `error` parameter.
fn refused(redirect: &str, fault: Fault) -> Result<Url, Fault> {
    tracing::info!(%fault, "a login at the identity provider was refused");
    let mut url = Url::parse(redirect).map_err(Fault::bug)?;
    let reason: String = fault.text.chars().take(REFUSAL_CHARS_MAX).collect();
    url.query_pairs_mut().append_pair("error", &reason);
    Ok(url)
}

fn oidc_fault(error: OidcError) -> Fault {
    if error.is_unavailable() {
        let text = "the identity provider does not answer; try again";
        return Fault::new(FaultKind::Busy, "auth.provider_unavailable", text).with_detail(error);
    }
    unauthorized(&error.to_string())
}
