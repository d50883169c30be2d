//! The frames that reach into a guest. One TCP connection per machine carries many channels.
//!
//! A frame is a 12-byte header (length, channel, kind, flags, zero) and a payload of at most 256
//! KiB. Payloads are either raw bytes (output, input, file contents) or one CBOR map with numbered
//! fields (everything else): new optional fields may be added at any time, new kinds raise
//! [`GENERATION`]. A sealed guest keeps its old agent for ever, so the host adapts to the guest,
//! never the other way round. `schema/` holds goldens of every message.
//!
//! Conversation: the host sends `Hello` on channel 0 and the guest answers `Welcome` (or `Error`
//! and hangs up). Any other request opens a channel with a number the host chose and that is free;
//! the guest answers on it and the channel ends with exactly one terminal frame from the guest: a
//! reply, `Exit`, or `Error`. Bulk data is credited: each side may send [`WINDOW_BYTES`] of data
//! payload per channel and direction before it needs `Credit`.

mod code;
mod frame;
mod message;
mod process;
mod tree;

pub use code::*;
pub use frame::{Decoder, Flags, Frame, FrameError, HEADER_BYTES, Kind};
pub use message::*;
pub use process::*;
pub use tree::*;

/// The newest protocol generation this build speaks.
pub const GENERATION: u32 = 3;

/// The first generation whose guests have volumes.
pub const VOLUMES_SINCE: u32 = 2;

/// The first generation whose guests keep processes that outlive their requests.
pub const PROCESSES_SINCE: u32 = 3;

/// The first generation whose guests handle folders as wholes.
pub const TREES_SINCE: u32 = 3;

/// The first generation whose guests have code sessions.
pub const CODE_SINCE: u32 = 3;

/// The TCP port the agent listens on inside the guest. Never exposed as a preview.
pub const AGENT_PORT: u16 = 1050;

/// Largest payload of one frame.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;

/// Data payload that may be in flight per channel and direction before credit is needed.
pub const WINDOW_BYTES: usize = 4 * FRAME_BYTES_MAX;

const _: () = assert!(WINDOW_BYTES >= FRAME_BYTES_MAX, "one full frame must fit the window");

/// Least that a data frame from the guest costs of its window, so that one-byte frames cannot fill
/// the host's queue with bookkeeping. Data from the host costs its bytes: the guest joins it as it
/// comes.
pub const FRAME_COST_MIN: usize = 256;

/// Most data frames that a window lets be on their way from the guest on one channel.
pub const WINDOW_FRAMES: usize = WINDOW_BYTES / FRAME_COST_MIN;

/// What a data frame of this payload size takes from the guest's window; the host credits the same
/// amount back.
pub const fn frame_cost(payload_bytes: usize) -> usize {
    if payload_bytes > FRAME_COST_MIN { payload_bytes } else { FRAME_COST_MIN }
}
