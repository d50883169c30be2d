//! What the host tells about the use of its machines, and what is billed from that.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use pandastack_billing::{UsageInterval, fold_usage};
use pandastack_control::usage_fact;
use pandastack_host::{HostSettings, ShutdownMode};
use pandastack_model::{SandboxId, SandboxState};
use pandastack_testbed::{FakeBed, FakeHostState, wait_for, with_fake_bed};
use pandastack_wire_fleet::{
    HostPort,
    MachineEvent::{self, Ended, Hibernated, Paused, Resumed, Started, Woken},
    MachineFact, UsageCursor,
};

use crate::{
    SOON,
    crash::{cut_off, host, runtime},
    fork_of,
};

/// All facts about a sandbox, oldest first. Confirms nothing.
async fn facts(bed: &FakeBed, id: SandboxId) -> Vec<MachineFact> {
    let page = bed.host.usage_facts(&UsageCursor::default(), 1000).await.unwrap();
    let mut facts: Vec<_> = page.facts.into_iter().filter(|fact| fact.sandbox == id).collect();
    facts.sort_by_key(|fact| fact.sequence);
    facts
}

async fn changes(bed: &FakeBed, id: SandboxId) -> Vec<(MachineEvent, u32)> {
    facts(bed, id).await.iter().map(|fact| (fact.change, fact.epoch)).collect()
}

/// Checks that the last fact about every sandbox tells its state, and that all others have ended.
pub(crate) async fn facts_agree(bed: &FakeBed) {
    let (mut cursor, mut last) = (UsageCursor::default(), BTreeMap::<SandboxId, MachineFact>::new());
    loop {
        let page = bed.host.usage_facts(&cursor, 1000).await.unwrap();
        for fact in page.facts {
            let slot = last.entry(fact.sandbox).or_insert(fact);
            *slot = if fact.sequence > slot.sequence { fact } else { *slot };
        }
        cursor = page.cursor;
        if !page.more {
            break;
        }
    }
    for view in bed.host.observe_all().await {
        let change = last.remove(&view.id).expect("every sandbox has a fact").change;
        let agrees = match view.state {
            SandboxState::Running => matches!(change, Started | Resumed | Woken),
            SandboxState::Paused => change == Paused,
            SandboxState::Asleep => change == Hibernated,
            SandboxState::Failed { .. } => change == Ended,
            _ => true,
        };
        assert!(agrees, "{change:?} for {}", view.state);
    }
    assert!(last.values().all(|fact| fact.change == Ended), "{last:?}");
}

/// What is billed for a sandbox.
fn bill(facts: &[MachineFact]) -> Vec<UsageInterval> {
    fold_usage(facts.iter().map(usage_fact), u64::MAX)
}

#[tokio::test]
async fn every_step_of_a_sandbox_is_told_and_billed() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, view) = (SandboxId::random(), bed.ensure(SandboxId::random()).await.unwrap());
        bed.ensure(id).await.unwrap();
        bed.host.pause(id).await.unwrap();
        bed.host.pause(id).await.unwrap();
        bed.host.resume(id).await.unwrap();
        bed.host.sleep(id).await.unwrap();
        bed.host.wake(id).await.unwrap();
        bed.host.pause(id).await.unwrap();
        bed.host.sleep(id).await.unwrap();
        bed.text(id, "/none").await.unwrap_err();
        bed.host.remove(id).await.unwrap();
        let told = facts(bed, id).await;
        let expected = [
            (Started, 0),
            (Paused, 0),
            (Resumed, 0),
            (Hibernated, 0),
            (Woken, 1),
            (Paused, 1),
            (Hibernated, 1),
            (Woken, 2),
            (Ended, 2),
        ];
        assert_eq!(told.iter().map(|fact| (fact.change, fact.epoch)).collect::<Vec<_>>(), expected);
        assert!(told.is_sorted_by_key(|fact| fact.at_ns));
        assert!(told.iter().all(|fact| fact.seen_ns == fact.at_ns));
        for fact in &told {
            assert_eq!((fact.vcpus, fact.memory_mib), (view.cpus, view.memory_mib));
            assert_eq!(fact.disk_bytes >> 20, view.disk_mib);
        }
        // The end of each state is the beginning of the next, but nothing runs before a wake.
        let billed = bill(&told);
        assert_eq!(billed.first().unwrap().from_ns, told[0].at_ns);
        assert_eq!(billed.last().unwrap().to_ns, told[8].at_ns);
        let cpu: u64 = billed.iter().filter(|part| part.vcpus > 0).map(|part| part.to_ns - part.from_ns).sum();
        let ran = |from: usize| told[from + 1].at_ns - told[from].at_ns;
        assert_eq!(cpu, [0, 2, 4, 7].map(ran).into_iter().sum::<u64>());
    })
    .await;
}

