//! Turns to start sandboxes. Only a few starts run at once. A free turn goes to the workspace with
//! the fewest running starts, so that a busy workspace cannot starve a quiet one. Also turns to put
//! the sandboxes of held workspaces to sleep.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::WorkspaceId;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, oneshot};

use crate::limits::{HELD_AT_ONCE, HELD_WAITING_MAX};

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
    /// Told when the last turn ends.
    quiet: Arc<Notify>,
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
        Self(Arc::new(Mutex::new(TurnState {
            free: at_once.max(1),
            queues: HashMap::new(),
            given: 0,
            quiet: Arc::default(),
        })))
    }

    /// Waits for a turn. A caller that stops waiting loses nothing for others.
    pub async fn take(&self, workspace: &WorkspaceId) -> StartTurn {
        let (sender, receiver) = oneshot::channel();
        self.lock().queues.entry(workspace.clone()).or_default().waiting.push_back(sender);
        self.give();
        receiver.await.expect("a sender is dropped only after it has sent")
    }

    /// Waits for a turn, but not longer than a given time. The caller has then changed nothing.
    pub async fn take_within(&self, workspace: &WorkspaceId, time: Duration) -> Result<StartTurn, Fault> {
        tokio::time::timeout(time, self.take(workspace)).await.map_err(|_| {
            let text = "too many sandboxes are starting; nothing was created, try again";
            Fault::new(FaultKind::Busy, "sandbox.start_busy", text)
        })
    }

    /// Waits until nobody starts anything.
    pub async fn idle(&self) {
        let quiet = self.lock().quiet.clone();
        loop {
            let changed = quiet.notified();
            if self.lock().queues.is_empty() {
                return;
            }
            changed.await;
        }
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
            if state.queues.is_empty() {
                state.quiet.notify_waiters();
            }
        }
        self.turns.give();
    }
}

/// Held workspaces whose sandboxes are put to sleep, each by one task. Clones are the same ones.
#[derive(Clone)]
pub struct HeldWorkspaces(Arc<HeldState>);

struct HeldState {
    /// Workspaces with a task that runs or waits.
    begun: Mutex<HashSet<WorkspaceId>>,
    turns: Semaphore,
    ended: Notify,
}

/// The task of one workspace.
pub struct HeldTask {
    state: Arc<HeldState>,
    workspace: WorkspaceId,
}

impl Default for HeldWorkspaces {
    fn default() -> Self {
        let (begun, turns) = (Mutex::default(), Semaphore::new(HELD_AT_ONCE));
        Self(Arc::new(HeldState { begun, turns, ended: Notify::new() }))
    }
}

impl HeldWorkspaces {
    /// Begins the task of a workspace. `None` if it has one, or if too many wait.
    pub fn begin(&self, workspace: &WorkspaceId) -> Option<HeldTask> {
        let mut begun = self.0.lock();
        let is_new = begun.len() < HELD_AT_ONCE + HELD_WAITING_MAX && begun.insert(workspace.clone());
        is_new.then(|| HeldTask { state: self.0.clone(), workspace: workspace.clone() })
    }

    /// Waits until no task is left.
    pub async fn idle(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.0.lock().is_empty() {
                return;
            }
            ended.await;
        }
    }
}

impl HeldTask {
    /// Waits for the turn of the workspace. First come, first served.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.state.turns.acquire().await.ok()
    }

    pub fn workspace(&self) -> &WorkspaceId {
        &self.workspace
    }
}

impl HeldState {
    fn lock(&self) -> MutexGuard<'_, HashSet<WorkspaceId>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldTask {
    fn drop(&mut self) {
        self.state.lock().remove(&self.workspace);
        self.state.ended.notify_waiters();
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

    #[tokio::test(start_paused = true)]
    async fn a_long_wait_ends_and_costs_nobody_a_turn() {
        let turns = StartTurns::new(1);
        let held = turns.take(&of("a")).await;
        let refused = turns.take_within(&of("b"), Duration::from_secs(10)).await.err().unwrap();
        assert_eq!((refused.kind, refused.code), (FaultKind::Busy, "sandbox.start_busy"));
        drop(held);
        assert!(turns.take_within(&of("b"), Duration::from_secs(10)).await.is_ok());
        assert!(turns.lock().queues.is_empty());
    }

    #[tokio::test]
    async fn a_held_workspace_has_one_task_and_only_some_run_at_once() {
        let held = HeldWorkspaces::default();
        let tasks: Vec<_> = (0..HELD_AT_ONCE).map(|n| held.begin(&of(&n.to_string())).unwrap()).collect();
        assert!(held.begin(&of("0")).is_none());
        let mut turns: Vec<_> = tasks.iter().map(|task| task.turn().now_or_never().flatten().unwrap()).collect();
        let late = held.begin(&of("late")).unwrap();
        assert!(late.turn().now_or_never().is_none());
        turns.pop();
        assert!(late.turn().now_or_never().is_some());
        assert!(held.idle().now_or_never().is_none());
        let rest: Vec<_> = (0..).map_while(|n| held.begin(&of(&format!("more {n}")))).collect();
        assert_eq!(rest.len(), HELD_WAITING_MAX - 1, "the number of tasks is bounded");
        drop((turns, rest, late));
        drop(tasks);
        held.idle().await;
    }
}
