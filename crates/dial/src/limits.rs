//! Default limits of HTTP requests. The reference page is docs/limits.md.

use std::time::Duration;

/// HTTP requests: bytes of a URL, and of an answer's head and body.
pub const HTTP_URL_BYTES_MAX: usize = 8 * 1024;
pub const HTTP_HEAD_BYTES_MAX: usize = 64 * 1024;
pub const HTTP_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Timeouts of connecting (name, address, TLS), and from then on of the whole answer.
pub const HTTP_CONNECT_MAX: Duration = Duration::from_secs(10);
pub const HTTP_ANSWER_MAX: Duration = Duration::from_secs(30);
