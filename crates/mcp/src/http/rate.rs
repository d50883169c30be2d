//! Counts tool calls of workspaces in fixed minutes.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use pandastack_wire_fleet::WorkspaceId;

use super::RpcFault;

/// Error code of a workspace that calls too often.
const TOO_MANY: i32 = -32000;
const MINUTE: u64 = 60;

/// The calls of the current minute.
#[derive(Default)]
pub struct CallRates(Mutex<CurrentMinute>);

#[derive(Default)]
struct CurrentMinute {
    minute: u64,
    calls: HashMap<WorkspaceId, u32>,
}

impl CallRates {
    /// Counts a call, or refuses it. A limit of 0 means none.
    pub fn take(&self, workspace: &WorkspaceId, calls_max: u32) -> Result<(), RpcFault> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.take_at(workspace, calls_max, now)
    }

    fn take_at(&self, workspace: &WorkspaceId, calls_max: u32, now: u64) -> Result<(), RpcFault> {
        if calls_max == 0 {
            return Ok(());
        }
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if current.minute != now / MINUTE {
            *current = CurrentMinute { minute: now / MINUTE, calls: HashMap::new() };
        }
        let calls = current.calls.entry(workspace.clone()).or_default();
        if *calls >= calls_max {
            let wait = MINUTE - now % MINUTE;
            let text =
                format!("rate limit: {calls_max} tool calls a minute for this workspace; try again in {wait} seconds");
            return Err(RpcFault::new(TOO_MANY, text));
        }
        *calls += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_workspace_has_its_calls_in_each_minute() {
        let (rates, [a, b]) = (CallRates::default(), ["a", "b"].map(|name| WorkspaceId(name.to_owned())));
        for _ in 0..3 {
            assert_eq!(rates.take_at(&a, 3, 60), Ok(()));
        }
        let refused = rates.take_at(&a, 3, 115).unwrap_err();
        assert!(refused.code == -32000 && refused.text.ends_with("in 5 seconds"), "{refused:?}");
        assert_eq!(rates.take_at(&b, 3, 115), Ok(()), "another workspace has its own");
        assert_eq!(rates.take_at(&a, 3, 120), Ok(()), "the next minute");
        assert_eq!(rates.0.lock().unwrap().calls.len(), 1, "old minutes are forgotten");
        for _ in 0..1000 {
            assert_eq!(rates.take_at(&a, 0, 120), Ok(()), "no limit");
        }
    }
}
