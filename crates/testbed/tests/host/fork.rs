//! Forks and snapshots: children have their parent's state and fail independently, and a layer is
//! removed with its last user.

use futures_util::{StreamExt, future::join_all, stream};
use pandastack_host::HostSettings;
use pandastack_model::{ByteSize, FaultKind, LayerId, SandboxId, SandboxOrigin, SandboxSpec, SandboxState};
use pandastack_testbed::{FakeBed, spec, wait_for, with_fake_bed, with_small_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::{EnsureParams, ForkParams, HostPort, LayerHold, SealParams, WriteParams};

use crate::{SOON, fork_of, ids};

#[tokio::test]
async fn children_carry_their_parents_state_and_go_their_own_way() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (parent, _) = bed.create().await;
        bed.put(parent, "/note", "before").await.unwrap();
        let (ask, children) = fork_of(parent, 3);
        let forked = bed.host.fork(ask).await.unwrap();
        assert!(forked.children.iter().all(Result::is_ok), "{:?}", forked.children);
        bed.put(parent, "/note", "after").await.unwrap();
        for child in &children {
            assert_eq!(bed.text(*child, "/note").await.unwrap(), "before");
            bed.put(*child, "/note", &child.to_string()).await.unwrap();
        }
        for child in &children {
            assert_eq!(bed.text(*child, "/note").await.unwrap(), child.to_string());
        }
        assert_eq!(bed.text(parent, "/note").await.unwrap(), "after");
        assert_eq!(bed.audited().await, (2, 4), "the template and one layer for three children");
        bed.host.remove(parent).await.unwrap();
        for id in &children {
            assert_eq!(bed.audited().await.0, 2, "a layer in use is not removed");
            bed.host.remove(*id).await.unwrap();
        }
        assert_eq!(bed.audited().await, (1, 0));
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn a_fork_of_a_fork_needs_its_grandparent_no_more() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (parent, _) = bed.create().await;
        let mut line = vec![parent];
        for depth in 0..4 {
            let last = line[line.len() - 1];
            bed.put(last, &format!("/{depth}"), "mine").await.unwrap();
            let (ask, children) = fork_of(last, 1);
            bed.host.fork(ask).await.unwrap().children.remove(0).unwrap();
            line.push(children[0]);
        }
        let youngest = line.pop().unwrap();
        for id in line {
            bed.host.remove(id).await.unwrap();
        }
        for depth in 0..4 {
            assert_eq!(bed.text(youngest, &format!("/{depth}")).await.unwrap(), "mine");
        }
        assert_eq!(bed.audited().await, (2, 1), "only the youngest's own layer is left");
        bed.host.remove(youngest).await.unwrap();
        assert_eq!(bed.audited().await, (1, 0));
    })
    .await;
}

/// Each child in turn fails to be restored, resumed or reached. That child leaves nothing, and its
/// siblings run.
#[tokio::test]
async fn a_child_that_fails_hinders_no_sibling() {
    for step in [DriverCall::Restore, DriverCall::Resume] {
        for nth in 1..=3 {
            with_fake_bed(FakeBed::settings(), async |bed| {
                let (parent, _) = bed.create().await;
                bed.put(parent, "/note", "kept").await.unwrap();
                // The parent's own resume after its seal comes before those of its children.
                let nth = if step == DriverCall::Resume { nth + 1 } else { nth };
                bed.driver.faults().plan(FaultedCalls::Nth(step, nth), FaultEffect::Fail);
                let (ask, children) = fork_of(parent, 3);
                let outcomes = bed.host.fork(ask).await.unwrap().children;
                let born = outcomes.iter().filter(|child| child.is_ok()).count();
                assert_eq!((outcomes.len(), born), (3, 2), "{outcomes:?}");
                for (child, outcome) in children.iter().zip(outcomes) {
                    match outcome {
                        Ok(view) => {
                            assert_eq!((view.id, view.state), (*child, SandboxState::Running));
                            assert_eq!(bed.text(*child, "/note").await.unwrap(), "kept");
                        }
                        Err(fault) => {
                            assert_eq!(fault.kind, FaultKind::Unavailable);
                            assert_eq!(bed.state(*child).await, None);
                        }
                    }
                }
                assert_eq!(bed.audited().await, (2, 3));
            })
            .await;
        }
    }
}