#[tokio::test]
async fn children_of_a_fork_are_metered_from_their_start() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (parent, _) = bed.create().await;
        let (ask, children) = fork_of(parent, 2);
        bed.host.fork(ask).await.unwrap();
        for child in children {
            assert_eq!(changes(bed, child).await, [(Started, 0)]);
            bed.host.remove(child).await.unwrap();
            assert_eq!(changes(bed, child).await, [(Started, 0), (Ended, 0)]);
        }
        assert_eq!(changes(bed, parent).await, [(Started, 0)], "a seal is no change");
    })
    .await;
}

#[tokio::test]
async fn a_machine_that_dies_ends_its_bill() {
    with_fake_bed(FakeBed::settings(), async |bed| {
        let (id, machine) = bed.create().await;
        bed.driver.kill(machine);
        wait_for("the end", SOON, async || (changes(bed, id).await == [(Started, 0), (Ended, 0)]).then_some(())).await;
        bed.host.remove(id).await.unwrap();
        assert_eq!(changes(bed, id).await, [(Started, 0), (Ended, 0)]);
    })
    .await;
}

#[tokio::test]
async fn a_running_sandbox_is_confirmed_and_read_facts_are_forgotten() {
    let settings = HostSettings { heartbeat_every: Duration::from_millis(10), ..FakeBed::settings() };
    with_fake_bed(settings, async |bed| {
        let (id, _) = bed.create().await;
        let confirmed = async || {
            let told = facts(bed, id).await;
            (told.len() == 1 && told[0].seen_ns > told[0].at_ns).then_some(())
        };
        wait_for("a heartbeat", SOON, confirmed).await;
        bed.host.remove(id).await.unwrap();
        let page = bed.host.usage_facts(&UsageCursor::default(), 1000).await.unwrap();
        assert_eq!((page.facts.len(), page.more), (2, false));
        let next = bed.host.usage_facts(&page.cursor, 1000).await.unwrap();
        assert_eq!((next.facts.len(), next.cursor), (0, page.cursor));
        assert_eq!(facts(bed, id).await, []);
    })
    .await;
}

/// The next host continues with the machines that survived. The others end when they were last
/// seen.
#[test]
fn a_killed_host_keeps_the_count_of_machines_that_survive() {
    let first = runtime();
    let (ground, before, lost) = first.block_on(async {
        let ground = Arc::new(FakeHostState::make().await.unwrap());
        let bed = host(&ground).await;
        let (running, (paused, _), (asleep, _)) = (bed.create().await.0, bed.create().await, bed.create().await);
        let (lost, machine) = bed.create().await;
        bed.host.pause(paused).await.unwrap();
        bed.host.sleep(asleep).await.unwrap();
        let mut before = Vec::new();
        for id in [running, paused, asleep] {
            before.push((id, facts(&bed, id).await));
        }
        (ground, before, (lost, machine))
    });
    cut_off(first);
    ground.driver.kill(lost.1);
    runtime().block_on(async {
        let bed = host(&ground).await;
        for (id, mut told) in before {
            let now = facts(&bed, id).await;
            let (last, seen) = (told.last_mut().unwrap(), now.last().unwrap());
            assert_eq!(seen.seen_ns > last.seen_ns, last.change != Hibernated, "it is seen as soon as it is back");
            last.seen_ns = seen.seen_ns;
            assert_eq!(now, told);
            bed.host.remove(id).await.unwrap();
            assert_eq!(changes(&bed, id).await.last(), Some(&(Ended, 0)));
        }
        assert_eq!(changes(&bed, lost.0).await, [(Started, 0), (Ended, 1)]);
        assert_eq!(bill(&facts(&bed, lost.0).await), [], "nobody saw it run");
        bed.host.close().await;
    });
}

#[tokio::test]
async fn a_host_that_ends_well_confirms_its_machines_once_more() {
    let ground = Arc::new(FakeHostState::make().await.unwrap());
    let bed = host(&ground).await;
    let (id, _) = bed.create().await;
    let before = facts(&bed, id).await;
    bed.host.close_as(ShutdownMode::Running).await;
    let ledger = pandastack_host::Ledger::open(&ground.ledger()).await.unwrap();
    let after = ledger.usage_facts(&UsageCursor::default(), 10).await.unwrap().facts;
    ledger.close().await;
    assert!(after[0].seen_ns > before[0].seen_ns);
    let bed = host(&ground).await;
    assert_eq!(changes(&bed, id).await, [(Started, 0)]);
    bed.host.close_as(ShutdownMode::Sleep).await;
    let bed = host(&ground).await;
    assert_eq!(changes(&bed, id).await, [(Started, 0), (Hibernated, 0)]);
    bed.host.close().await;
    let bed = host(&ground).await;
    assert_eq!(changes(&bed, id).await, [(Started, 0), (Hibernated, 0), (Ended, 0)]);
    bed.host.close().await;
}
