//! Logins, sessions and passwords, as the API shows them.

use serde::{Deserialize, Serialize};

/// How people can log in to this server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoginMethods {
    /// Nobody has an account yet: the operator makes the first one with the API key of the server.
    pub setup_required: bool,
    pub password: bool,
    /// Whether an identity provider is set up.
    pub oidc: bool,
    /// Whether forgotten passwords can be reset by e-mail.
    pub reset_by_email: bool,
    /// Development: nobody needs to log in, a request without a credential is one of a fixed user.
    pub stub: bool,
}

/// Makes the first account, which administers the server.
#[derive(Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SetUp {
    pub email: String,
    pub password: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The secret of a one-time link, instead of the API key of the server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub link: String,
    /// For our own pages: answer with a session cookie instead of a token. Needs the header
    /// `x-pandastack-csrf: 1`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cookie: bool,
}

/// Makes an account for somebody who was invited, and accepts the invite.
#[derive(Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Register {
    /// The secret part of the invite's link.
    pub invite: String,
    pub password: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// For our own pages: answer with a session cookie instead of a token. Needs the header
    /// `x-pandastack-csrf: 1`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cookie: bool,
}

/// Logs in with a password.
#[derive(Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LogIn {
    pub email: String,
    pub password: String,
    /// For our own pages: answer with a session cookie instead of a token. Needs the header
    /// `x-pandastack-csrf: 1`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cookie: bool,
}

/// A new session. Its token is sent as a bearer token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoggedIn {
    /// Only shown here. Missing if the answer sets a cookie instead.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
    pub expires_at: String,
    pub user_id: String,
    pub email: String,
}

/// Changes the caller's password. All other sessions end.
#[derive(Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ChangePassword {
    pub current_password: String,
    pub new_password: String,
    /// For our own pages: answer with a session cookie instead of a token. Needs the header
    /// `x-pandastack-csrf: 1`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cookie: bool,
}

/// Asks for a reset link by e-mail.
#[derive(Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AskReset {
    pub email: String,
}

/// Sets a new password with the secret of a reset link.
#[derive(Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ResetPassword {
    pub token: String,
    pub password: String,
}

/// Exchanges the code of a login at an identity provider for a session.
#[derive(Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ExchangeCode {
    pub code: String,
    /// The text whose SHA-256 was the `challenge` of the login.
    pub verifier: String,
    /// For our own pages: answer with a session cookie instead of a token. Needs the header
    /// `x-pandastack-csrf: 1`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cookie: bool,
}

/// Logs in with a one-time link.
#[derive(Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct UseLink {
    /// The part of the link after the `#`.
    pub token: String,
    /// For our own pages: answer with a session cookie instead of a token. Needs the header
    /// `x-pandastack-csrf: 1`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cookie: bool,
}

/// A link that logs in once, for a browser. It is only shown here.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignInLink {
    pub url: String,
    pub token: String,
    pub expires_at: String,
    /// Whether the link makes the first account, instead of a login.
    pub setup: bool,
}

/// A session of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoginSession {
    pub id: String,
    pub created_at: String,
    /// When it was last used, accurate to half a minute.
    pub last_used_at: String,
    pub expires_at: String,
    /// The network address of the login.
    pub address: String,
    /// The program of the login, as it named itself.
    pub agent: String,
    /// Whether it is the session of this request.
    pub current: bool,
}
