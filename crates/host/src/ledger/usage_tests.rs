//! Tests of usage facts with clocks that the test sets.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use pandastack_model::{LayerId, SandboxId, SandboxSpec, SandboxState};
use pandastack_wire_fleet::{MachineEvent, MachineFact, UsageCursor};

use super::*;
use crate::steady::{ClockReading, ClockSource};

const SECOND: i64 = 1_000_000_000;

/// Unix time of the boot in these tests, in seconds.
const BOOTED: i64 = 1_000_000;

const SIZE: BilledSize = BilledSize { vcpus: 2, memory_mib: 512, disk_bytes: 4 << 30 };

/// Both clocks, in seconds.
#[derive(Clone, Default)]
struct Clocks {
    boot: Arc<AtomicI64>,
    set: Arc<AtomicI64>,
}

impl Clocks {
    fn pass(&self, seconds: i64) {
        self.boot.fetch_add(seconds, Ordering::SeqCst);
    }

    /// Sets the wall clock so many seconds ahead.
    fn step(&self, seconds: i64) {
        self.set.fetch_add(seconds, Ordering::SeqCst);
    }

    fn source(&self, boot: &str) -> ClockSource {
        let clocks = self.clone();
        ClockSource::new(boot, move || {
            let since = clocks.boot.load(Ordering::SeqCst);
            let wall = BOOTED + since + clocks.set.load(Ordering::SeqCst);
            ClockReading { wall_ns: wall * SECOND, boot_ns: since * SECOND }
        })
    }
}

/// A ledger with one sandbox that does not run yet.
struct Metered {
    folder: tempfile::TempDir,
    clocks: Clocks,
    ledger: Ledger,
    id: SandboxId,
}

/// A fact without the parts that never change here: change, epoch, and its times in seconds since
/// boot.
type ShortFact = (MachineEvent, u32, i64, i64);

impl Metered {
    async fn new() -> Self {
        let (folder, clocks, id) = (tempfile::tempdir().unwrap(), Clocks::default(), SandboxId::random());
        let ledger = open(&folder, &clocks, "first").await;
        ledger.wanted(id, 1, &SandboxSpec::of("mini".parse().unwrap())).await.unwrap();
        Self { folder, clocks, ledger, id }
    }

    /// The next process of the host, in this boot or another.
    async fn restart(self, boot: &str) -> Self {
        self.ledger.close().await;
        let ledger = open(&self.folder, &self.clocks, boot).await;
        Self { ledger, ..self }
    }

    async fn runs(&self) {
        self.ledger.record_machine(self.id, &record(SandboxState::Running), SIZE).await.unwrap();
    }

    async fn becomes(&self, state: SandboxState) {
        self.ledger.record(self.id, &record(state)).await.unwrap();
    }

    async fn beat(&self) {
        self.ledger.heartbeat(&[self.id]).await.unwrap();
    }

    async fn facts(&self) -> Vec<MachineFact> {
        let mut facts = self.ledger.usage_facts(&UsageCursor::default(), 100).await.unwrap().facts;
        facts.sort_by_key(|fact| fact.sequence);
        facts
    }

    async fn short(&self) -> Vec<ShortFact> {
        let since = |ns: u64| ns as i64 / SECOND - BOOTED;
        let short = |fact: MachineFact| (fact.change, fact.epoch, since(fact.at_ns), since(fact.seen_ns));
        self.facts().await.into_iter().map(short).collect()
    }
}

async fn open(folder: &tempfile::TempDir, clocks: &Clocks, boot: &str) -> Ledger {
    Ledger::open_with(&folder.path().join("ledger.db"), clocks.source(boot)).await.unwrap()
}

fn record(state: SandboxState) -> SandboxRecord {
    let layer = (state == SandboxState::Asleep).then(LayerId::random);
    SandboxRecord { state, layer, secret: Some(vec![1]) }
}

fn failed() -> SandboxState {
    SandboxState::Failed { reason: "killed".into() }
}

