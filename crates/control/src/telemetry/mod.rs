//! Sends the spans of requests to a collector, by OTLP over HTTP. `settings` says where to,
//! `render` writes a batch, `post` sends one, `export` is the task that does so. Nothing here is on
//! a request's way: a span is put into a queue that never waits.

mod export;
mod post;
mod render;
mod settings;

pub use export::start;
pub use settings::{TelemetryError, TelemetrySettings};
