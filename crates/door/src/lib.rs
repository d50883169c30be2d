//! The front door that control and edge share: connections, and the shares of workspaces in the
//! places that the door counts. Knows no resource and no database.

mod held;
mod idle;
pub mod limits;
mod places;
mod serve;

pub use places::{Counted, Place, Places};
pub use serve::{Connection, ServeSettings, occupy, serve, serve_with};