#[tokio::test]
async fn every_state_that_is_billed_otherwise_is_a_fact() {
    let metered = Metered::new().await;
    metered.becomes(SandboxState::Waking).await;
    assert_eq!(metered.facts().await, [], "a sandbox that never ran has no facts");
    metered.runs().await;
    let steps = [
        SandboxState::Paused,
        SandboxState::Running,
        SandboxState::FallingAsleep,
        SandboxState::Asleep,
        SandboxState::Waking,
        SandboxState::Running,
        SandboxState::Stopping,
    ];
    for state in steps {
        metered.clocks.pass(10);
        // A repeated record adds nothing.
        metered.becomes(state.clone()).await;
        metered.clocks.pass(1);
        metered.becomes(state).await;
    }
    metered.clocks.pass(10);
    metered.ledger.sandbox_gone(metered.id).await.unwrap();
    metered.ledger.sandbox_gone(metered.id).await.unwrap();
    let expected = [
        (MachineEvent::Started, 0, 0, 0),
        (MachineEvent::Paused, 0, 10, 10),
        (MachineEvent::Resumed, 0, 21, 21),
        (MachineEvent::Hibernated, 0, 43, 43),
        (MachineEvent::Woken, 1, 65, 65),
        (MachineEvent::Ended, 1, 87, 87),
    ];
    assert_eq!(metered.short().await, expected);
    for fact in metered.facts().await {
        let size = BilledSize { vcpus: fact.vcpus, memory_mib: fact.memory_mib, disk_bytes: fact.disk_bytes };
        assert_eq!((fact.sandbox, size), (metered.id, SIZE), "the size stays with the sandbox");
    }
}

#[tokio::test]
async fn a_machine_after_a_failure_is_another_one_and_a_failed_sandbox_ends_once() {
    let metered = Metered::new().await;
    metered.runs().await;
    metered.becomes(failed()).await;
    metered.runs().await;
    metered.becomes(failed()).await;
    metered.ledger.sandbox_gone(metered.id).await.unwrap();
    // Of nobody that exists.
    metered.runs().await;
    let changes: Vec<_> = metered.short().await.into_iter().map(|(change, epoch, ..)| (change, epoch)).collect();
    use MachineEvent::{Ended, Started};
    assert_eq!(changes, [(Started, 0), (Ended, 0), (Started, 1), (Ended, 1)]);
}

#[tokio::test]
async fn a_paused_sandbox_sleeps_and_a_sleep_that_was_undone_is_a_new_machine() {
    let metered = Metered::new().await;
    metered.runs().await;
    metered.becomes(SandboxState::Paused).await;
    metered.ledger.record_durably(metered.id, &record(SandboxState::Asleep)).await.unwrap();
    metered.becomes(SandboxState::Paused).await;
    let changes: Vec<_> = metered.short().await.into_iter().map(|(change, epoch, ..)| (change, epoch)).collect();
    use MachineEvent::{Hibernated, Paused, Started};
    assert_eq!(changes, [(Started, 0), (Paused, 0), (Hibernated, 0), (Paused, 1)]);
}

#[tokio::test]
async fn a_heartbeat_confirms_machines_only() {
    let metered = Metered::new().await;
    metered.beat().await;
    metered.runs().await;
    metered.clocks.pass(10);
    metered.beat().await;
    let page = metered.ledger.usage_facts(&UsageCursor::default(), 10).await.unwrap();
    metered.clocks.pass(10);
    metered.beat().await;
    let next = metered.ledger.usage_facts(&page.cursor, 10).await.unwrap();
    assert_eq!((next.facts.len(), next.more), (1, false), "it is told again");
    assert!(next.cursor.revision > page.cursor.revision);
    assert_eq!(next.facts[0].sequence, page.facts[0].sequence);
    assert_eq!(metered.short().await, [(MachineEvent::Started, 0, 0, 20)]);
    metered.becomes(SandboxState::Paused).await;
    metered.clocks.pass(5);
    metered.ledger.heartbeat(&[SandboxId::random()]).await.unwrap();
    metered.ledger.heartbeat(&[]).await.unwrap();
    assert_eq!(metered.short().await[1], (MachineEvent::Paused, 0, 20, 20), "nobody confirmed it");
    metered.beat().await;
    assert_eq!(metered.short().await[1], (MachineEvent::Paused, 0, 20, 25));
    metered.becomes(SandboxState::Asleep).await;
    metered.clocks.pass(5);
    metered.beat().await;
    assert_eq!(metered.short().await[2], (MachineEvent::Hibernated, 0, 25, 25), "it has no machine");
}

