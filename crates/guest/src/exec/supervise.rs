//! Supervises one process group: forwards signals and sizes, enforces the deadline, ends it on
//! request. Phases: running → asked to end (TERM; deadline or cancel) → killed (KILL, after a grace
//! period) → ended.

use std::future::pending;

use pandastack_sys::process;
use tokio::time::{Instant, sleep_until};

use super::{reaper::ExitReceiver, streams::ProcessStreams};
use crate::{limits, session::AgentChannel};

/// A process group that is killed when this value is dropped, unless it was released.
pub(crate) struct ProcessGroup {
    id: i32,
    held: bool,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SupervisedExit {
    pub(super) code: i32,
    pub(super) signal: Option<i32>,
    pub(super) timed_out: bool,
}

impl ProcessGroup {
    pub(crate) fn new(id: i32) -> Self {
        Self { id, held: true }
    }

    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    pub(crate) fn signal(&self, number: i32) {
        // Fails only for a group that is gone or a number that is no signal. Both need no action.
        let _ = process::signal_group(self.id, number);
    }

    /// Leaves the rest of the group running: detached children survive a normal end.
    fn release(mut self) {
        self.held = false;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.held {
            self.signal(libc::SIGKILL);
        }
    }
}

/// Escalation phase of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running { deadline: Option<Instant> },
    AskedToEnd { kill_at: Instant },
    Killed,
}

impl Phase {
    fn ask_to_end(group: &ProcessGroup) -> Self {
        group.signal(libc::SIGTERM);
        // A stopped process would not handle the TERM.
        group.signal(libc::SIGCONT);
        Self::AskedToEnd { kill_at: Instant::now() + limits::KILL_GRACE }
    }

    fn next_at(self) -> Option<Instant> {
        match self {
            Self::Running { deadline } => deadline,
            Self::AskedToEnd { kill_at } => Some(kill_at),
            Self::Killed => None,
        }
    }
}

/// Waits for the end of the group leader.
pub(super) async fn supervise(
    channel: &AgentChannel,
    (group, mut ended): (ProcessGroup, ExitReceiver),
    deadline: Option<Instant>,
    streams: &ProcessStreams,
) -> SupervisedExit {
    let mut timed_out = false;
    let mut phase = Phase::Running { deadline };
    loop {
        channel.take_signals().for_each(|number| group.signal(number));
        if let Some(size) = channel.take_size() {
            streams.resize(size);
        }
        if channel.fate().is_some() && matches!(phase, Phase::Running { .. }) {
            phase = Phase::ask_to_end(&group);
        }
        tokio::select! {
            biased;
            end = &mut ended => {
                match phase {
                    Phase::Running { .. } => group.release(),
                    // Children that ignored TERM must not outlive the process they belonged to.
                    Phase::AskedToEnd { .. } | Phase::Killed => drop(group),
                }
                // Cannot fail: `Reaper::expect` keeps the registration until the end.
                let end = end.unwrap_or(process::ExitResult { code: 128 + libc::SIGKILL, signal: Some(libc::SIGKILL) });
                return SupervisedExit { code: end.code, signal: end.signal, timed_out };
            }
            () = at(phase.next_at()) => phase = match phase {
                Phase::Running { .. } => {
                    timed_out = true;
                    Phase::ask_to_end(&group)
                }
                Phase::AskedToEnd { .. } | Phase::Killed => {
                    group.signal(libc::SIGKILL);
                    Phase::Killed
                }
            },
            () = channel.changed() => {}
        }
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}
