//! Accounts as the operator manages them: directly in the database, whether or not a server uses
//! it. Servers see a change within a second.

use pandastack_database::DatabaseAddress;
use pandastack_identity::{
    EmailAddress, EmailError, NewPassword, PasswordError, PasswordHasher, PasswordRefused, PasswordSettings,
    PasswordSettingsError, ResetToken,
};
use pandastack_kit::{Scope, Secret, random_hex};

use super::login::fresh_id;
use crate::{
    limits::{ACCOUNTS_LISTED_MAX, RESET_AGE_MAX},
    store::{Store, StoreError, UserAdded, UserOrder, UserRow},
};

/// An account, as the operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAccount {
    pub id: String,
    pub email: String,
    pub name: String,
    pub has_password: bool,
    pub operator: bool,
    pub disabled: bool,
    pub created_at_ns: u64,
    pub last_login_at_ns: Option<u64>,
}

/// Why an account could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum UserAccountError {
    #[error(transparent)]
    Database(#[from] StoreError),
    #[error(transparent)]
    Email(#[from] EmailError),
    #[error("there is no account with the e-mail address {0}; see \"pandastack admin user list\"")]
    Missing(String),
    #[error("there is already an account with the e-mail address {0}")]
    Taken(String),
    #[error("make a password")]
    Password(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The accounts of a server.
pub struct Accounts {
    store: Store,
    now_ns: u64,
}

impl Accounts {
    /// Opens the database of a server.
    pub async fn open(database: &DatabaseAddress, now_ns: u64) -> Result<Self, UserAccountError> {
        Ok(Self { store: Store::open(database, now_ns).await?, now_ns })
    }

    /// Lists accounts by e-mail address.
    pub async fn list(&self) -> Result<Vec<UserAccount>, UserAccountError> {
        let found = self.store.list_users(ACCOUNTS_LISTED_MAX).await?;
        Ok(found.into_iter().map(render).collect())
    }

    /// Makes an account. It has a password that nobody knows, until its reset link is used.
    pub async fn create(
        &self,
        email: &str,
        name: &str,
        operator: bool,
    ) -> Result<(UserAccount, ResetToken), UserAccountError> {
        let email = EmailAddress::parse(email)?;
        let user = UserRow {
            id: fresh_id(),
            email: email.as_str().to_owned(),
            name: name.to_owned(),
            password: Some(unknown_password(&email).await?),
            operator,
            ..UserRow::new(self.now_ns)
        };
        match self.store.add_user(&user, UserOrder::Any).await? {
            UserAdded::Yes => {}
            UserAdded::Taken | UserAdded::NotFirst => return Err(UserAccountError::Taken(user.email)),
        }
        let token = self.link(&user.id).await?;
        Ok((render(user), token))
    }

    /// Makes a link by which a user sets a new password. Earlier links end.
    pub async fn reset(&self, email: &str) -> Result<(UserAccount, ResetToken), UserAccountError> {
        let user = self.find(email).await?;
        let token = self.link(&user.id).await?;
        Ok((render(user), token))
    }

    /// Allows or forbids a user to use the server. Open requests of a disabled user end.
    pub async fn set_disabled(&self, email: &str, disabled: bool) -> Result<UserAccount, UserAccountError> {
        let user = self.find(email).await?;
        self.store.set_disabled(&user.id, disabled, self.now_ns).await?;
        Ok(render(UserRow { disabled, ..user }))
    }

    /// Closes the database.
    pub async fn close(self) {
        self.store.close().await;
    }

    async fn link(&self, user: &str) -> Result<ResetToken, UserAccountError> {
        let token = ResetToken::generate();
        let expires_at_ns = self.now_ns.saturating_add(RESET_AGE_MAX.as_nanos() as u64);
        self.store.add_reset((&token.hash().to_hex(), user), self.now_ns, expires_at_ns).await?;
        Ok(token)
    }

    async fn find(&self, email: &str) -> Result<UserRow, UserAccountError> {
        let email = EmailAddress::parse(email)?;
        let found = self.store.user_with_password(email.as_str()).await?;
        found.ok_or_else(|| UserAccountError::Missing(email.as_str().to_owned()))
    }
}

/// Hashes a random password. An account without any would be one of an identity provider.
async fn unknown_password(email: &EmailAddress) -> Result<Secret<String>, UserAccountError> {
    let hasher = PasswordHasher::new(&PasswordSettings::default(), Scope::new())?;
    let password = NewPassword::check(&random_hex::<32>(), email)?;
    Ok(Secret::new(hasher.hash(&password).await?))
}

macro_rules! password_errors {
    ($($kind:ty),*) => {$(
        impl From<$kind> for UserAccountError {
            fn from(error: $kind) -> Self {
                UserAccountError::Password(error.into())
            }
        }
    )*};
}

password_errors!(PasswordSettingsError, PasswordRefused, PasswordError);

fn render(user: UserRow) -> UserAccount {
    UserAccount {
        id: user.id,
        email: user.email,
        name: user.name,
        has_password: user.password.is_some(),
        operator: user.operator,
        disabled: user.disabled,
        created_at_ns: user.created_at_ns,
        last_login_at_ns: user.last_login_at_ns,
    }
}
