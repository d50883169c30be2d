//! Hears what the code under test logs as `error`: a person would have to look, so a test that did
//! not announce it fails.

use std::{
    fmt::{Debug, Write},
    sync::{Mutex, Once, PoisonError},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt},
    registry,
};

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Starts to listen, for this process and from now on. Asking twice is fine.
pub fn listen_for_alarms() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        // A test with a log of its own keeps it, and hears no alarms here.
        let _ = tracing::subscriber::set_global_default(registry().with(Ear));
    });
}

/// Gives what was heard since the last time.
pub fn alarms() -> Vec<String> {
    std::mem::take(&mut *HEARD.lock().unwrap_or_else(PoisonError::into_inner))
}

struct Ear;

impl<S: Subscriber> Layer<S> for Ear {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::ERROR {
            let mut line = Line(event.metadata().target().to_owned());
            event.record(&mut line);
            HEARD.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}
