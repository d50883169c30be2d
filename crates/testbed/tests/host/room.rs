//! A guest that is stopped because the host's disk is full: it survives a lost link and a host
//! restart, and continues when there is space.

use std::sync::Arc;

use pandastack_host::HostSettings;
use pandastack_model::SandboxState;
use pandastack_testbed::{FakeBed, FakeHostState, wait_for, with_fake_bed};
use pandastack_vmm_fake::{DriverCall, FaultEffect, FaultedCalls};
use pandastack_wire_fleet::HostPort;

use crate::{
    BRIEF, SOON,
    crash::{cut_off, runtime},
};

/// Settings with a short timeout for silent guests.
fn impatient() -> HostSettings {
    HostSettings { launch_deadline: BRIEF, ..FakeBed::settings() }
}

#[test]
fn a_guest_that_waits_for_room_is_taken_over_and_goes_on_later() {
    for before in [SandboxState::Running, SandboxState::Paused] {
        let ground = runtime().block_on(async { Arc::new(FakeHostState::make().await.unwrap()) });
        let first = runtime();
        let (id, machine) = first.block_on(async {
            let bed = FakeBed::start_over(ground.clone(), impatient()).await.unwrap();
            let (id, machine) = bed.create().await;
            bed.put(id, "/note", "kept").await.unwrap();
            bed.driver.set_disk_space(machine, false);
            if before == SandboxState::Paused {
                bed.host.pause(id).await.unwrap();
            }
            (id, machine)
        });
        cut_off(first);
        runtime().block_on(async {
            let bed = FakeBed::start_over(ground.clone(), impatient()).await.unwrap();
            assert_eq!(bed.state(id).await.unwrap(), before, "nobody waits for it, and it is not given up");
            // Longer than the timeout of a running guest.
            tokio::time::sleep(impatient().launch_deadline * 2).await;
            assert_eq!(bed.state(id).await.unwrap(), before);
            bed.driver.set_disk_space(machine, true);
            if before == SandboxState::Paused {
                bed.host.resume(id).await.unwrap();
            }
            let note = wait_for("the guest to be reached", SOON, async || bed.text(id, "/note").await.ok()).await;
            assert_eq!(note, "kept");
            bed.host.remove(id).await.unwrap();
            bed.host.close().await;
            assert!(bed.leftovers().await.unwrap().is_empty());
        });
    }
}

#[tokio::test]
async fn a_link_that_is_lost_while_a_guest_waits_for_room_is_dialled_until_there_is_some() {
    with_fake_bed(impatient(), async |bed| {
        let (id, machine) = bed.create().await;
        bed.put(id, "/note", "kept").await.unwrap();
        bed.driver.set_disk_space(machine, false);
        bed.driver.hang_up(machine);
        tokio::time::sleep(impatient().launch_deadline * 3).await;
        assert_eq!(bed.state(id).await.unwrap(), SandboxState::Running);
        bed.driver.set_disk_space(machine, true);
        let note = wait_for("the guest to be reached", SOON, async || bed.text(id, "/note").await.ok()).await;
        assert_eq!(note, "kept");
    })
    .await;
}

#[tokio::test]
async fn who_waits_for_room_can_be_removed() {
    with_fake_bed(impatient(), async |bed| {
        let (id, machine) = bed.create().await;
        bed.driver.set_disk_space(machine, false);
        bed.driver.hang_up(machine);
        tokio::time::timeout(SOON, bed.host.remove(id)).await.expect("it need not wait for room").unwrap();
        assert_eq!(bed.state(id).await, None);
    })
    .await;
}

#[tokio::test]
async fn a_guest_is_told_the_time_when_it_goes_on() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (_, machine) = bed.create().await;
        for _ in 0..2 {
            bed.driver.set_disk_space(machine, false);
            bed.script.take_rebirths();
            bed.driver.set_disk_space(machine, true);
            let told = async || bed.script.take_rebirths().pop();
            let told = wait_for("the time", SOON, told).await;
            assert!(told.identity.is_none(), "it is who it was");
        }
    })
    .await;
}

#[tokio::test]
async fn a_link_is_dialled_until_the_deadline_however_often_that_fails() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, machine) = bed.create().await;
        bed.put(id, "/note", "kept").await.unwrap();
        for nth in 1..=20 {
            bed.driver.faults().plan(FaultedCalls::Nth(DriverCall::Dial, nth), FaultEffect::Fail);
        }
        bed.driver.hang_up(machine);
        let note = wait_for("the guest to be reached", SOON, async || bed.text(id, "/note").await.ok()).await;
        assert_eq!((note.as_str(), bed.state(id).await), ("kept", Some(SandboxState::Running)));
    })
    .await;
}
