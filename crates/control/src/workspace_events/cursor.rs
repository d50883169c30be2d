//! A place in the events of a workspace, as clients send it back.

use std::{fmt, str::FromStr};

use pandastack_kit::random_hex;

/// Random bytes in the name of a ring.
const RING_NAME_BYTES: usize = 6;

/// Makes the name of a ring.
pub(super) fn ring_name() -> String {
    random_hex::<RING_NAME_BYTES>()
}

/// A place between two events of a workspace: the ring and the number of the event before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCursor {
    pub(super) ring: String,
    pub(super) number: u64,
}

impl EventCursor {
    /// A place in no ring.
    pub fn unknown() -> Self {
        Self { ring: String::new(), number: 0 }
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.ring, self.number)
    }
}

impl FromStr for EventCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (ring, number) = text.split_once('-').ok_or(())?;
        let is_name = ring.len() == 2 * RING_NAME_BYTES && ring.bytes().all(|byte| byte.is_ascii_hexdigit());
        match number.parse() {
            Ok(number) if is_name => Ok(Self { ring: ring.to_owned(), number }),
            _ => Err(()),
        }
    }
}