/// A host with space for some of the children makes those.
#[tokio::test]
async fn partial_failure_is_visible_per_child() {
    with_small_fake_bed(FakeBed::settings(), 3, async |bed| {
        let (parent, _) = bed.create().await;
        let (ask, children) = fork_of(parent, 5);
        let outcomes = bed.host.fork(ask).await.unwrap().children;
        let refused: Vec<_> = outcomes.iter().filter_map(|child| child.as_ref().err()).collect();
        assert_eq!((outcomes.len(), refused.len()), (children.len(), 3));
        assert!(refused.iter().all(|fault| fault.code == "host.full"), "{refused:?}");
        assert_eq!(bed.audited().await, (2, 3));
    })
    .await;
}

#[tokio::test]
async fn a_fork_without_a_living_child_leaves_no_layer() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (parent, _) = bed.create().await;
        bed.driver.faults().plan(FaultedCalls::Every(DriverCall::Restore), FaultEffect::Fail);
        let (ask, _) = fork_of(parent, 3);
        let outcomes = bed.host.fork(ask).await.unwrap().children;
        assert!(outcomes.iter().all(Result::is_err));
        assert_eq!(bed.audited().await, (1, 1));
        assert_eq!(bed.run(parent, "echo on").await.unwrap().0, "on\n");
    })
    .await;
}

#[tokio::test]
async fn forks_of_what_cannot_be_forked_are_refused() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let nobody = bed.host.fork(fork_of(SandboxId::random(), 1).0).await.unwrap_err();
        assert_eq!(nobody.code, "sandbox.not_found");
        let (parent, machine) = bed.create().await;
        bed.host.pause(parent).await.unwrap();
        let paused = bed.host.fork(fork_of(parent, 1).0).await.unwrap_err();
        assert_eq!(paused.code, "sandbox.invalid_state");
        bed.host.resume(parent).await.unwrap();
        bed.driver.kill(machine);
        let dead = bed.host.fork(fork_of(parent, 1).0).await.unwrap_err();
        assert!(matches!(dead.code, "sandbox.failed" | "machine.refused"), "{dead}");
        assert_eq!(bed.audited().await, (1, 0));
    })
    .await;
}

#[tokio::test]
async fn a_sleeper_is_woken_for_its_fork() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (parent, _) = bed.create().await;
        bed.put(parent, "/note", "dreamt").await.unwrap();
        bed.host.sleep(parent).await.unwrap();
        let (ask, children) = fork_of(parent, 2);
        bed.host.fork(ask).await.unwrap();
        assert_eq!(bed.state(parent).await, Some(SandboxState::Running));
        assert_eq!(bed.text(children[1], "/note").await.unwrap(), "dreamt");
    })
    .await;
}

#[tokio::test]
async fn a_snapshot_stays_until_its_owner_and_its_last_user_let_it_go() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (source, _) = bed.create().await;
        bed.put(source, "/note", "kept").await.unwrap();
        let layer = LayerId::random();
        bed.host.seal(source, SealParams { layer, hold: LayerHold::Kept }).await.unwrap();
        bed.host.remove(source).await.unwrap();
        assert_eq!(bed.audited().await, (2, 0));
        let from = SandboxSpec { origin: SandboxOrigin::Layer(layer), ..spec("mini") };
        let users = ids(2);
        for id in &users {
            bed.host.ensure(EnsureParams { id: *id, generation: 1, spec: from.clone() }).await.unwrap();
        }
        bed.host.release(layer).await.unwrap();
        bed.host.release(layer).await.unwrap();
        for id in &users {
            assert_eq!(bed.text(*id, "/note").await.unwrap(), "kept");
            assert_eq!(bed.audited().await.0, 2, "a layer in use is not removed");
            bed.host.remove(*id).await.unwrap();
        }
        assert_eq!(bed.audited().await, (1, 0));
        let gone = bed.host.ensure(EnsureParams { id: users[0], generation: 1, spec: from }).await.unwrap_err();
        assert_eq!((gone.kind, gone.code), (FaultKind::Missing, "snapshot.not_found"));
        bed.is_idle().await;
    })
    .await;
}

