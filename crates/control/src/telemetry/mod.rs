//! Sends the spans of requests to a collector, by OTLP over HTTP. `settings` holds the target,
//! `render` writes a batch, `post` sends one, `export` is the task. No request waits for it: a span
//! goes into a queue that never blocks.

mod export;
mod post;
mod render;
mod settings;

pub use export::start;
pub use settings::{TelemetryError, TelemetrySettings};