#[tokio::test]
async fn the_heartbeat_of_many_gives_each_its_own_revision() {
    let metered = Metered::new().await;
    let mut all = vec![metered.id];
    metered.runs().await;
    for _ in 0..4 {
        let id = SandboxId::random();
        metered.ledger.wanted(id, 1, &SandboxSpec::of("mini".parse().unwrap())).await.unwrap();
        metered.ledger.record_machine(id, &record(SandboxState::Running), SIZE).await.unwrap();
        all.push(id);
    }
    metered.clocks.pass(10);
    metered.ledger.heartbeat(&all).await.unwrap();
    let first = metered.ledger.usage_facts(&UsageCursor::default(), 3).await.unwrap();
    assert_eq!((first.facts.len(), first.more), (3, true));
    let rest = metered.ledger.usage_facts(&first.cursor, 3).await.unwrap();
    assert_eq!((rest.facts.len(), rest.more), (2, false));
    let mut read: Vec<_> = first.facts.iter().chain(&rest.facts).map(|fact| fact.sandbox).collect();
    read.sort();
    all.sort();
    assert_eq!(read, all);
    assert_eq!(metered.short().await.iter().map(|fact| fact.3).collect::<Vec<_>>(), [10; 5]);
}

#[tokio::test]
async fn the_next_process_goes_on_with_the_same_clock_and_machine() {
    let metered = Metered::new().await;
    metered.runs().await;
    metered.clocks.pass(10);
    metered.beat().await;
    metered.clocks.pass(100);
    let metered = metered.restart("first").await;
    metered.ledger.meter(metered.id, &SandboxState::Running, SIZE).await.unwrap();
    metered.beat().await;
    assert_eq!(metered.short().await, [(MachineEvent::Started, 0, 0, 110)], "the crash is billed");
    metered.becomes(SandboxState::Paused).await;
    let sizes: Vec<_> = metered.facts().await.iter().map(|fact| (fact.vcpus, fact.memory_mib)).collect();
    assert_eq!(sizes, [(2, 512), (2, 512)], "the size outlives the process");
}

#[tokio::test]
async fn a_lost_machine_ends_at_its_last_heartbeat() {
    for is_removed in [false, true] {
        let metered = Metered::new().await;
        metered.runs().await;
        metered.clocks.pass(10);
        metered.beat().await;
        metered.clocks.pass(100);
        let metered = metered.restart("second").await;
        if is_removed {
            metered.ledger.sandbox_lost(metered.id).await.unwrap();
        } else {
            metered.ledger.record_lost(metered.id, &record(failed())).await.unwrap();
        }
        // Another epoch, so the time between is not billed.
        assert_eq!(metered.short().await, [(MachineEvent::Started, 0, 0, 10), (MachineEvent::Ended, 1, 110, 110)]);
    }
}

