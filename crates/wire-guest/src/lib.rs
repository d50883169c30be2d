//! The protocol between host and guest. One TCP connection per machine carries many channels. A
//! sealed guest keeps its agent for ever, so the host adapts to the guest, never the reverse.
//! [`Frame`] has the layout, [`FrameKind`] the requests and answers; `schema/` holds a golden of
//! each message.

mod code;
mod frame;
mod message;
mod process;
mod tree;

pub use code::*;
pub use frame::{Decoder, Frame, FrameError, FrameFlags, FrameKind, HEADER_BYTES};
pub use message::*;
pub use process::*;
pub use tree::*;

/// Newest protocol generation of this build. New kinds raise it; new optional fields do not.
pub const GENERATION: u32 = 4;

/// First generation whose guests have volumes.
pub const VOLUMES_SINCE: u32 = 2;

/// First generation whose guests keep processes that outlive their requests.
pub const PROCESSES_SINCE: u32 = 3;

/// First generation whose guests handle whole folders.
pub const TREES_SINCE: u32 = 3;

/// First generation whose guests have code sessions.
pub const CODE_SINCE: u32 = 3;

/// First generation whose guests keep warm kernels.
pub const WARM_SINCE: u32 = 4;

/// TCP port of the agent inside the guest. Never exposed as a preview.
pub const AGENT_PORT: u16 = 1050;

/// Largest payload of one frame.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;

/// Most data payload in flight per channel and direction before credit is needed.
pub const WINDOW_BYTES: usize = 4 * FRAME_BYTES_MAX;

const _: () = assert!(WINDOW_BYTES >= FRAME_BYTES_MAX, "one full frame must fit the window");

/// Least cost of a data frame from the guest in its window, so that one-byte frames cannot fill the
/// host's queue. Data from the host costs its bytes, because the guest joins it on arrival.
pub const FRAME_COST_MIN: usize = 256;

/// Most data frames from the guest that can be in flight on one channel.
pub const WINDOW_FRAMES: usize = WINDOW_BYTES / FRAME_COST_MIN;

/// Cost of a data frame with this payload size in the guest's window. The host credits the same
/// amount back.
pub const fn frame_cost(payload_bytes: usize) -> usize {
    if payload_bytes > FRAME_COST_MIN { payload_bytes } else { FRAME_COST_MIN }
}
