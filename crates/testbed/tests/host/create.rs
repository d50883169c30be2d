//! Fails every step of a create: the caller gets the right fault, and nothing is left.

use std::{os::unix::fs::FileExt, time::Instant};

use pandastack_host::HostSettings;
use pandastack_model::{ByteSize, FaultKind, SandboxId};
use pandastack_testbed::{FakeBed, HandshakeBehaviour, spec, wait_for, with_fake_bed, with_small_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::{EnsureParams, HostPort};

use crate::{BRIEF, SOON};

fn hasty() -> HostSettings {
    HostSettings { launch_deadline: BRIEF, ..FakeBed::settings() }
}

/// Creates once with the fault, then once without: the fault is as expected, nothing is left, and
/// the host still works.
async fn check(settings: HostSettings, cause: impl FnOnce(&FakeBed), expected: (FaultKind, &str)) {
    with_fake_bed(settings, async |bed| {
        cause(bed);
        let id = SandboxId::random();
        let fault = bed.ensure(id).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), expected, "{fault}");
        bed.is_idle().await;
        assert_eq!(bed.host.observe(id).await, None);
        assert_eq!(bed.host.status().await.sandboxes, 0);
        bed.driver.faults().clear();
        bed.script.set_behaviour(HandshakeBehaviour::Good);
        bed.ensure(id).await.unwrap();
        bed.host.remove(id).await.unwrap();
        bed.is_idle().await;
    })
    .await;
}

async fn check_step(step: DriverCall, trouble: FaultEffect, expected: (FaultKind, &str)) {
    check(hasty(), |bed| bed.driver.faults().plan(FaultedCalls::Every(step), trouble), expected).await;
}

async fn check_manner(manner: HandshakeBehaviour, expected: (FaultKind, &str)) {
    check(hasty(), |bed| bed.script.set_behaviour(manner), expected).await;
}

#[tokio::test]
async fn restore_fails() {
    check_step(DriverCall::Restore, FaultEffect::Fail, (FaultKind::Unavailable, "machine.start")).await;
}

#[tokio::test]
async fn the_machine_dies_of_its_restore() {
    check_step(DriverCall::Restore, FaultEffect::Die, (FaultKind::Unavailable, "machine.start")).await;
}

#[tokio::test]
async fn resume_fails() {
    check_step(DriverCall::Resume, FaultEffect::Fail, (FaultKind::Unavailable, "machine.died")).await;
}

#[tokio::test]
async fn the_machine_dies_of_its_resume() {
    check_step(DriverCall::Resume, FaultEffect::Die, (FaultKind::Unavailable, "machine.died")).await;
}

#[tokio::test]
async fn nobody_can_be_dialled() {
    check_step(DriverCall::Dial, FaultEffect::Fail, (FaultKind::Unavailable, "guest.silent")).await;
}

#[tokio::test]
async fn a_dial_hangs() {
    check_step(DriverCall::Dial, FaultEffect::Hang, (FaultKind::Unavailable, "guest.silent")).await;
}

#[tokio::test]
async fn the_machine_dies_while_it_is_dialled() {
    check_step(DriverCall::Dial, FaultEffect::Die, (FaultKind::Unavailable, "machine.died")).await;
}

#[tokio::test]
async fn the_guest_is_silent() {
    check_manner(HandshakeBehaviour::Silent, (FaultKind::Unavailable, "guest.silent")).await;
}

#[tokio::test]
async fn the_guest_expects_another_secret() {
    check_manner(HandshakeBehaviour::OtherSecret, (FaultKind::Unavailable, "guest.confused")).await;
}

#[tokio::test]
async fn the_guest_refuses_its_new_life() {
    check_manner(HandshakeBehaviour::RefusesRebirth, (FaultKind::Unavailable, "guest.confused")).await;
}

#[tokio::test]
async fn the_guest_speaks_no_frames() {
    check_manner(HandshakeBehaviour::Garbage, (FaultKind::Unavailable, "guest.confused")).await;
}

#[tokio::test]
async fn the_guest_answers_something_else() {
    check_manner(HandshakeBehaviour::OffTopic, (FaultKind::Unavailable, "guest.confused")).await;
}

#[tokio::test]
async fn the_guest_speaks_an_unknown_generation() {
    check_manner(HandshakeBehaviour::FromTheFuture, (FaultKind::Unavailable, "guest.confused")).await;
}

#[tokio::test]
async fn the_guest_hangs_up() {
    check_manner(HandshakeBehaviour::HangsUp, (FaultKind::Unavailable, "guest.confused")).await;
}

/// Fails one driver call after the other, until a create completes without a fault.
#[tokio::test]
async fn any_call_may_fail_once() {
    with_fake_bed(hasty(), async |bed| {
        for nth in 1..20 {
            let struck = bed.driver.faults().faults_applied();
            bed.driver.faults().plan(FaultedCalls::Call(nth), FaultEffect::Fail);
            let id = SandboxId::random();
            let outcome = bed.ensure(id).await;
            let disturbed = bed.driver.faults().faults_applied() > struck;
            bed.driver.faults().clear();
            if outcome.is_ok() {
                bed.host.remove(id).await.unwrap();
            }
            bed.is_idle().await;
            if !disturbed {
                assert!(outcome.is_ok());
                assert!(nth > 3, "a create restores, resumes and dials");
                return;
            }
        }
        panic!("a create makes no end of calls");
    })
    .await;
}

