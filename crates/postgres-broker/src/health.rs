//! Health checks of machines. Anybody may ask, without a token, so a machine is checked once at a
//! time, whoever asks meanwhile or a moment later gets the same answer, and no query waits for it.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use pandastack_kit::Scope;
use tokio::{sync::watch, time::Instant};

use crate::limits;

/// Whether a database can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatabaseHealth {
    Ok,
    Unavailable,
}

/// The last check of each machine.
#[derive(Default)]
pub(crate) struct HealthChecks {
    checks: Mutex<HashMap<String, HealthCheck>>,
}

/// A check, and its answer as soon as there is one.
struct HealthCheck(watch::Receiver<Option<HealthAnswer>>);

#[derive(Clone, Copy)]
struct HealthAnswer {
    health: DatabaseHealth,
    at: Instant,
}

impl HealthChecks {
    /// Answers from a check that runs or has just ended, or else starts one. The check runs in the
    /// scope to its end: callers who hang up do not make others wait for a new one.
    pub async fn ask(
        &self,
        scope: &Scope,
        machine: &str,
        check: impl Future<Output = DatabaseHealth> + Send + 'static,
    ) -> DatabaseHealth {
        let Some(mut answer) = self.current(scope, machine, check) else { return DatabaseHealth::Unavailable };
        // It fails if the check was dropped, at a shutdown.
        let answer = answer.wait_for(Option::is_some).await.ok().and_then(|answer| *answer);
        answer.map_or(DatabaseHealth::Unavailable, |answer| answer.health)
    }

    /// Finds or starts a check. `None` if too many machines are checked.
    fn current(
        &self,
        scope: &Scope,
        machine: &str,
        check: impl Future<Output = DatabaseHealth> + Send + 'static,
    ) -> Option<watch::Receiver<Option<HealthAnswer>>> {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(HealthCheck(answer)) = checks.get(machine).filter(|check| check.is_current()) {
            return Some(answer.clone());
        }
        if checks.len() >= limits::HEALTH_MACHINES_MAX {
            checks.retain(|_, check| check.is_running());
        }
        if checks.len() >= limits::HEALTH_MACHINES_MAX {
            return None;
        }
        let (sender, answer) = watch::channel(None);
        checks.insert(machine.to_owned(), HealthCheck(answer.clone()));
        let token = scope.token();
        scope.start("database health check", async move {
            let Some(health) = token.run_until_cancelled(check).await else { return };
            sender.send_replace(Some(HealthAnswer { health, at: Instant::now() }));
        });
        Some(answer)
    }
}

impl HealthCheck {
    fn is_running(&self) -> bool {
        self.0.borrow().is_none() && self.0.has_changed().is_ok()
    }

    /// Whether it runs, or has just ended.
    fn is_current(&self) -> bool {
        match *self.0.borrow() {
            Some(answer) => answer.at.elapsed() < limits::HEALTH_KEPT,
            None => self.0.has_changed().is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::{FutureExt, future::join_all};
    use tokio::{sync::Semaphore, time::advance};

    use super::*;

    /// Health checks that are counted, and end when the test lets them.
    struct HealthBed {
        checks: HealthChecks,
        scope: Scope,
        begun: Arc<AtomicUsize>,
        may_end: Arc<Semaphore>,
    }

    impl HealthBed {
        fn new() -> Self {
            let (begun, may_end) = (Arc::default(), Arc::new(Semaphore::new(0)));
            Self { checks: HealthChecks::default(), scope: Scope::new(), begun, may_end }
        }

        async fn ask(&self, machine: &str) -> DatabaseHealth {
            let (begun, may_end) = (Arc::clone(&self.begun), Arc::clone(&self.may_end));
            let check = async move {
                begun.fetch_add(1, Ordering::SeqCst);
                may_end.acquire().await.unwrap().forget();
                DatabaseHealth::Ok
            };
            self.checks.ask(&self.scope, machine, check).await
        }

        fn begun(&self) -> usize {
            self.begun.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_ask_meanwhile_and_soon_after_share_one_check() {
        let bed = HealthBed::new();
        let many = join_all((0..100).map(|_| bed.ask("a")));
        bed.may_end.add_permits(1);
        assert!(many.await.into_iter().all(|health| health == DatabaseHealth::Ok));
        assert_eq!((bed.begun(), bed.ask("a").await), (1, DatabaseHealth::Ok));
        bed.may_end.add_permits(2);
        assert_eq!((bed.ask("b").await, bed.begun()), (DatabaseHealth::Ok, 2), "each machine has its own");
        advance(limits::HEALTH_KEPT).await;
        assert_eq!((bed.ask("a").await, bed.begun()), (DatabaseHealth::Ok, 3), "an answer does not stay");
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_goes_on_when_its_caller_hangs_up() {
        let bed = HealthBed::new();
        assert!(bed.ask("a").now_or_never().is_none());
        let next = bed.ask("a");
        bed.may_end.add_permits(1);
        assert_eq!((next.await, bed.begun()), (DatabaseHealth::Ok, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_of_only_so_many_machines_are_kept() {
        let bed = HealthBed::new();
        let kept = |bed: &HealthBed| bed.checks.checks.lock().unwrap().len();
        for number in 0..limits::HEALTH_MACHINES_MAX {
            assert!(bed.ask(&number.to_string()).now_or_never().is_none());
        }
        assert_eq!(bed.ask("new").now_or_never(), Some(DatabaseHealth::Unavailable), "no more at once");
        bed.may_end.add_permits(2 * limits::HEALTH_MACHINES_MAX);
        assert_eq!(bed.ask("0").await, DatabaseHealth::Ok);
        for number in 0..limits::HEALTH_MACHINES_MAX {
            assert_eq!(bed.ask(&format!("new {number}")).await, DatabaseHealth::Ok);
            assert!(kept(&bed) <= limits::HEALTH_MACHINES_MAX);
        }
    }

    #[tokio::test]
    async fn a_check_that_is_cut_off_is_no_good_sign() {
        let bed = HealthBed::new();
        bed.scope.token().cancel();
        assert_eq!(bed.ask("a").await, DatabaseHealth::Unavailable);
    }
}
