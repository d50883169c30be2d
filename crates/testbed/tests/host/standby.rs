//! Standby machines: used, refilled, skipped when dead, released at the end.

use pandastack_host::HostSettings;
use pandastack_model::SandboxId;
use pandastack_testbed::{FakeBed, HandshakeBehaviour, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::HostPort;

use crate::{BRIEF, SOON};

fn with_standby() -> HostSettings {
    HostSettings { standby: 2, ..FakeBed::settings() }
}

async fn filled(bed: &FakeBed) {
    wait_for("the shelf is full", SOON, async || (bed.host.status().await.standby == 2).then_some(())).await;
}

#[tokio::test]
async fn a_create_takes_a_standby_machine_and_the_shelf_is_filled_again() {
    with_fake_bed(with_standby(), async |bed| {
        filled(bed).await;
        let view = bed.ensure(SandboxId::random()).await.unwrap();
        assert_eq!(view.boot_mode, "standby");
        assert_eq!(bed.run(view.id, "echo awake").await.unwrap().0, "awake\n");
        filled(bed).await;
        assert_eq!(bed.driver.live().len(), 3);
    })
    .await;
}

#[tokio::test]
async fn dead_standby_machines_are_skipped_and_cleaned() {
    with_fake_bed(with_standby(), async |bed| {
        filled(bed).await;
        let dead = bed.driver.live();
        for machine in &dead {
            bed.driver.kill(*machine);
        }
        let view = bed.ensure(SandboxId::random()).await.unwrap();
        assert_eq!(view.boot_mode, "cold");
        filled(bed).await;
        let disks = bed.layers.disks();
        assert_eq!((bed.driver.live().len(), disks.len()), (3, 3));
        assert!(dead.iter().all(|machine| !disks.contains(&machine.to_string())), "a dead machine kept its disk");
    })
    .await;
}

/// No create happens, so no request finds the dead ones.
#[tokio::test]
async fn machines_and_processes_that_die_while_they_stand_by_are_replaced() {
    with_fake_bed(HostSettings { blanks: 1, ..with_standby() }, async |bed| {
        // A machine exists a moment before it is counted as standby.
        let all = async || {
            let status = bed.host.status().await;
            Some(bed.driver.live()).filter(|live| live.len() == 3 && (status.standby, status.blanks) == (2, 1))
        };
        let dead = wait_for("the shelves are full", SOON, all).await;
        for machine in &dead {
            bed.driver.kill(*machine);
        }
        let live = wait_for("others in their place", SOON, all).await;
        assert!(dead.iter().all(|machine| !live.contains(machine)), "the dead live");
        let disks = bed.layers.disks();
        assert!(dead.iter().all(|machine| !disks.contains(&machine.to_string())), "a dead machine kept its disk");
        assert_eq!(bed.audited().await, (1, 3));
        assert_eq!(bed.ensure(SandboxId::random()).await.unwrap().boot_mode, "standby");
    })
    .await;
}

/// A create succeeds although a standby machine died.
#[tokio::test]
async fn a_standby_machine_that_dies_when_woken_is_replaced_by_another() {
    with_fake_bed(with_standby(), async |bed| {
        filled(bed).await;
        bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Resume, 1), FaultEffect::Die);
        let view = bed.ensure(SandboxId::random()).await.unwrap();
        assert_eq!((view.boot_mode, bed.driver.faults().faults_applied()), ("cold", 1));
        assert_eq!(bed.run(view.id, "echo awake").await.unwrap().0, "awake\n");
        filled(bed).await;
        assert_eq!((bed.driver.live().len(), bed.layers.disks().len()), (3, 3));
    })
    .await;
}

/// The template is baked again beside the running host. Standby machines of the old layer must be
/// replaced.
#[tokio::test]
async fn machines_of_a_template_that_was_baked_again_go_and_new_ones_come() {
    with_fake_bed(with_standby(), async |bed| {
        filled(bed).await;
        let old = bed.driver.live();
        bed.bake_again().await;
        let exchanged = async || {
            let live = bed.driver.live();
            (live.len() == 2 && live.iter().all(|machine| !old.contains(machine))).then_some(())
        };
        wait_for("machines of the new layer", SOON, exchanged).await;
        filled(bed).await;
        let view = bed.ensure(SandboxId::random()).await.unwrap();
        assert_eq!(view.boot_mode, "standby");
    })
    .await;
}

#[tokio::test]
async fn a_failed_refill_does_not_stop_creates() {
    with_fake_bed(with_standby(), async |bed| {
        filled(bed).await;
        bed.driver.faults().plan(FaultedCalls::Every(DriverCall::Restore), FaultEffect::Fail);
        for _ in 0..2 {
            assert_eq!(bed.ensure(SandboxId::random()).await.unwrap().boot_mode, "standby");
        }
        assert_eq!(bed.ensure(SandboxId::random()).await.unwrap_err().code, "machine.start");
        bed.driver.faults().clear();
        assert_eq!(bed.ensure(SandboxId::random()).await.unwrap().boot_mode, "cold");
    })
    .await;
}

/// A standby machine may fail between its preparation and its use.
#[tokio::test]
async fn a_standby_machine_that_is_not_reborn_fails_its_create_only() {
    for (manner, code) in
        [(HandshakeBehaviour::RefusesRebirth, "guest.confused"), (HandshakeBehaviour::Silent, "guest.silent")]
    {
        let settings = HostSettings { launch_deadline: BRIEF, ..with_standby() };
        with_fake_bed(settings, async |bed| {
            filled(bed).await;
            bed.script.set_behaviour(manner);
            let id = SandboxId::random();
            assert_eq!(bed.ensure(id).await.unwrap_err().code, code);
            assert_eq!(bed.host.observe(id).await, None);
            bed.script.set_behaviour(HandshakeBehaviour::Good);
            assert_eq!(bed.ensure(id).await.unwrap().boot_mode, "standby");
        })
        .await;
    }
}

/// A close does not wait for a standby machine that never gets ready.
#[tokio::test]
async fn a_silent_standby_machine_does_not_hold_the_close_up() {
    with_fake_bed(with_standby(), async |bed| {
        filled(bed).await;
        bed.script.set_behaviour(HandshakeBehaviour::Silent);
        let dials = bed.driver.faults().calls(DriverCall::Dial);
        for machine in bed.driver.live() {
            bed.driver.kill(machine);
        }
        let asking = bed.ensure(SandboxId::random());
        let closing = async {
            wait_for("a new machine is dialled", SOON, async || {
                (bed.driver.faults().calls(DriverCall::Dial) > dials).then_some(())
            })
            .await;
            tokio::time::timeout(SOON, bed.host.close()).await.expect("the close waits for a silent guest");
        };
        assert!(tokio::join!(asking, closing).0.is_err());
    })
    .await;
}
