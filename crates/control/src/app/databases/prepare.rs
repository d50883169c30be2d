//! Makes golden layers in the background, one at a time, as soon as a template of databases is
//! baked: without a KVM that takes minutes, and no user shall wait for it. Knows how far each is.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pandastack_model::Fault;
use pandastack_wire_fleet::TemplateView;
use pandastack_wire_public::DatabaseSize;

use crate::{
    Control,
    limits::{DATABASE_PREPARE_LOOK, DATABASE_PREPARE_QUIET_MAX, DATABASE_PREPARE_RETRY, DATABASE_PREPARE_RETRY_MAX},
};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// How far the golden layer of a template is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoldenState {
    /// It is made soon.
    Waiting,
    Preparing {
        since_ns: u64,
    },
    Ready,
    Failed {
        error: String,
        retry_at_ns: u64,
    },
}

/// The attempts to make golden layers since the start of the server, by the layer of the template.
#[derive(Clone, Default)]
pub struct GoldenAttempts(Arc<Mutex<KeptAttempts>>);

#[derive(Default)]
struct KeptAttempts {
    /// At most one for each size: those of templates that are not baked any more are forgotten.
    attempts: BTreeMap<String, GoldenAttempt>,
    counts: GoldenCounts,
}

#[derive(Clone, Debug, Default)]
struct GoldenAttempt {
    /// When the one that runs began.
    since_ns: Option<u64>,
    /// How often it failed in a row, and the last time.
    failures: u32,
    failed: Option<(String, u64)>,
}

/// How many attempts ended, and how many run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoldenCounts {
    pub made: u64,
    pub failed: u64,
    pub running: u64,
}

impl GoldenAttempts {
    /// Records that a golden layer is being made.
    pub(super) fn begin(&self, template_layer: &str, now_ns: u64) {
        let mut kept = self.lock();
        kept.counts.running += 1;
        kept.attempts.entry(template_layer.to_owned()).or_default().since_ns = Some(now_ns);
    }

    /// Records how an attempt ended.
    pub(super) fn end(&self, template_layer: &str, made: Result<(), &Fault>, now_ns: u64) {
        let mut kept = self.lock();
        kept.counts.running = kept.counts.running.saturating_sub(1);
        match made {
            Ok(()) => {
                kept.counts.made += 1;
                kept.attempts.remove(template_layer);
            }
            Err(fault) => {
                kept.counts.failed += 1;
                let attempt = kept.attempts.entry(template_layer.to_owned()).or_default();
                attempt.failures = attempt.failures.saturating_add(1);
                let wait = u64::try_from(pause_after(attempt.failures).as_nanos()).unwrap_or(u64::MAX);
                (attempt.since_ns, attempt.failed) = (None, Some((fault.text.clone(), now_ns.saturating_add(wait))));
            }
        }
    }

    /// Returns how many attempts ended and run.
    pub fn counts(&self) -> GoldenCounts {
        self.lock().counts
    }

    /// Returns the state of a golden layer that does not exist yet.
    fn state(&self, template_layer: &str) -> GoldenState {
        match self.lock().attempts.get(template_layer).cloned() {
            None => GoldenState::Waiting,
            Some(GoldenAttempt { since_ns: Some(since_ns), .. }) => GoldenState::Preparing { since_ns },
            Some(GoldenAttempt { failed: Some((error, retry_at_ns)), .. }) => {
                GoldenState::Failed { error, retry_at_ns }
            }
            Some(GoldenAttempt { since_ns: None, failed: None, .. }) => GoldenState::Waiting,
        }
    }

    fn keep_only(&self, templates: &[TemplateView]) {
        self.lock().attempts.retain(|layer, attempt| {
            attempt.since_ns.is_some() || templates.iter().any(|template| template.layer == *layer)
        });
    }

    fn lock(&self) -> MutexGuard<'_, KeptAttempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// Starts to make golden layers of every baked template of databases, if this server has the
    /// host. Call it after the archive is set: a golden layer comes with a base backup.
    pub fn with_prepared_databases(self) -> Self {
        if self.host.is_here() {
            self.scope.start("prepare databases", self.clone().prepare_databases());
        }
        self
    }