/// A fork may use the id of an existing snapshot. The snapshot still belongs to its owner.
#[tokio::test]
async fn a_fork_from_a_kept_layer_does_not_give_it_up() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (source, _) = bed.create().await;
        let layer = LayerId::random();
        bed.host.seal(source, SealParams { layer, hold: LayerHold::Kept }).await.unwrap();
        let (ask, children) = fork_of(source, 2);
        bed.host.fork(ForkParams { layer, ..ask }).await.unwrap();
        for id in children {
            bed.host.remove(id).await.unwrap();
        }
        assert_eq!(bed.audited().await.0, 2, "the snapshot was given up by a fork");
        bed.host.release(layer).await.unwrap();
        assert_eq!(bed.audited().await.0, 1);
    })
    .await;
}

#[tokio::test]
async fn a_layer_belongs_to_the_sandbox_it_was_made_from() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let ((one, _), (two, _)) = (bed.create().await, bed.create().await);
        let ask = SealParams { layer: LayerId::random(), hold: LayerHold::Kept };
        bed.host.seal(one, ask).await.unwrap();
        let fault = bed.host.seal(two, ask).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Conflict, "layer.exists"));
        assert_eq!(bed.audited().await, (2, 2));
    })
    .await;
}

/// A create from a snapshot that is released at the same time either gets the whole layer or fails
/// as not found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_never_takes_a_layer_from_under_a_create() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        for round in 0..10 {
            let (source, _) = bed.create().await;
            bed.put(source, "/note", "kept").await.unwrap();
            let layer = LayerId::random();
            bed.host.seal(source, SealParams { layer, hold: LayerHold::Kept }).await.unwrap();
            let from = SandboxSpec { origin: SandboxOrigin::Layer(layer), ..spec("mini") };
            let users = ids(3);
            let create = |id: &SandboxId| bed.host.ensure(EnsureParams { id: *id, generation: 1, spec: from.clone() });
            let release = async {
                for _ in 0..round * 3 {
                    tokio::task::yield_now().await;
                }
                bed.host.release(layer).await
            };
            let (made, released) = tokio::join!(join_all(users.iter().map(create)), release);
            released.unwrap();
            for (id, made) in users.iter().zip(made) {
                match made {
                    Ok(_) => {
                        // Its layer must still exist: a machine without its layer can never be
                        // sealed.
                        bed.host.sleep(*id).await.unwrap();
                        assert_eq!(bed.text(*id, "/note").await.unwrap(), "kept");
                        bed.host.remove(*id).await.unwrap();
                    }
                    Err(fault) => assert_eq!(fault.code, "snapshot.not_found", "{fault}"),
                }
            }
            bed.host.remove(source).await.unwrap();
            assert_eq!(bed.audited().await, (1, 0));
        }
    })
    .await;
}

