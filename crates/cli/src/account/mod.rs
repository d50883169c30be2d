//! The commands of a person's own account.

mod callback;
mod challenge;
mod keep;
mod link;
mod login;
mod logout;
mod passwd;
mod provider;
mod register;
mod reset_password;
mod whoami;

pub use keep::saved;
pub use link::{LinkSecret, invite_link};
pub use login::{LoginArgs, login};
pub use logout::{LogoutArgs, logout};
pub use passwd::passwd;
pub use register::{RegisterArgs, register};
pub use reset_password::{ResetPasswordArgs, reset_password};
pub use whoami::whoami;
