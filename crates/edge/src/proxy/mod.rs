//! Requests to programs in guests. `carry` passes one on and brings the answer back, `head` decides
//! which headers go along, `answer` which of a program's headers reach a browser, `meter` ends what
//! nobody uses, `door` is the way in for who has a key.

mod answer;
mod carry;
mod door;
mod head;
mod meter;

pub use answer::{LINK_COOKIE, LINK_COOKIE_TLS, take_link_tokens};
pub use carry::{Target, carry};
pub use door::proxy;
pub use head::{Credential, clean_query, host_of};