/// The facts before and after the step have different epochs, so the step itself is not billed.
#[tokio::test]
async fn a_step_of_the_wall_clock_is_not_billed() {
    for step in [3600, -3600] {
        let metered = Metered::new().await;
        metered.runs().await;
        metered.clocks.pass(10);
        metered.clocks.step(step);
        // Nobody has noticed yet.
        metered.clocks.pass(5);
        metered.becomes(SandboxState::Paused).await;
        metered.clocks.pass(5);
        metered.beat().await;
        metered.beat().await;
        let mut expected = vec![
            (MachineEvent::Started, 0, 0, 0),
            (MachineEvent::Paused, 0, 15, 20),
            (MachineEvent::Paused, 1, 20 + step, 20 + step),
        ];
        assert_eq!(metered.short().await, expected);
        metered.clocks.pass(5);
        metered.becomes(SandboxState::Running).await;
        expected.push((MachineEvent::Resumed, 1, 25 + step, 25 + step));
        assert_eq!(metered.short().await, expected);
        metered.clocks.step(-step);
        let metered = metered.restart("first").await;
        metered.clocks.pass(5);
        metered.beat().await;
        expected[3].3 = 30 + step;
        expected.push((MachineEvent::Started, 2, 30, 30));
        assert_eq!(metered.short().await, expected, "a step while no process ran is found at the start");
    }
}

#[tokio::test]
async fn a_small_step_is_ignored_and_a_sleeper_has_nothing_to_repeat() {
    let metered = Metered::new().await;
    metered.runs().await;
    metered.clocks.step(2);
    metered.beat().await;
    assert_eq!(metered.short().await, [(MachineEvent::Started, 0, 0, 0)]);
    metered.becomes(SandboxState::Asleep).await;
    metered.clocks.step(60);
    metered.ledger.heartbeat(&[]).await.unwrap();
    metered.runs().await;
    let expected =
        [(MachineEvent::Started, 0, 0, 0), (MachineEvent::Hibernated, 0, 0, 0), (MachineEvent::Woken, 1, 62, 62)];
    assert_eq!(metered.short().await, expected);
}

#[tokio::test]
async fn confirmed_facts_are_forgotten_when_they_are_over() {
    let metered = Metered::new().await;
    metered.runs().await;
    metered.becomes(SandboxState::Paused).await;
    let page = metered.ledger.usage_facts(&UsageCursor::default(), 10).await.unwrap();
    assert_eq!((page.facts.len(), metered.facts().await.len()), (2, 2), "a look from the beginning confirms nothing");
    metered.becomes(SandboxState::Running).await;
    let other = UsageCursor { ledger: "other".into(), ..page.cursor.clone() };
    assert_eq!(metered.ledger.usage_facts(&other, 10).await.unwrap().facts.len(), 3, "the cursor of another ledger");
    let next = metered.ledger.usage_facts(&page.cursor, 10).await.unwrap();
    assert_eq!(next.facts.iter().map(|fact| fact.change).collect::<Vec<_>>(), [MachineEvent::Resumed]);
    assert_eq!(metered.facts().await, next.facts, "the others are over");
    let empty = metered.ledger.usage_facts(&next.cursor, 10).await.unwrap();
    assert_eq!((empty.facts.len(), &empty.cursor), (0, &next.cursor));
    assert_eq!(metered.facts().await.len(), 1, "the last fact of a sandbox stays with it");
    metered.ledger.sandbox_gone(metered.id).await.unwrap();
    let end = metered.ledger.usage_facts(&empty.cursor, 10).await.unwrap();
    assert_eq!(end.facts.iter().map(|fact| fact.change).collect::<Vec<_>>(), [MachineEvent::Ended]);
    metered.ledger.usage_facts(&end.cursor, 10).await.unwrap();
    assert_eq!(metered.facts().await, []);
    // No number is used twice, or a reader would miss the fact.
    metered.ledger.wanted(metered.id, 1, &SandboxSpec::of("mini".parse().unwrap())).await.unwrap();
    metered.runs().await;
    let new = metered.ledger.usage_facts(&end.cursor, 10).await.unwrap();
    assert_eq!(new.facts.len(), 1);
    assert!(new.facts[0].sequence > end.facts[0].sequence);
}

