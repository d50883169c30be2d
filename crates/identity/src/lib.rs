//! Proof of who somebody is: passwords, random tokens, user JWTs, logins at an OpenID provider, and
//! the throttle in front of them. Has no database and no routes: control stores what is made here.

mod cache;
pub mod email;
pub mod fetch;
pub mod jwt;
pub mod limits;
pub mod oidc;
pub mod password;
#[cfg(any(test, feature = "provider-for-tests"))]
pub mod provider;
pub mod secret;
pub mod slug;
#[cfg(test)]
mod testing;
pub mod throttle;

pub use cache::DocumentError;
pub use email::{EmailAddress, EmailError};
pub use fetch::{FetchDocument, FetchError, ProviderUrlError};
pub use jwt::{JwtClaims, JwtError, JwtSettings, JwtVerifier};
pub use oidc::{LoginCallback, OidcClient, OidcError, OidcIdentity, OidcSettings, PendingLogin, StartedLogin};
pub use password::{
    NewPassword, PasswordError, PasswordHasher, PasswordRefused, PasswordSettings, PasswordSettingsError,
    PasswordVerdict,
};
pub use secret::{BadToken, InviteToken, LinkToken, ResetToken, SecretHash, SessionToken};
pub use slug::{Slug, SlugError, personal_org};
pub use throttle::{LoginAttempt, LoginThrottle, ThrottleSettings, Throttled};
