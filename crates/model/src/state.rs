//! The states of a sandbox on its host, and the one function that handles every pair of state and
//! request.
//!
//! ```text
//! Creating --> Running <--> Paused
//!                |  ^         |
//!                v  |         v
//!          FallingAsleep --> Asleep --> Waking --> Running
//!
//! every state --> Stopping --> (gone)        every state with a machine --> Failed
//! ```
//! A sleep that fails restores the previous state; a wake that fails returns to Asleep.

use std::fmt;

/// State of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// Its machine is being restored for the first time.
    Creating,
    /// Its guest answers.
    Running,
    /// Its CPUs are stopped; its memory stays in place.
    Paused,
    /// Its machine is being sealed and will then be released.
    FallingAsleep,
    /// It has no machine: its state is in a layer.
    Asleep,
    /// Its machine is being restored from the layer it sleeps in.
    Waking,
    /// It is being removed.
    Stopping,
    /// Its machine died. The reason is human-readable.
    Failed { reason: String },
}

/// A request to a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxRequest {
    /// Bring it to `Running`.
    Run,
    /// Serve an exec or a file request.
    Use,
    /// Stop its CPUs.
    Pause,
    /// Start its CPUs again.
    Resume,
    /// Seal it into a layer and keep it running.
    Seal,
    /// Seal it into a layer and release the machine.
    Sleep,
    /// Restore it after a sleep.
    Wake,
    /// Remove it.
    Remove,
}

/// The host's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAction {
    /// Already in the requested state: answer as after a change.
    Stay,
    /// Wait for the change in progress, then ask again.
    Join,
    /// Pass the request to the guest.
    Serve,
    /// Stop the CPUs.
    Halt,
    /// Start the CPUs.
    Continue,
    /// Seal and keep running.
    Seal,
    /// Seal and release the machine.
    PutToSleep,
    /// Restore the machine from the layer it sleeps in, then handle the rest of the request.
    Restore,
    /// Stop the machine and release its resources.
    TakeDown,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxRefusal {
    /// The sandbox is being removed.
    Gone,
    /// The machine is dead.
    Dead,
    /// The sandbox is paused. Using it does not resume it.
    Paused,
    /// There is no machine that could be paused or resumed.
    Asleep,
}

impl SandboxState {
    /// Returns why it failed, if it did.
    pub fn reason(&self) -> Option<&str> {
        match self {
            SandboxState::Failed { reason } => Some(reason),
            _ => None,
        }
    }

    /// Returns the name used on the wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            SandboxState::Creating => "creating",
            SandboxState::Running => "running",
            SandboxState::Paused => "paused",
            SandboxState::FallingAsleep => "hibernating",
            SandboxState::Asleep => "hibernated",
            SandboxState::Waking => "waking",
            SandboxState::Stopping => "stopping",
            SandboxState::Failed { .. } => "failed",
        }
    }

    /// Parses the wire name. The reason is used for `failed` only.
    pub fn from_name(name: &str, reason: Option<String>) -> Option<Self> {
        Some(match name {
            "creating" => SandboxState::Creating,
            "running" => SandboxState::Running,
            "paused" => SandboxState::Paused,
            "hibernating" => SandboxState::FallingAsleep,
            "hibernated" => SandboxState::Asleep,
            "waking" => SandboxState::Waking,
            "stopping" => SandboxState::Stopping,
            "failed" => SandboxState::Failed { reason: reason.unwrap_or_default() },
            _ => return None,
        })
    }

    /// Whether a change is in progress that ends by itself.
    pub const fn is_changing(&self) -> bool {
        match self {
            SandboxState::Creating | SandboxState::FallingAsleep | SandboxState::Waking | SandboxState::Stopping => {
                true
            }
            SandboxState::Running | SandboxState::Paused | SandboxState::Asleep | SandboxState::Failed { .. } => false,
        }
    }
}

