//! Previews: access to programs in guests without a key. `name` serves `{port}-{sandbox}.{suffix}`.
//! `signed` serves links that a caller with a key created, each on its own host name. `page`
//! renders errors of both.

mod name;
mod page;
mod signed;

pub use name::by_host;
pub use signed::moved;
