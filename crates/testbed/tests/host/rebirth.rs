//! Messages to a guest when it resumes: new entropy and the time, and the time again if it was
//! slow. `docs/fork-correctness.md` is the contract.

use std::time::Duration;

use pandastack_host::HostSettings;
use pandastack_model::{Egress, LayerId, SandboxId};
use pandastack_testbed::{FakeBed, with_fake_bed};
use pandastack_wire_fleet::{HostPort, LayerHold, SealParams};
use pandastack_wire_guest::Rebirth;

/// Longer than a time exchange may take.
const SLOW: Duration = Duration::from_millis(150);

/// Makes a guest resume, and returns the messages it got. A later exchange shows that no more come:
/// the sandbox's task works in sequence.
async fn after(bed: &FakeBed, id: SandboxId, act: impl AsyncFnOnce()) -> Vec<Rebirth> {
    bed.script.take_rebirths();
    act().await;
    bed.host.set_egress(id, Egress::Open).await.unwrap();
    bed.script.take_rebirths()
}

#[tokio::test]
async fn whoever_goes_on_gets_fresh_entropy_and_keeps_its_name() {
    // On a busy machine an exchange is slow too, and would be repeated.
    let settings = HostSettings { clock_exchange_max: Duration::from_secs(3600), ..FakeBed::settings() };
    with_fake_bed(settings, async |bed| {
        let (id, _) = bed.create().await;
        let born = bed.script.take_rebirths();
        assert_eq!(born.len(), 1, "{born:?}");
        assert!(born[0].identity.is_some(), "a new sandbox has a name of its own");
        let slept = after(bed, id, async || {
            bed.host.sleep(id).await.unwrap();
            bed.host.wake(id).await.unwrap();
        })
        .await;
        let paused = after(bed, id, async || {
            bed.host.pause(id).await.unwrap();
            bed.host.resume(id).await.unwrap();
        })
        .await;
        let layer = LayerId::random();
        let sealed = after(bed, id, async || {
            bed.host.seal(id, SealParams { layer, hold: LayerHold::Passing }).await.unwrap();
        })
        .await;
        let mut all = born;
        for told in [slept, paused, sealed] {
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!(told[0].identity, None);
            all.extend(told);
        }
        assert!(all.iter().all(|told| told.entropy.len() == 64));
        assert!(all.windows(2).all(|pair| pair[0].wall_clock_ns < pair[1].wall_clock_ns), "time goes on");
        let mut pools: Vec<_> = all.iter().map(|told| &told.entropy).collect();
        pools.sort();
        pools.dedup();
        assert_eq!(pools.len(), all.len(), "two lives got the same entropy");
        bed.host.release(layer).await.unwrap();
    })
    .await;
}

/// Its clock may be late by the time of its answer. On a host so busy that no answer is fast, three
/// attempts must be enough.
#[tokio::test]
async fn a_slow_guest_is_told_the_time_again_but_not_for_ever() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, _) = bed.create().await;
        bed.script.delay_rebirth(SLOW);
        let paused = after(bed, id, async || {
            bed.host.pause(id).await.unwrap();
            bed.host.resume(id).await.unwrap();
        })
        .await;
        assert_eq!(paused.len(), 3);
        let slept = after(bed, id, async || {
            bed.host.sleep(id).await.unwrap();
            bed.host.wake(id).await.unwrap();
        })
        .await;
        assert_eq!(slept.len(), 4, "the new life, and the time three times");
        for told in [paused, slept] {
            assert!(
                told.windows(2).all(|pair| pair[0].wall_clock_ns < pair[1].wall_clock_ns),
                "always the time of then"
            );
            assert!(told.windows(2).all(|pair| pair[0].entropy != pair[1].entropy));
        }
        bed.script.delay_rebirth(Duration::ZERO);
        assert_eq!(bed.run(id, "echo here").await.unwrap().0, "here\n");
    })
    .await;
}