#[tokio::test]
async fn there_is_no_network_slot() {
    with_small_fake_bed(FakeBed::settings(), 1, async |bed| {
        let (first, _) = bed.create().await;
        let fault = bed.ensure(SandboxId::random()).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Busy, "host.full"));
        assert!(fault.retry_after.is_some());
        assert_eq!(bed.driver.live().len(), 1);
        bed.host.remove(first).await.unwrap();
        bed.is_idle().await;
        bed.create().await;
    })
    .await;
}

#[tokio::test]
async fn the_machines_folder_cannot_be_made() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        std::fs::remove_dir(&bed.run_root).unwrap();
        std::fs::write(&bed.run_root, b"in the way").unwrap();
        let fault = bed.ensure(SandboxId::random()).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Bug, "{fault}");
        bed.is_idle().await;
        std::fs::remove_file(&bed.run_root).unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_disk_cannot_be_copied() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.host.remove(id).await.unwrap();
        // Layers are verified once per process. A file that disappears later is found by the step
        // that needs it.
        std::fs::remove_file(bed.mini().join("disk")).unwrap();
        let fault = bed.ensure(SandboxId::random()).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Bug, "{fault}");
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), 1);
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn the_data_volume_is_full() {
    let settings = HostSettings { disk_reserve: ByteSize::gib(1 << 20), ..FakeBed::settings() };
    with_fake_bed(settings, async |bed| {
        let fault = bed.ensure(SandboxId::random()).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Storage, "host.storage"));
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), 0);
        bed.is_idle().await;
    })
    .await;
}

#[tokio::test]
async fn the_template_is_unknown() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let ask = EnsureParams { id: SandboxId::random(), generation: 1, spec: spec("nobody-baked-this") };
        let fault = bed.host.ensure(ask).await.unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Caller, "template.unknown"));
        assert!(fault.text.contains("pandastack template bake nobody-baked-this"), "{fault}");
        bed.is_idle().await;
    })
    .await;
}

/// Damage to any file of a layer is found before anything starts.
#[tokio::test]
async fn the_layer_is_damaged() {
    for file in ["mem", "disk", "dev"] {
        with_fake_bed(FakeBed::settings(), async |bed| {
            std::fs::File::options().write(true).open(bed.mini().join(file)).unwrap().write_all_at(b"!", 5).unwrap();
            let fault = bed.ensure(SandboxId::random()).await.unwrap_err();
            assert_eq!((fault.kind, fault.code), (FaultKind::Unavailable, "template.damaged"), "{file}");
            assert_eq!(
                bed.driver.faults().calls(DriverCall::Restore),
                0,
                "a machine was started from a damaged {file}"
            );
            bed.is_idle().await;
        })
        .await;
    }
}

#[tokio::test]
async fn the_template_is_of_another_kind_of_host() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let path = bed.mini().join("manifest.json");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"memory\",", "\"another\",")).unwrap();
        let fault = bed.ensure(SandboxId::random()).await.unwrap_err();
        assert_eq!(fault.code, "template.incompatible", "{fault}");
        assert_eq!(bed.driver.faults().calls(DriverCall::Restore), 0);
        bed.is_idle().await;
    })
    .await;
}

/// A killed machine does not close its link. Its death ends the wait for its guest.
#[tokio::test]
async fn the_machine_is_killed_before_its_guest_answers() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        bed.script.set_behaviour(HandshakeBehaviour::Silent);
        let killing = async {
            wait_for("the guest is dialled", SOON, async || (bed.driver.links() > 0).then_some(())).await;
            bed.driver.kill(bed.driver.live()[0]);
        };
        let asked = tokio::time::timeout(SOON, bed.ensure(SandboxId::random()));
        let (created, ()) = tokio::join!(asked, killing);
        let fault = created.expect("the create waits for a dead guest").unwrap_err();
        assert_eq!((fault.kind, fault.code), (FaultKind::Unavailable, "machine.died"));
        bed.is_idle().await;
    })
    .await;
}

/// A removal does not wait for the timeout of a create whose guest is silent.
#[tokio::test]
async fn a_silent_create_can_be_removed_at_once() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        bed.script.set_behaviour(HandshakeBehaviour::Silent);
        let (id, started) = (SandboxId::random(), Instant::now());
        let removal = async {
            wait_for("the guest is dialled", SOON, async || {
                (bed.driver.faults().calls(DriverCall::Dial) > 0).then_some(())
            })
            .await;
            bed.host.remove(id).await.unwrap();
        };
        let (created, ()) = tokio::join!(bed.ensure(id), removal);
        assert_eq!(created.unwrap_err().code, "sandbox.not_found");
        assert!(started.elapsed() < SOON, "the removal waited for the launch's deadline");
        bed.is_idle().await;
    })
    .await;
}

/// A close does not wait for a create whose guest is silent either.
#[tokio::test]
async fn a_silent_create_does_not_hold_the_close_up() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        bed.script.set_behaviour(HandshakeBehaviour::Silent);
        let id = SandboxId::random();
        let closing = async {
            wait_for("the guest is dialled", SOON, async || {
                (bed.driver.faults().calls(DriverCall::Dial) > 0).then_some(())
            })
            .await;
            tokio::time::timeout(SOON, bed.host.close()).await.expect("the close waits for the launch's deadline");
        };
        let (created, ()) = tokio::join!(bed.ensure(id), closing);
        assert!(created.is_err());
        assert_eq!(bed.ensure(id).await.unwrap_err().code, "host.closing");
    })
    .await;
}
