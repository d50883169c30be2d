//! Runs every step twice: a repeated request gets the same answer, and nothing is doubled. On two
//! threads, so that races can show.

use pandastack_model::{FaultKind, LayerId, SandboxId, SandboxState};
use pandastack_testbed::{FakeBed, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::{HostEvent, HostPort, LayerHold, RemovedBy, SealParams};

use crate::{SOON, fork_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_ensure_gives_the_same_sandbox() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let first = bed.host.observe(id).await.unwrap();
        assert_eq!(bed.ensure(id).await.unwrap(), first);
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), 1);
        assert_eq!((bed.driver.live().len(), bed.host.observe_all().await.len()), (1, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ensures_at_once_make_one_machine() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let id = SandboxId::random();
        let (one, two, three) = tokio::join!(bed.ensure(id), bed.ensure(id), bed.ensure(id));
        assert_eq!(one.unwrap(), two.as_ref().unwrap().clone());
        assert_eq!(two.unwrap(), three.unwrap());
        assert_eq!((bed.driver.faults().calls(DriverCall::Restore), bed.driver.live().len()), (1, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ensures_at_once_fail_alike() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Restore, 1), FaultEffect::Fail);
        let id = SandboxId::random();
        let (one, two) = tokio::join!(bed.ensure(id), bed.ensure(id));
        assert_eq!(one.unwrap_err(), two.unwrap_err());
        bed.is_idle().await;
        bed.ensure(id).await.unwrap();
        assert_eq!(bed.driver.live().len(), 1, "a refused id can be asked for again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sandboxes_come_and_go_at_once() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let ids: Vec<_> = (0..8).map(|_| SandboxId::random()).collect();
        let made = futures_util::future::join_all(ids.iter().map(|id| bed.ensure(*id))).await;
        assert!(made.iter().all(Result::is_ok), "{made:?}");
        assert_eq!(bed.driver.live().len(), ids.len());
        let gone = futures_util::future::join_all(ids.iter().map(|id| bed.host.remove(*id))).await;
        assert!(gone.iter().all(Result::is_ok));
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_sandbox_is_gone_when_the_removal_answers() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let mut events = bed.host.events();
        bed.host.remove(id).await.unwrap();
        assert_eq!(bed.host.observe(id).await, None);
        bed.is_idle().await;
        bed.host.remove(id).await.unwrap();
        assert_eq!(events.try_recv().unwrap(), HostEvent::Removed { id, why: RemovedBy::Request, cause: None });
        assert!(events.try_recv().is_err(), "a removal is told once");
        let fault = bed.exec(id, "true").await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Missing, "sandbox.not_found"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removals_at_once_all_wait_for_the_end() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        // More than the driver task's queue holds.
        let removals = futures_util::future::join_all((0..20).map(|_| async {
            bed.host.remove(id).await.unwrap();
            (bed.host.observe(id).await, bed.driver.live().len())
        }));
        for seen in removals.await {
            assert_eq!(seen, (None, 0), "a removal answered before the end");
        }
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_can_be_used_again_after_its_removal() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let id = SandboxId::random();
        for _ in 0..5 {
            assert_eq!(bed.ensure(id).await.unwrap().state, SandboxState::Running);
            bed.host.remove(id).await.unwrap();
        }
        bed.is_idle().await;
    })
    .await;
}

