//! The states of a sandbox on its host, and the one function that knows every pair of state and request.
//!
//! ```text
//! Creating -> Running -> Stopping -> (gone)
//!     \          \
//!      `----------`--> Failed -> Stopping -> (gone)
//! ```

use std::fmt;

/// Where a sandbox stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// Its machine is being restored.
    Creating,
    /// Its guest answers.
    Running,
    /// Its machine is being taken down.
    Stopping,
    /// Its machine died; the reason is for people.
    Failed { reason: String },
}

/// What may be asked of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Be running.
    Run,
    /// Serve an exec or a file request.
    Use,
    /// Be gone.
    Remove,
}

/// What the owner does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Already so: answer as if it had just been done.
    Stay,
    /// Wait for the change under way, then ask again.
    Join,
    /// Pass the request to the guest.
    Serve,
    /// Stop the machine and release what it held.
    TakeDown,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sandbox is being removed.
    Gone,
    /// The machine is dead.
    Dead,
}

impl SandboxState {
    /// Gives the name used on the wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            SandboxState::Creating => "creating",
            SandboxState::Running => "running",
            SandboxState::Stopping => "stopping",
            SandboxState::Failed { .. } => "failed",
        }
    }
}

impl fmt::Display for SandboxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Decides what a request means for a sandbox in a state.
pub fn step(now: &SandboxState, ask: Ask) -> Result<Next, Refusal> {
    use SandboxState::{Creating, Failed, Running, Stopping};
    match (now, ask) {
        (Creating, Ask::Run | Ask::Use) => Ok(Next::Join),
        (Creating, Ask::Remove) => Ok(Next::TakeDown),
        (Running, Ask::Run) => Ok(Next::Stay),
        (Running, Ask::Use) => Ok(Next::Serve),
        (Running, Ask::Remove) => Ok(Next::TakeDown),
        (Stopping, Ask::Run | Ask::Use) => Err(Refusal::Gone),
        (Stopping, Ask::Remove) => Ok(Next::Join),
        (Failed { .. }, Ask::Run | Ask::Use) => Err(Refusal::Dead),
        (Failed { .. }, Ask::Remove) => Ok(Next::TakeDown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(now: SandboxState, ask: Ask, expected: Result<Next, Refusal>) {
        assert_eq!(step(&now, ask), expected, "{now} asked to {ask:?}");
    }

    #[test]
    fn a_running_sandbox_serves_and_can_be_removed() {
        check(SandboxState::Running, Ask::Use, Ok(Next::Serve));
        check(SandboxState::Running, Ask::Run, Ok(Next::Stay));
        check(SandboxState::Running, Ask::Remove, Ok(Next::TakeDown));
    }

    #[test]
    fn removal_works_from_every_state() {
        let failed = SandboxState::Failed { reason: "killed".into() };
        for now in [SandboxState::Creating, SandboxState::Running, SandboxState::Stopping, failed] {
            assert!(step(&now, Ask::Remove).is_ok(), "{now}");
        }
    }

    #[test]
    fn the_dead_and_the_leaving_refuse_work() {
        check(SandboxState::Stopping, Ask::Use, Err(Refusal::Gone));
        check(SandboxState::Failed { reason: "killed".into() }, Ask::Use, Err(Refusal::Dead));
    }
}
