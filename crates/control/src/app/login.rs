//! Accounts with a password: the first one, logins, sessions, and changes of a password. Whether an
//! account exists is never told to somebody who is not logged in.

use std::net::IpAddr;

use pandastack_identity::{
    EmailAddress, InviteToken, LoginAttempt, NewPassword, PasswordError, PasswordVerdict, ResetToken, SessionToken,
};
use pandastack_kit::Secret;
use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{Caller, CallerUser, FIRST_WORKSPACE, WorkspaceId};
use pandastack_wire_public::{LogIn, LoginMethods, Register, SetUp, limits::USER_NAME_BYTES_MAX};

use super::{authenticate::unauthorized, login_trail::LoginOrigin};
use crate::{
    Control,
    limits::{SESSION_AGE_MAX, SESSIONS_PER_USER_MAX},
    store::{InviteAccepted, NewOrg, SessionRow, UserAdded, UserOrder, UserRow},
};

/// A session that has just begun.
pub(crate) struct NewSession {
    pub(crate) token: SessionToken,
    pub(crate) expires_at_ns: u64,
    pub(crate) user: UserRow,
}

impl Control {
    /// Tells how people can log in.
    pub(crate) async fn login_methods(&self) -> Result<LoginMethods, Fault> {
        let setup_required = self.store.has_no_users().await?;
        let oidc = self.sign_in.oidc.is_some();
        let (reset_by_email, stub) = (self.mail.is_some(), self.sign_in.stub.is_some());
        Ok(LoginMethods { setup_required, password: true, oidc, reset_by_email, stub })
    }

    /// Makes the first account. It administers the server and owns its first workspace.
    pub(crate) async fn set_up(
        &self,
        caller: Option<&Caller>,
        ask: SetUp,
        origin: &LoginOrigin,
    ) -> Result<NewSession, Fault> {
        let is_key = |caller: &Caller| caller.user.is_none() && caller.workspace.0 == FIRST_WORKSPACE;
        if !ask.link.is_empty() {
            self.check_setup_link(&ask.link)?;
        } else if !caller.is_some_and(is_key) {
            let text = "only an API key of the server's first workspace can make the first account";
            return Err(Fault::new(FaultKind::Forbidden, "auth.not_operator", text));
        }
        let user = UserRow { operator: true, ..self.new_account(&ask.email, &ask.password, &ask.name).await? };
        match self.store.add_user(&user, UserOrder::First).await? {
            UserAdded::Yes => {}
            UserAdded::NotFirst | UserAdded::Taken => {
                let text = "this server is set up already; log in, or ask its operator for an invite";
                return Err(Fault::new(FaultKind::Conflict, "auth.set_up", text));
            }
        }
        let workspace = WorkspaceId(FIRST_WORKSPACE.to_owned());
        let org = NewOrg {
            id: &fresh_id(),
            workspace: &workspace,
            name: "Default",
            owner: &user.id,
            created_at_ns: user.created_at_ns,
        };
        self.store.adopt_workspace(&org).await?;
        self.end_setup_link(&ask.link);
        let begun = self.begin_session(user, origin).await?;
        if caller.is_none() {
            // The front door knows no caller, so it records nothing.
            self.note_login(&begun.user, origin, 201);
        }
        Ok(begun)
    }

    /// Makes an account for somebody who has an invite, and accepts it.
    pub(crate) async fn register(&self, ask: Register, origin: &LoginOrigin) -> Result<NewSession, Fault> {
        let (invite, _) = self.invite(&ask.invite).await?;
        let user = self.new_account(&invite.email, &ask.password, &ask.name).await?;
        match self.store.add_user(&user, UserOrder::Any).await? {
            UserAdded::Yes => {}
            UserAdded::NotFirst | UserAdded::Taken => {
                let text = "there is an account with this e-mail address; log in and accept the invite";
                return Err(Fault::new(FaultKind::Conflict, "auth.account_exists", text));
            }
        }
        let hash = InviteToken::parse(&ask.invite).map_err(Fault::bug)?.hash().to_hex();
        let who = (user.id.as_str(), Some(user.email.as_str()));
        match self.store.accept_invite(&hash, who, self.clock.now_ns()).await? {
            // Two registrations with one invite: the second has an account and no membership.
            InviteAccepted::Yes { org, .. } => {
                self.store.set_current_org(&user.id, &org, self.clock.now_ns()).await?;
                self.tell_members_changed(&org).await;
            }
            InviteAccepted::Missing | InviteAccepted::Over | InviteAccepted::OtherEmail => {}
        }
        let begun = self.begin_session(user, origin).await?;
        self.note_login(&begun.user, origin, 201);
        Ok(begun)
    }

