//! The time in a guest after every operation.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pandastack_e2e::{PATIENCE, read_until, shell, start};
use pandastack_model::{LayerId, SandboxId, SandboxOrigin, SandboxSpec};
use pandastack_testbed::{Bed, spec, stretched, wait_for};
use pandastack_wire_fleet::{EnsureParams, HostPort, LayerHold, SealParams};

use super::{CLOCK_SKEW_MAX, STANDSTILL, ask, number, with_resident};

/// Pauses of this total length would show in a clock that stopped in each.
const PAUSES_MIN: Duration = Duration::from_millis(1500);

/// Maximum seals to reach it. One pauses a guest for a few milliseconds at least.
const SEALS_MAX: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_has_the_hosts_time_however_it_came_to_life() {
    with_resident(async |bed, source| {
        clock_is_right(bed, source, "created cold").await;
        let layer = LayerId::random();
        bed.host.seal(source, SealParams { layer, hold: LayerHold::Kept }).await.unwrap();
        bed.host.sleep(source).await.unwrap();
        tokio::time::sleep(stretched(STANDSTILL)).await;
        bed.host.wake(source).await.unwrap();
        clock_is_right(bed, source, "woken").await;
        let late = SandboxId::random();
        let spec = SandboxSpec { origin: SandboxOrigin::Layer(layer), ..spec("mini") };
        bed.host.ensure(EnsureParams { id: late, generation: 1, spec }).await.unwrap();
        clock_is_right(bed, late, "created from an old snapshot").await;
        let child = bed.fork(late, 1).await.unwrap()[0];
        clock_is_right(bed, child, "forked").await;
        clock_is_right(bed, late, "the source of a fork").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resume_sets_the_clock_and_disturbs_nothing() {
    with_resident(async |bed, id| {
        let mut running =
            start(bed, id, shell("echo before; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo after")).await.unwrap();
        read_until(&mut running, "before").await;
        bed.host.pause(id).await.unwrap();
        tokio::time::sleep(stretched(STANDSTILL)).await;
        bed.host.resume(id).await.unwrap();
        clock_is_right(bed, id, "resumed").await;
        bed.out(id, "touch /tmp/go").await;
        read_until(&mut running, "after").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pauses_of_many_seals_do_not_add_up() {
    with_resident(async |bed, id| {
        let mut paused = Duration::ZERO;
        for _ in 0..SEALS_MAX {
            let layer = LayerId::random();
            paused += bed.host.seal(id, SealParams { layer, hold: LayerHold::Kept }).await.unwrap().pause;
            bed.host.release(layer).await.unwrap();
            if paused > stretched(PAUSES_MIN) {
                break;
            }
        }
        assert!(paused > stretched(PAUSES_MIN), "only {paused:?}");
        clock_is_right(bed, id, "sealed often").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_only_count_never_go_back_and_stand_still_with_the_machine() {
    with_resident(async |bed, id| {
        assert_eq!(ask(bed, id, "threading.Thread(target=watch, daemon=True).start()").await, "None");
        never_back(bed, id, "at first").await;
        let child = bed.fork(id, 1).await.unwrap()[0];
        never_back(bed, id, "in the source of a fork").await;
        never_back(bed, child, "in a fork").await;
        bed.host.pause(id).await.unwrap();
        bed.host.resume(id).await.unwrap();
        never_back(bed, id, "after a resume").await;
        for clock in ["time.CLOCK_MONOTONIC", "time.CLOCK_BOOTTIME"] {
            let read = format!("time.clock_gettime({clock})");
            let (asked, before) = (Instant::now(), number(bed, child, &read).await);
            bed.host.sleep(child).await.unwrap();
            tokio::time::sleep(stretched(STANDSTILL)).await;
            bed.host.wake(child).await.unwrap();
            let (passed, all) = (number(bed, child, &read).await - before, asked.elapsed().as_secs_f64());
            assert!(passed > 0.0, "{clock} went back by {passed}");
            let most = all - stretched(STANDSTILL).as_secs_f64() / 2.0;
            assert!(passed < most, "{clock} counted {passed} s of {all} s, most of which its machine slept");
        }
        never_back(bed, child, "after a wake").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_go_on_with_what_was_left_and_those_on_the_wall_clock_are_due() {
    with_resident(async |bed, id| {
        let flags = "1"; // TFD_TIMER_ABSTIME
        let set = async |name: &str, clock: &str, flags: &str, seconds: &str| {
            let call = format!("set_timer('{name}', time.CLOCK_{clock}, {flags}, {seconds})");
            assert_eq!(ask(bed, id, &call).await, "0", "{name}");
        };
        let wait = stretched(STANDSTILL) * 4;
        set("left", "MONOTONIC", "0", "3600").await;
        set("wall", "REALTIME", flags, &format!("time.time() + {}", wait.as_secs_f64())).await;
        set("later", "REALTIME", flags, "time.time() + 3600").await;
        let (set, before) = (Instant::now(), number(bed, id, "left('left')").await);
        assert_eq!(ask(bed, id, "is_due('wall')").await, "False");
        bed.host.sleep(id).await.unwrap();
        tokio::time::sleep(wait).await;
        bed.host.wake(id).await.unwrap();
        let (after, all) = (number(bed, id, "left('left')").await, set.elapsed().as_secs_f64());
        assert!(before > after && after > 0.0, "{before} s were left, then {after} s");
        assert!(before - after < all - wait.as_secs_f64() / 2.0, "{} s of {all} s went by for it", before - after);
        let due = async || (ask(bed, id, "is_due('wall')").await == "True").then_some(());
        wait_for("the timer on the wall clock", PATIENCE, due).await;
        assert_eq!(ask(bed, id, "is_due('later')").await, "False");
    })
    .await;
}

/// Fails if a clock of the resident has gone back, after some more samples.
async fn never_back(bed: &Bed, id: SandboxId, when: &str) {
    let before = number(bed, id, "samples").await;
    let looked = async || (number(bed, id, "samples").await > before + 20.0).then_some(());
    wait_for("some more samples", PATIENCE, looked).await;
    let least = number(bed, id, "least").await;
    assert!(least >= 0.0, "{when}: a clock went back by {least} s");
}

async fn clock_is_right(bed: &Bed, id: SandboxId, when: &str) {
    // The guest read its clock between our request and its answer.
    let before = now();
    let guest = Duration::from_secs_f64(number(bed, id, "time.time()").await);
    let after = now();
    assert!(guest + stretched(CLOCK_SKEW_MAX) > before, "{when}: {:?} behind", before.saturating_sub(guest));
    assert!(guest < after + stretched(CLOCK_SKEW_MAX), "{when}: {:?} ahead", guest.saturating_sub(after));
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}
