//! Records what the code under test logs as `error`. Such a log needs an operator, so a test that
//! does not expect it fails.

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

/// Starts recording for this process. Idempotent.
pub fn listen_for_alarms() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        // A test with its own subscriber keeps it, and records no alarms here.
        let _ = tracing::subscriber::set_global_default(registry().with(AlarmListener));
    });
}

/// Returns the alarms since the last call.
pub fn alarms() -> Vec<String> {
    std::mem::take(&mut *HEARD.lock().unwrap_or_else(PoisonError::into_inner))
}

struct AlarmListener;

impl<S: Subscriber> Layer<S> for AlarmListener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() == Level::ERROR {
            let mut line = LogMessage(event.metadata().target().to_owned());
            event.record(&mut line);
            HEARD.lock().unwrap_or_else(PoisonError::into_inner).push(line.0);
        }
    }
}

struct LogMessage(String);

impl Visit for LogMessage {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}