    /// Logs in with a password.
    pub(crate) async fn log_in(&self, ask: LogIn, origin: &LoginOrigin) -> Result<NewSession, Fault> {
        let email = EmailAddress::parse(&ask.email).map_err(|_| bad_login())?;
        let attempt = self.begin_attempt_to_log_in(&email, origin.address)?;
        let found = self.store.user_with_password(email.as_str()).await?;
        let stored = found.as_ref().and_then(|user| user.password.as_ref()).map(|stored| stored.reveal().as_str());
        let is_correct = match self.sign_in.passwords.verify(&ask.password, stored).await {
            Ok(verdict) => verdict == PasswordVerdict::Correct,
            Err(error) => {
                attempt.undecided();
                return Err(password_fault(error));
            }
        };
        let user = match found {
            Some(user) if is_correct && !user.disabled => user,
            found => {
                attempt.failed();
                let fault = bad_login();
                if let Some(user) = found {
                    self.note_failed_login(&user, origin, &fault);
                }
                return Err(fault);
            }
        };
        attempt.succeeded();
        self.refresh_hash(&user, &ask.password).await;
        let begun = self.begin_session(user, origin).await?;
        self.note_login(&begun.user, origin, 200);
        Ok(begun)
    }

    fn begin_attempt_to_log_in(&self, email: &EmailAddress, address: IpAddr) -> Result<LoginAttempt<'_>, Fault> {
        self.sign_in.throttle.start(email, address).map_err(|throttled| {
            Fault::new(FaultKind::TooFast, "auth.throttled", throttled.to_string())
                .with_retry_after(throttled.retry_after)
        })
    }

    /// Stores a password under the present settings, if they have changed since it was stored.
    async fn refresh_hash(&self, user: &UserRow, password: &str) {
        let passwords = &self.sign_in.passwords;
        if !user.password.as_ref().is_some_and(|stored| passwords.needs_rehash(stored.reveal())) {
            return;
        }
        let Ok(hashed) = passwords.rehash(password).await else { return };
        if let Err(error) = self.store.rehash_password(&user.id, &Secret::new(hashed)).await {
            tracing::warn!(%error, "could not store a password with the present settings");
        }
    }

    /// Begins a session of a user.
    pub(crate) async fn begin_session(&self, user: UserRow, origin: &LoginOrigin) -> Result<NewSession, Fault> {
        let (token, now_ns) = (SessionToken::generate(), self.clock.now_ns());
        let expires_at_ns = now_ns.saturating_add(SESSION_AGE_MAX.as_nanos() as u64);
        let session = SessionRow {
            hash: token.hash().to_hex(),
            user_id: user.id.clone(),
            created_at_ns: now_ns,
            expires_at_ns,
            last_used_at_ns: now_ns,
            address: origin.address.to_string(),
            agent: origin.agent.clone(),
        };
        let ended = self.store.add_session(&session, SESSIONS_PER_USER_MAX).await?;
        self.access.cache.forget(&ended);
        Ok(NewSession { token, expires_at_ns, user })
    }

    /// Lists the sessions of a user, newest first.
    pub(crate) async fn sessions(&self, user: &CallerUser) -> Result<Vec<SessionRow>, Fault> {
        Ok(self.store.list_sessions(&user.id, self.clock.now_ns()).await?)
    }

    /// Ends a session of a user, by the start of its hash.
    pub(crate) async fn end_session(&self, user: &CallerUser, hash: &str) -> Result<(), Fault> {
        let ended = self.store.end_session(&user.id, hash, self.clock.now_ns()).await?;
        if ended.is_empty() {
            return Err(Fault::new(FaultKind::Missing, "auth.no_session", "session not found"));
        }
        // This must be the last step: it may end this request.
        self.access.cache.forget(&ended);
        Ok(())
    }

    /// Changes the password of a user that knows the present one. All sessions end.
    pub(crate) async fn change_password(
        &self,
        user: &CallerUser,
        (current, new): (&str, &str),
        origin: &LoginOrigin,
    ) -> Result<NewSession, Fault> {
        let user = self.store.user(&user.id).await?.ok_or_else(bad_login)?;
        let Some(stored) = &user.password else {
            let text = "this account has no password; it logs in at the identity provider";
            return Err(Fault::new(FaultKind::Conflict, "auth.no_password", text));
        };
        let email = EmailAddress::parse(&user.email).map_err(Fault::bug)?;
        let attempt = self.begin_attempt_to_log_in(&email, origin.address)?;
        match self.sign_in.passwords.verify(current, Some(stored.reveal())).await {
            Ok(PasswordVerdict::Correct) => attempt.succeeded(),
            Ok(PasswordVerdict::Wrong) => {
                attempt.failed();
                let text = "the current password is wrong";
                return Err(Fault::new(FaultKind::Forbidden, "auth.wrong_password", text));
            }
            Err(error) => {
                attempt.undecided();
                return Err(password_fault(error));
            }
        }
        let hashed = self.hashed(new, &email).await?;
        let ended = self.store.set_password(&user.id, &hashed, self.clock.now_ns()).await?;
        let begun = self.begin_session(user, origin).await?;
        // This must be the last step: it ends this request.
        self.access.cache.forget(&ended);
        Ok(begun)
    }

    /// Sets a new password with the secret of a reset link. All sessions end.
    pub(crate) async fn reset_password(&self, token: &str, new: &str, origin: &LoginOrigin) -> Result<(), Fault> {
        let hash = ResetToken::parse(token).map_err(|_| reset_over())?.hash().to_hex();
        let user = self.store.reset_user(&hash, self.clock.now_ns()).await?.ok_or_else(reset_over)?;
        match self.take_reset(&hash, &user, new).await {
            Ok(()) => self.note_login(&user, origin, 204),
            Err(fault) => {
                self.note_failed_login(&user, origin, &fault);
                return Err(fault);
            }
        }
        Ok(())
    }

    async fn take_reset(&self, hash: &str, user: &UserRow, new: &str) -> Result<(), Fault> {
        let hashed = self.hashed(new, &EmailAddress::parse(&user.email).map_err(Fault::bug)?).await?;
        // Only one of several requests with the same link gets here.
        self.store.take_reset(hash, self.clock.now_ns()).await?.ok_or_else(reset_over)?;
        let ended = self.store.set_password(&user.id, &hashed, self.clock.now_ns()).await?;
        self.access.cache.forget(&ended);
        Ok(())
    }

    async fn new_account(&self, email: &str, password: &str, name: &str) -> Result<UserRow, Fault> {
        let email = EmailAddress::parse(email).map_err(|error| bad("auth.bad_email", error.to_string()))?;
        let name = name.trim();
        if name.len() > USER_NAME_BYTES_MAX || name.chars().any(char::is_control) {
            let text = format!("name must be at most {USER_NAME_BYTES_MAX} bytes without control characters");
            return Err(bad("auth.bad_name", text));
        }
        let password = self.hashed(password, &email).await?;
        Ok(UserRow {
            id: fresh_id(),
            email: email.as_str().to_owned(),
            name: name.to_owned(),
            password: Some(password),
            ..UserRow::new(self.clock.now_ns())
        })
    }

    async fn hashed(&self, password: &str, email: &EmailAddress) -> Result<Secret<String>, Fault> {
        let password =
            NewPassword::check(password, email).map_err(|error| bad("auth.bad_password", error.to_string()))?;
        self.sign_in.passwords.hash(&password).await.map(Secret::new).map_err(password_fault)
    }
}

/// Makes an id of a user or an organisation: a random UUID.
pub(super) fn fresh_id() -> String {
    SandboxId::random().uuid().to_string()
}

fn bad(code: &'static str, text: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Caller, code, text)
}

/// The same for an unknown account, a wrong password and a disabled account.
fn bad_login() -> Fault {
    unauthorized("the e-mail address or the password is wrong")
}

fn reset_over() -> Fault {
    Fault::new(FaultKind::Gone, "auth.reset_over", "this reset link was used, or has expired")
}

fn password_fault(error: PasswordError) -> Fault {
    match error {
        PasswordError::Busy => Fault::new(FaultKind::Busy, "auth.busy", error.to_string()),
        error => Fault::bug(error),
    }
}
