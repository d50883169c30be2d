//! Requests to programs in guests. `door` is the entry for callers with a key, `carry` forwards a
//! request, `head` filters headers, `answer` filters the headers of responses, and `meter` closes
//! idle connections.

mod answer;
mod carry;
mod door;
mod head;
mod meter;

pub use answer::{LINK_COOKIE, LINK_COOKIE_TLS, take_link_tokens};
pub use carry::{ProxyTarget, carry};
pub use door::proxy;
pub use head::{AuthorizationOwner, clean_query, host_of};