/// A removal during the restore wins: the driver call cannot be cancelled, but its machine is
/// stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_during_the_create_wins() {
    for step in [DriverCall::Restore, DriverCall::Resume, DriverCall::Dial] {
        with_fake_bed(FakeBed::settings(), async |bed| {
            bed.driver.faults().plan(FaultedCalls::Nth(step, 1), FaultEffect::Hang);
            let id = SandboxId::random();
            let removal = async {
                wait_for("the step began", SOON, async || (bed.driver.faults().calls(step) > 0).then_some(())).await;
                let release = async {
                    tokio::task::yield_now().await;
                    bed.driver.faults().clear();
                };
                tokio::join!(bed.host.remove(id), release).0.unwrap();
                assert_eq!(bed.host.observe(id).await, None);
                bed.is_idle().await;
            };
            let (created, ()) = tokio::join!(bed.ensure(id), removal);
            assert_eq!(created.unwrap_err().code, "sandbox.not_found", "{step:?}");
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_twice_is_fine() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        bed.create().await;
        bed.create().await;
        bed.host.close().await;
        bed.host.close().await;
        assert_eq!(bed.driver.live(), []);
        let fault = bed.ensure(SandboxId::random()).await.unwrap_err();
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), 2, "a closed host starts nothing: {fault}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_layer_is_sealed_once() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let ask = SealParams { layer: LayerId::random(), hold: LayerHold::Kept };
        let saves = bed.driver.faults().calls(DriverCall::Save);
        let (one, two) = tokio::join!(bed.host.seal(id, ask), bed.host.seal(id, ask));
        let three = bed.host.seal(id, ask).await;
        assert!([&one, &two, &three].iter().all(|view| view.as_ref().is_ok_and(|view| view.layer == ask.layer)));
        assert_eq!(bed.driver.faults().calls(DriverCall::Save), saves + 1);
        assert_eq!(bed.audited().await, (2, 1));
        let (one, two) = tokio::join!(bed.host.release(ask.layer), bed.host.release(ask.layer));
        assert!(one.is_ok() && two.is_ok());
        assert_eq!(bed.audited().await, (1, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_fork_makes_no_second_children() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (parent, _) = bed.create().await;
        let (ask, children) = fork_of(parent, 3);
        let (one, two) = tokio::join!(bed.host.fork(ask.clone()), bed.host.fork(ask.clone()));
        let three = bed.host.fork(ask).await;
        for forked in [one, two, three] {
            let born = forked.unwrap().children;
            assert!(born.iter().all(Result::is_ok), "{born:?}");
        }
        assert_eq!(bed.audited().await, (2, 4));
        for id in children.into_iter().chain([parent]) {
            bed.host.remove(id).await.unwrap();
        }
        assert_eq!(bed.audited().await, (1, 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sleeps_and_wakes_may_come_twice() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let saves = bed.driver.faults().calls(DriverCall::Save);
        let (one, two) = tokio::join!(bed.host.sleep(id), bed.host.sleep(id));
        let three = bed.host.sleep(id).await;
        assert!([one, two, three].iter().all(|view| view.as_ref().unwrap().state == SandboxState::Asleep));
        assert_eq!(bed.driver.faults().calls(DriverCall::Save), saves + 1);
        assert_eq!(bed.audited().await, (2, 0));
        let restores = bed.driver.faults().calls(DriverCall::Restore);
        let (one, two, three) = tokio::join!(bed.host.wake(id), bed.host.wake(id), bed.ensure(id));
        let four = bed.host.wake(id).await;
        assert!([one, two, three, four].iter().all(|view| view.as_ref().unwrap().state == SandboxState::Running));
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), restores + 1);
        assert_eq!(bed.audited().await, (2, 1));
    })
    .await;
}

/// All operations at once, in any order: the sandbox ends in one state and nothing is doubled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verbs_at_once_end_in_one_state() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        for _ in 0..5 {
            let (id, _) = bed.create().await;
            bed.put(id, "/note", "kept").await.unwrap();
            let (host, layer) = (&bed.host, LayerId::random());
            let work = async {
                let _ = tokio::join!(
                    host.sleep(id),
                    host.wake(id),
                    host.seal(id, SealParams { layer, hold: LayerHold::Kept }),
                    host.sleep(id),
                    bed.run(id, "true"),
                    bed.ensure(id),
                    host.wake(id),
                );
            };
            tokio::time::timeout(SOON, work).await.expect("a verb waits for ever");
            assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
            assert_eq!(bed.driver.live().len(), 1);
            let _ = tokio::join!(host.remove(id), host.sleep(id), host.remove(id), host.wake(id));
            assert_eq!(bed.state(id).await, None);
            bed.host.release(layer).await.unwrap();
            assert_eq!(bed.audited().await, (1, 0));
        }
    })
    .await;
}