impl fmt::Display for SandboxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Decides what a request means for a sandbox in a state.
pub fn step(now: &SandboxState, ask: SandboxRequest) -> Result<HostAction, SandboxRefusal> {
    use SandboxRequest::{Pause, Remove, Resume, Run, Seal, Sleep, Use, Wake};
    use SandboxState::{Asleep, Creating, Failed, FallingAsleep, Paused, Running, Stopping, Waking};
    match (now, ask) {
        (Stopping, Remove) => Ok(HostAction::Join),
        (Stopping, Run | Use | Pause | Resume | Seal | Sleep | Wake) => Err(SandboxRefusal::Gone),
        (Creating | Running | Paused | FallingAsleep | Asleep | Waking | Failed { .. }, Remove) => {
            Ok(HostAction::TakeDown)
        }
        (Failed { .. }, Run | Use | Pause | Resume | Seal | Sleep | Wake) => Err(SandboxRefusal::Dead),
        (Creating | FallingAsleep | Waking, Run | Use | Pause | Resume | Seal | Sleep | Wake) => Ok(HostAction::Join),
        (Running, Run | Resume | Wake) => Ok(HostAction::Stay),
        (Running, Use) => Ok(HostAction::Serve),
        (Running, Pause) => Ok(HostAction::Halt),
        (Running, Seal) => Ok(HostAction::Seal),
        (Running | Paused, Sleep) => Ok(HostAction::PutToSleep),
        (Paused, Pause) => Ok(HostAction::Stay),
        (Paused, Run | Resume | Wake) => Ok(HostAction::Continue),
        (Paused, Use | Seal) => Err(SandboxRefusal::Paused),
        (Asleep, Sleep) => Ok(HostAction::Stay),
        (Asleep, Run | Use | Wake | Seal) => Ok(HostAction::Restore),
        (Asleep, Pause | Resume) => Err(SandboxRefusal::Asleep),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS: [SandboxRequest; 8] = [
        SandboxRequest::Run,
        SandboxRequest::Use,
        SandboxRequest::Pause,
        SandboxRequest::Resume,
        SandboxRequest::Seal,
        SandboxRequest::Sleep,
        SandboxRequest::Wake,
        SandboxRequest::Remove,
    ];

    fn states() -> [SandboxState; 8] {
        use SandboxState::{Asleep, Creating, Failed, FallingAsleep, Paused, Running, Stopping, Waking};
        let failed = Failed { reason: "killed".into() };
        [Creating, Running, Paused, FallingAsleep, Asleep, Waking, Stopping, failed]
    }

    fn check(now: SandboxState, ask: SandboxRequest, expected: Result<HostAction, SandboxRefusal>) {
        assert_eq!(step(&now, ask), expected, "{now} asked to {ask:?}");
    }

    #[test]
    fn a_running_sandbox_serves_and_can_be_changed() {
        check(SandboxState::Running, SandboxRequest::Use, Ok(HostAction::Serve));
        check(SandboxState::Running, SandboxRequest::Run, Ok(HostAction::Stay));
        check(SandboxState::Running, SandboxRequest::Wake, Ok(HostAction::Stay));
        check(SandboxState::Running, SandboxRequest::Sleep, Ok(HostAction::PutToSleep));
        check(SandboxState::Running, SandboxRequest::Remove, Ok(HostAction::TakeDown));
    }

    #[test]
    fn every_use_wakes_but_none_resumes() {
        check(SandboxState::Asleep, SandboxRequest::Use, Ok(HostAction::Restore));
        check(SandboxState::Asleep, SandboxRequest::Seal, Ok(HostAction::Restore));
        check(SandboxState::Paused, SandboxRequest::Use, Err(SandboxRefusal::Paused));
        check(SandboxState::Paused, SandboxRequest::Resume, Ok(HostAction::Continue));
    }

    #[test]
    fn removal_works_from_every_state() {
        for now in states() {
            assert!(step(&now, SandboxRequest::Remove).is_ok(), "{now}");
        }
    }

    #[test]
    fn asking_during_a_change_waits_for_it() {
        for now in states().into_iter().filter(|now| now.is_changing() && *now != SandboxState::Stopping) {
            for ask in ASKS.into_iter().filter(|ask| *ask != SandboxRequest::Remove) {
                check(now.clone(), ask, Ok(HostAction::Join));
            }
        }
    }

    #[test]
    fn the_dead_and_the_leaving_refuse_work() {
        check(SandboxState::Stopping, SandboxRequest::Use, Err(SandboxRefusal::Gone));
        check(SandboxState::Failed { reason: "killed".into() }, SandboxRequest::Use, Err(SandboxRefusal::Dead));
    }

    #[test]
    fn names_come_back() {
        for now in states() {
            let reason = matches!(now, SandboxState::Failed { .. }).then(|| "killed".to_owned());
            assert_eq!(SandboxState::from_name(now.as_str(), reason), Some(now));
        }
        assert_eq!(SandboxState::from_name("dreaming", None), None);
    }
}
