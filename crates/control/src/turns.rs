//! Turns to start sandboxes. Only a few starts run at once. A free turn goes to the workspace with
//! the fewest running starts, so that a busy workspace cannot starve a quiet one.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pandastack_wire_fleet::WorkspaceId;
use tokio::sync::oneshot;

/// The turns of all workspaces. Clones are the same ones.
#[derive(Clone)]
pub struct StartTurns(Arc<Mutex<TurnState>>);

/// A turn. The next one begins when it is dropped.
pub struct StartTurn {
    turns: StartTurns,
    workspace: WorkspaceId,
}

struct TurnState {
    free: usize,
    /// Workspaces with running or waiting starts.
    queues: HashMap<WorkspaceId, WorkspaceQueue>,
    /// Grows with every turn.
    given: u64,
}

#[derive(Default)]
struct WorkspaceQueue {
    running: usize,
    /// Number of the last turn that was given.
    last: u64,
    waiting: VecDeque<oneshot::Sender<StartTurn>>,
}

impl StartTurns {
    /// Makes so many turns at once.
    pub fn new(at_once: usize) -> Self {
        Self(Arc::new(Mutex::new(TurnState { free: at_once.max(1), queues: HashMap::new(), given: 0 })))
    }

    /// Waits for a turn. A caller that stops waiting loses nothing for others.
    pub async fn take(&self, workspace: &WorkspaceId) -> StartTurn {
        let (sender, receiver) = oneshot::channel();
        self.lock().queues.entry(workspace.clone()).or_default().waiting.push_back(sender);
        self.give();
        receiver.await.expect("a sender is dropped only after it has sent")
    }

    /// Gives the free turns to those who wait.
    fn give(&self) {
        loop {
            let mut state = self.lock();
            let Some((workspace, sender)) = state.next() else { return };
            // Not under the lock: a turn that nobody takes any more is dropped, which locks too.
            drop(state);
            let _ = sender.send(StartTurn { turns: self.clone(), workspace });
        }
    }

    fn lock(&self) -> MutexGuard<'_, TurnState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnState {
    /// Takes a free turn for the workspace that has the fewest, and of those the one that waited
    /// longest.
    fn next(&mut self) -> Option<(WorkspaceId, oneshot::Sender<StartTurn>)> {
        if self.free == 0 {
            return None;
        }
        let waiting = self.queues.iter_mut().filter(|(_, queue)| !queue.waiting.is_empty());
        let (workspace, queue) = waiting.min_by_key(|(_, queue)| (queue.running, queue.last))?;
        let sender = queue.waiting.pop_front()?;
        self.given += 1;
        (queue.running, queue.last) = (queue.running + 1, self.given);
        self.free -= 1;
        Some((workspace.clone(), sender))
    }
}

impl Drop for StartTurn {
    fn drop(&mut self) {
        {
            let mut state = self.turns.lock();
            state.free += 1;
            if let Some(queue) = state.queues.get_mut(&self.workspace) {
                queue.running -= 1;
                if queue.running == 0 && queue.waiting.is_empty() {
                    state.queues.remove(&self.workspace);
                }
            }
        }
        self.turns.give();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn of(name: &str) -> WorkspaceId {
        WorkspaceId(name.to_owned())
    }

    #[tokio::test]
    async fn a_quiet_workspace_does_not_wait_behind_a_busy_one() {
        let turns = StartTurns::new(2);
        let (busy, quiet) = (of("busy"), of("quiet"));
        let (first, _second) = (turns.take(&busy).await, turns.take(&busy).await);
        let mut waiting: Vec<_> = (0..10).map(|_| Box::pin(turns.take(&busy))).collect();
        waiting.iter_mut().for_each(|one| assert!(one.as_mut().now_or_never().is_none()));
        let mut late = Box::pin(turns.take(&quiet));
        assert!(late.as_mut().now_or_never().is_none());
        drop(first);
        let turn = late.as_mut().now_or_never().expect("the free turn is for the quiet workspace");
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        drop(turn);
        assert!(waiting[0].as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn workspaces_take_turns_and_nobody_who_left_is_waited_for() {
        let turns = StartTurns::new(1);
        let (a, b, c) = (of("a"), of("b"), of("c"));
        let held = turns.take(&a).await;
        let mut gone = Box::pin(turns.take(&b));
        assert!(gone.as_mut().now_or_never().is_none());
        let mut stays = Box::pin(turns.take(&c));
        assert!(stays.as_mut().now_or_never().is_none());
        drop(gone);
        drop(held);
        let turn = stays.as_mut().now_or_never().expect("whoever left is passed over");
        drop(turn);
        assert!(turns.lock().queues.is_empty(), "nothing is kept of those who are done");
    }
}