/// A power cut may lose facts that were read. Later ones must not get their numbers.
#[tokio::test]
async fn after_a_boot_no_number_of_a_lost_fact_is_used_again() {
    let metered = Metered::new().await;
    metered.runs().await;
    let copy = tempfile::tempdir().unwrap();
    sqlx::query("VACUUM INTO ?")
        .bind(copy.path().join("ledger.db").display().to_string())
        .execute(&metered.ledger.pool)
        .await
        .unwrap();
    metered.becomes(SandboxState::Paused).await;
    let read = metered.ledger.usage_facts(&UsageCursor::default(), 10).await.unwrap();
    let metered = Metered { folder: copy, ..metered };
    let back = open(&metered.folder, &metered.clocks, "first").await;
    assert_eq!(back.usage_facts(&read.cursor, 10).await.unwrap().facts.len(), 1, "an old copy is read from its start");
    back.close().await;
    let metered = metered.restart("second").await;
    metered.ledger.record_lost(metered.id, &record(failed())).await.unwrap();
    let next = metered.ledger.usage_facts(&read.cursor, 10).await.unwrap();
    assert_eq!(next.facts.iter().map(|fact| fact.change).collect::<Vec<_>>(), [MachineEvent::Ended]);
    assert!(next.facts[0].sequence > read.cursor.revision);
}

#[tokio::test]
async fn facts_that_nobody_reads_are_dropped_from_the_oldest() {
    let metered = Metered::new().await;
    metered.runs().await;
    for _ in 0..5 {
        metered.becomes(SandboxState::Paused).await;
        metered.becomes(SandboxState::Running).await;
    }
    let (before, ledger) = (metered.facts().await, &metered.ledger);
    let mut work = ledger.pool.begin().await.unwrap();
    assert_eq!(usage::drop_oldest(&mut work, 11).await.unwrap(), 0);
    assert_eq!(usage::drop_oldest(&mut work, 4).await.unwrap(), 7);
    work.commit().await.unwrap();
    assert_eq!(metered.facts().await, before[7..]);
    let mut work = ledger.pool.begin().await.unwrap();
    assert_eq!(usage::drop_oldest(&mut work, 0).await.unwrap(), 3);
    work.commit().await.unwrap();
    assert_eq!(metered.facts().await, before[10..], "the last one is needed for what follows");
}

#[tokio::test]
async fn sandboxes_of_an_earlier_version_are_metered_from_the_start() {
    let metered = Metered::new().await;
    let version_two = "DROP VIEW sandbox_changes; DROP VIEW usage_changes; DROP TABLE usage_facts;
                       DROP TABLE usage_ledger; PRAGMA user_version = 2";
    sqlx::raw_sql(version_two).execute(&metered.ledger.pool).await.unwrap();
    sqlx::raw_sql("UPDATE sandboxes SET state = 'paused'").execute(&metered.ledger.pool).await.unwrap();
    let metered = metered.restart("first").await;
    metered.clocks.pass(7);
    assert_eq!(metered.facts().await, []);
    for _ in 0..2 {
        metered.ledger.meter(metered.id, &SandboxState::Paused, SIZE).await.unwrap();
    }
    assert_eq!(metered.short().await, [(MachineEvent::Paused, 0, 7, 7)]);
    metered.becomes(SandboxState::Asleep).await;
    let last = metered.facts().await[1];
    assert_eq!((last.change, last.disk_bytes), (MachineEvent::Hibernated, SIZE.disk_bytes));
}

#[tokio::test]
async fn a_page_has_a_limit_whatever_is_asked() {
    let metered = Metered::new().await;
    metered.runs().await;
    for _ in 0..=usage::PAGE_MAX / 2 {
        metered.becomes(SandboxState::Paused).await;
        metered.becomes(SandboxState::Running).await;
    }
    let page = metered.ledger.usage_facts(&UsageCursor::default(), usize::MAX).await.unwrap();
    assert_eq!((page.facts.len(), page.more), (usage::PAGE_MAX, true));
    let page = metered.ledger.usage_facts(&UsageCursor::default(), 0).await.unwrap();
    assert_eq!((page.facts.len(), page.more), (1, true));
}