    /// Lists the baked templates of databases that have no golden layer yet.
    pub async fn unprepared_templates(&self) -> Vec<&'static str> {
        let mut unprepared = Vec::new();
        for (size, template) in sizes_of(&self.host.templates().await) {
            if !matches!(self.golden_state(template).await, Ok(GoldenState::Ready)) {
                unprepared.push(size.template());
            }
        }
        unprepared
    }

    /// Returns how far the golden layer of a template is; `None` if databases do not start from it.
    pub(crate) async fn preparation_of(&self, template: &TemplateView) -> Result<Option<GoldenState>, Fault> {
        match DatabaseSize::ALL.iter().any(|size| size.template() == template.name) {
            true => self.golden_state(template).await.map(Some),
            false => Ok(None),
        }
    }

    /// Says what a database waits for that has no machine yet. `None` if nobody can tell.
    pub(super) async fn golden_wait(&self, size: DatabaseSize) -> Option<String> {
        let template = self.database_template(size).await.ok()?;
        let size = size.as_str();
        Some(match self.golden_state(&template).await.ok()? {
            GoldenState::Ready => return None,
            GoldenState::Waiting => {
                format!("it waits for its turn: the machine that databases of size {size} start from is made next")
            }
            GoldenState::Preparing { since_ns } => {
                let seconds = self.clock.now_ns().saturating_sub(since_ns) / NS_PER_SECOND;
                format!(
                    "it waits for the machine that databases of size {size} start from, which is made once for each \
                     bake of {}; that began {seconds} s ago",
                    template.name
                )
            }
            GoldenState::Failed { error, .. } => {
                format!("the machine that databases of size {size} start from could not be made: {error}")
            }
        })
    }

    async fn golden_state(&self, template: &TemplateView) -> Result<GoldenState, Fault> {
        let is_ready = self.store.find_golden(&template.layer).await?.is_some();
        Ok(if is_ready { GoldenState::Ready } else { self.golden_attempts.state(&template.layer) })
    }

    async fn prepare_databases(self) {
        let token = self.scope.token();
        loop {
            let pause = match self.next_to_prepare().await {
                Ok(Some(size)) if self.is_quiet_soon().await => {
                    // Its failure is known to those who look at the template.
                    let _ = self.golden(size).await;
                    Duration::ZERO
                }
                Ok(_) => DATABASE_PREPARE_LOOK,
                Err(fault) => {
                    tracing::warn!(%fault, "could not look for templates of databases");
                    DATABASE_PREPARE_LOOK
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = token.cancelled() => return,
            }
        }
    }

    /// Finds a baked template whose golden layer should be made now.
    async fn next_to_prepare(&self) -> Result<Option<DatabaseSize>, Fault> {
        let templates = self.host.templates().await;
        self.golden_attempts.keep_only(&templates);
        let now_ns = self.clock.now_ns();
        for (size, template) in sizes_of(&templates) {
            match self.golden_state(template).await? {
                GoldenState::Waiting => return Ok(Some(size)),
                GoldenState::Failed { retry_at_ns, .. } if retry_at_ns <= now_ns => return Ok(Some(size)),
                GoldenState::Failed { .. } | GoldenState::Preparing { .. } | GoldenState::Ready => {}
            }
        }
        Ok(None)
    }

    /// Waits until no user's sandbox starts, but not for ever. False at a stop of the server.
    async fn is_quiet_soon(&self) -> bool {
        let token = self.scope.token();
        tokio::select! {
            () = token.cancelled() => false,
            _ = tokio::time::timeout(DATABASE_PREPARE_QUIET_MAX, self.locks.starts.idle()) => true,
        }
    }
}

fn sizes_of(templates: &[TemplateView]) -> impl Iterator<Item = (DatabaseSize, &TemplateView)> {
    DatabaseSize::ALL.into_iter().filter_map(move |size| {
        let template = templates.iter().find(|template| template.name == size.template())?;
        Some((size, template))
    })
}

/// The pause after so many failures in a row: it doubles each time.
fn pause_after(failures: u32) -> Duration {
    let doubled = DATABASE_PREPARE_RETRY.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(DATABASE_PREPARE_RETRY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = NS_PER_SECOND;

    #[test]
    fn an_attempt_is_shown_and_tried_again_later_and_later() {
        let attempts = GoldenAttempts::default();
        let failed = Fault::bug("no room");
        assert_eq!(attempts.state("lyr_1"), GoldenState::Waiting);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            attempts.begin("lyr_1", SECOND);
            assert_eq!(attempts.state("lyr_1"), GoldenState::Preparing { since_ns: SECOND });
            attempts.end("lyr_1", Err(&failed), 0);
            let GoldenState::Failed { error, retry_at_ns } = attempts.state("lyr_1") else { panic!("it failed") };
            assert_eq!(error, failed.text);
            pauses.push(Duration::from_nanos(retry_at_ns));
        }
        assert_eq!(pauses[..2], [DATABASE_PREPARE_RETRY, DATABASE_PREPARE_RETRY * 2]);
        assert!(pauses.is_sorted() && pauses.last() == Some(&DATABASE_PREPARE_RETRY_MAX), "{pauses:?}");
        attempts.begin("lyr_1", 0);
        assert_eq!(attempts.counts(), GoldenCounts { made: 0, failed: 12, running: 1 });
        attempts.end("lyr_1", Ok(()), 0);
        assert_eq!(attempts.counts(), GoldenCounts { made: 1, failed: 12, running: 0 });
        attempts.begin("lyr_1", 0);
        attempts.end("lyr_1", Err(&failed), 0);
        let GoldenState::Failed { retry_at_ns, .. } = attempts.state("lyr_1") else { panic!("it failed") };
        assert_eq!(Duration::from_nanos(retry_at_ns), DATABASE_PREPARE_RETRY, "a success ends the row of failures");
    }

    #[test]
    fn attempts_of_templates_that_are_gone_are_forgotten() {
        let attempts = GoldenAttempts::default();
        for layer in ["lyr_old", "lyr_new"] {
            attempts.begin(layer, 0);
        }
        attempts.end("lyr_old", Err(&Fault::bug("x")), 0);
        attempts.keep_only(&[]);
        assert_eq!(attempts.state("lyr_old"), GoldenState::Waiting);
        assert_eq!(attempts.state("lyr_new"), GoldenState::Preparing { since_ns: 0 }, "that one runs");
    }
}
