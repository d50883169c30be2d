//! The front door that control and edge share: connections, and the shares that workspaces have of
//! what is counted at the door. Knows no resource and no database.

mod held;
mod idle;
pub mod limits;
mod places;
mod serve;

pub use places::{Counted, Place, Places};
pub use serve::{Connection, ServeSettings, occupy, serve, serve_with};