/// Unused layers are removed while other sandboxes fall asleep. A removal must not delete a layer
/// that a sandbox has started to use since the check.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_removal_takes_a_layer_from_who_falls_asleep_meanwhile() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.put(id, "/note", "kept").await.unwrap();
        // A layer that takes long to remove.
        let large = LayerId::random();
        bed.host.seal(id, SealParams { layer: large, hold: LayerHold::Kept }).await.unwrap();
        let folder = bed.folder_of(large);
        for number in 0..30_000 {
            std::fs::write(folder.join(number.to_string()), "").unwrap();
        }
        let faults = bed.driver.faults();
        let struck = faults.faults_applied();
        faults.plan(FaultedCalls::Nth(DriverCall::Save, 1), FaultEffect::Hang);
        let meanwhile = async {
            // The layer for the sleep is in the ledger now, but not in use yet.
            wait_for("the seal", SOON, async || (faults.faults_applied() > struck).then_some(())).await;
            let goes_on = async {
                let begun = async || (!folder.join("0").exists()).then_some(());
                wait_for("the removal", SOON, begun).await;
                faults.clear();
            };
            tokio::join!(bed.host.release(large), goes_on).0.unwrap();
        };
        let (slept, ()) = tokio::join!(bed.host.sleep(id), meanwhile);
        slept.unwrap();
        assert_eq!(bed.text(id, "/note").await.unwrap(), "kept");
        bed.host.remove(id).await.unwrap();
    })
    .await;
}

/// Each restore takes a CPU and memory that running sandboxes need too.
#[tokio::test]
async fn a_fork_restores_no_more_children_at_a_time_than_it_may() {
    let settings = HostSettings { fork_parallel: 2, ..FakeBed::settings() };
    with_fake_bed(settings, async |bed| {
        let parent = bed.create().await.0;
        let before = bed.driver.faults().calls(DriverCall::Restore);
        let calls = || bed.driver.faults().calls(DriverCall::Restore) - before;
        bed.driver.faults().plan(FaultedCalls::Every(DriverCall::Restore), FaultEffect::Hang);
        let (ask, children) = fork_of(parent, 6);
        let watched = async {
            wait_for("two restores", SOON, async || (calls() == 2).then_some(())).await;
            // The host does everything else while those restores hang. A third restore would start
            // here.
            for _ in 0..3 {
                bed.run(parent, "echo here").await.unwrap();
                bed.audited().await;
            }
            assert_eq!(calls(), 2);
            assert_eq!(bed.driver.live().len(), 1);
            bed.driver.faults().clear();
        };
        let (forked, ()) = tokio::join!(bed.host.fork(ask), watched);
        assert!(forked.unwrap().children.iter().all(Result::is_ok));
        assert_eq!((calls(), bed.driver.live().len()), (6, 7));
        for id in children {
            bed.host.remove(id).await.unwrap();
        }
    })
    .await;
}

/// Between the memory check and the pause a guest may change more than the limit for holding. The
/// excess is written while the guest is paused, and nothing is lost.
#[tokio::test]
async fn what_a_guest_changes_at_the_last_moment_is_written_and_not_held() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        let much = ByteSize::mib(12).get() as usize;
        let (tell, told) = tokio::sync::oneshot::channel::<()>();
        let late = stream::once(async move {
            let _ = told.await;
            Ok(vec![b'x'; much].into())
        });
        let ask = WriteParams { path: "/much".to_owned(), mode: None };
        let writing = async {
            bed.host.write_file(id, ask, late.boxed()).await.unwrap();
            bed.driver.faults().clear();
        };
        bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Pause, 1), FaultEffect::Hang);
        let looked = async {
            let pauses = async || (bed.driver.faults().faults_applied() == 1).then_some(());
            wait_for("the look is over", SOON, pauses).await;
            tell.send(()).unwrap();
        };
        let layer = LayerId::random();
        let sealing = bed.host.seal(id, SealParams { layer, hold: LayerHold::Kept });
        let (sealed, (), ()) = tokio::join!(sealing, writing, looked);
        assert!(sealed.unwrap().own.get() >= much as u64);
        assert_eq!(bed.driver.faults().calls(DriverCall::Memory), 2, "it was held, or not even tried");
        let (child, spec) = (SandboxId::random(), SandboxSpec { origin: SandboxOrigin::Layer(layer), ..spec("mini") });
        bed.host.ensure(EnsureParams { id: child, generation: 1, spec }).await.unwrap();
        assert_eq!(bed.text(child, "/much").await.unwrap().len(), much);
    })
    .await;
}
