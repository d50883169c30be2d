//! Previews: programs in guests, seen by people without a key. `name` serves
//! `{port}-{sandbox}.{suffix}`, `signed` serves links that somebody with a key made, on host names
//! of their own, `page` says in both cases what went wrong.

mod name;
mod page;
mod signed;

pub use name::by_host;
pub use signed::moved;
