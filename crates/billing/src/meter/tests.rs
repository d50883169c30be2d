//! Lives with lost, doubled, shuffled and mistimed facts. The truth is painted second by second
//! from the host's own log, in the order in which things really happened.

use proptest::prelude::*;

use super::*;
use crate::calendar::{CalendarWindow, HOUR_NS, SECOND_NS, UtcDay, UtcHour, UtcMonth};

const DISK: u64 = 5 << 30;

fn fact(sequence: u64, kind: FactKind, at_s: u64) -> UsageFact {
    let at_ns = at_s * SECOND_NS;
    UsageFact { epoch: 0, sequence, kind, vcpus: 2, memory_mib: 1024, storage_bytes: DISK, at_ns, seen_ns: at_ns }
}

fn seen(fact: UsageFact, at_s: u64) -> UsageFact {
    UsageFact { seen_ns: at_s * SECOND_NS, ..fact }
}

/// Returns (vcpus, memory, from, to) of each interval, in seconds.
fn shown(facts: &[UsageFact], now_s: u64) -> Vec<(u32, u64, u64, u64)> {
    let intervals = fold_usage(facts.iter().copied(), now_s * SECOND_NS);
    assert!(intervals.iter().all(|interval| interval.storage_bytes == DISK));
    let row = |interval: &UsageInterval| {
        (interval.vcpus, interval.memory_mib, interval.from_ns / SECOND_NS, interval.to_ns / SECOND_NS)
    };
    intervals.iter().map(row).collect()
}

#[test]
fn a_life_is_billed_by_its_states() {
    let facts = [
        fact(1, FactKind::Started, 10),
        fact(2, FactKind::Paused, 20),
        fact(3, FactKind::Resumed, 30),
        fact(4, FactKind::Hibernated, 40),
        fact(5, FactKind::Woken, 50),
        UsageFact { vcpus: 4, ..fact(6, FactKind::Resized, 60) },
        fact(7, FactKind::Ended, 70),
    ];
    let expected =
        [(2, 1024, 10, 20), (0, 1024, 20, 30), (2, 1024, 30, 40), (0, 0, 40, 50), (2, 1024, 50, 60), (4, 1024, 60, 70)];
    assert_eq!(shown(&facts, 999), expected);
    let mut shuffled = facts.to_vec();
    shuffled.reverse();
    shuffled.extend(facts);
    assert_eq!(shown(&shuffled, 999), expected, "order and copies have no effect");
}

#[test]
fn a_crash_bills_up_to_the_last_heartbeat() {
    let started = fact(1, FactKind::Started, 10);
    assert!(shown(&[started], 999).is_empty(), "nothing is confirmed yet");
    assert_eq!(shown(&[started, seen(started, 25)], 999), [(2, 1024, 10, 25)]);
    let woken = [seen(started, 25), fact(2, FactKind::Woken, 100), fact(3, FactKind::Ended, 110)];
    assert_eq!(shown(&woken, 999), [(2, 1024, 10, 25), (2, 1024, 100, 110)], "a new machine follows");
    let lost = [seen(started, 25), UsageFact { epoch: 1, ..fact(1, FactKind::Ended, 100) }];
    assert_eq!(shown(&lost, 999), [(2, 1024, 10, 25)], "control reports the end of a lost machine");
    let ended = [seen(started, 25), fact(2, FactKind::Ended, 100)];
    assert_eq!(shown(&ended, 999), [(2, 1024, 10, 100)], "the host saw the end itself");
}

#[test]
fn a_late_fact_corrects_the_time_next_to_it_only() {
    let (start, pause, end) =
        (fact(1, FactKind::Started, 0), fact(2, FactKind::Paused, 50), fact(3, FactKind::Ended, 100));
    assert_eq!(shown(&[start, end], 999), [(2, 1024, 0, 100)]);
    assert_eq!(shown(&[start, end, pause], 999), [(2, 1024, 0, 50), (0, 1024, 50, 100)]);
    assert_eq!(shown(&[pause, end], 999), [(0, 1024, 50, 100)], "a lost start");
}

#[test]
fn a_sleeping_sandbox_bills_storage_until_now() {
    let asleep = [fact(1, FactKind::Started, 0), fact(2, FactKind::Hibernated, 10)];
    assert_eq!(shown(&asleep, 70), [(2, 1024, 0, 10), (0, 0, 10, 70)]);
    let no_disk = asleep.map(|fact| UsageFact { storage_bytes: 0, ..fact });
    assert_eq!(fold_usage(no_disk, 70 * SECOND_NS).len(), 1);
}

#[test]
fn a_clock_that_is_set_back_bills_no_moment_twice() {
    let facts = [
        seen(fact(1, FactKind::Started, 100), 200),
        // The clock was set back by 150 seconds.
        seen(fact(2, FactKind::Paused, 60), 180),
        fact(3, FactKind::Resumed, 190),
        fact(4, FactKind::Ended, 230),
    ];
    assert_eq!(shown(&facts, 999), [(2, 1024, 100, 200), (2, 1024, 200, 230)]);
    let back_only = [fact(1, FactKind::Started, 100), fact(2, FactKind::Ended, 50)];
    assert!(shown(&back_only, 999).is_empty(), "never negative");
}

#[test]
fn a_clock_that_runs_ahead_is_limited_by_the_time_of_receipt() {
    let year = 365 * 86_400;
    let facts = [fact(1, FactKind::Started, 100), fact(2, FactKind::Paused, year), fact(3, FactKind::Ended, 120)];
    let received = facts.map(|fact| fact.received_at(130 * SECOND_NS));
    assert_eq!(shown(&received, 999), [(2, 1024, 100, 130)]);
    assert_eq!(seen(facts[0], year).received_at(130 * SECOND_NS).seen_ns, 130 * SECOND_NS);
}

#[test]
fn another_host_counts_from_another_number() {
    let facts = [
        fact(900, FactKind::Started, 0),
        fact(901, FactKind::Hibernated, 10),
        UsageFact { epoch: 1, ..fact(3, FactKind::Woken, 20) },
        UsageFact { epoch: 1, ..fact(4, FactKind::Ended, 30) },
    ];
    assert_eq!(shown(&facts, 999), [(2, 1024, 0, 10), (0, 0, 10, 20), (2, 1024, 20, 30)]);
}

#[test]
fn contradicting_reports_of_one_fact_bill_the_smaller_one() {
    let (small, large) = (fact(1, FactKind::Started, 0), UsageFact { vcpus: 64, ..fact(1, FactKind::Started, 5) });
    assert_eq!(small.merged(large), large.merged(small));
    assert_eq!((small.merged(large).vcpus, small.merged(large).at_ns), (2, 5 * SECOND_NS));
}

#[test]
fn storage_is_billed_from_its_creation_to_its_deletion() {
    let change = |sequence, at_s: u64, bytes| StorageFact { sequence, at_ns: at_s * SECOND_NS, bytes };
    let facts = [change(3, 50, 0), change(1, 10, 100), change(2, 30, 300), change(1, 10, 100)];
    let rows = |facts: &[StorageFact], now_s: u64| -> Vec<_> {
        let intervals = fold_storage(facts.iter().copied(), now_s * SECOND_NS);
        intervals.iter().map(|one| (one.storage_bytes, one.from_ns / SECOND_NS, one.to_ns / SECOND_NS)).collect()
    };
    assert_eq!(rows(&facts, 999), [(100, 10, 30), (300, 30, 50)]);
    assert_eq!(rows(&facts[1..], 70), [(100, 10, 30), (300, 30, 70)], "not deleted: billed until now");
    assert_eq!(rows(&[change(1, 50, 9), change(2, 40, 8), change(3, 60, 0)], 99), [(8, 50, 60)]);
}

#[test]
fn every_kind_of_fact_is_read_back() {
    for kind in FactKind::ALL {
        assert_eq!(kind.as_str().parse::<FactKind>(), Ok(kind));
    }
    assert!("stopped".parse::<FactKind>().is_err());
}

/// One step of a sandbox's real life.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time passes.
    Wait(u64),
    /// The host confirms the state.
    Heartbeat,
    Change(FactKind),
    /// The machine is lost without a report. The next start shows it.
    Crash,
    /// Somebody sets the host's clock, forward or back.
    SetClock(i64),
    /// The sandbox moves to another host, whose counter is lower.
    Move,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u64..200).prop_map(Step::Wait),
        3 => Just(Step::Heartbeat),
        4 => prop::sample::select(FactKind::ALL.to_vec()).prop_map(Step::Change),
        1 => Just(Step::Crash),
        1 => (-300_i64..300).prop_map(Step::SetClock),
        1 => Just(Step::Move),
    ]
}

/// What one second costs: CPUs, MiB, and whether storage is held.
type Paint = (u32, u64, u64);

/// A host that really runs a sandbox. It writes facts, and it paints a wall: one cell for each
/// second of its clock. A cell is painted when the clock passes it for the first time.
struct World {
    clock_s: u64,
    epoch: u32,
    sequence: u64,
    facts: Vec<UsageFact>,
    wall: Vec<Option<Paint>>,
    /// Cells below this are decided for ever.
    passed: usize,
    /// The present state. Nothing, or a machine that was lost without a report, is `None`.
    open: Option<Paint>,
}

impl World {
    fn new() -> Self {
        Self {
            clock_s: 5000,
            epoch: 0,
            sequence: 10_000,
            facts: Vec::new(),
            wall: vec![None; 30_000],
            passed: 0,
            open: None,
        }
    }

    /// Something was observed at the present clock: the open state lasted until here.
    fn observe(&mut self) {
        let now = usize::try_from(self.clock_s).unwrap();
        for cell in self.passed..now.max(self.passed) {
            self.wall[cell] = self.open;
        }
        self.passed = self.passed.max(now);
    }

    /// The clock has passed these cells while nothing was running, or nobody knows what.
    fn skip(&mut self) {
        self.passed = self.passed.max(usize::try_from(self.clock_s).unwrap());
    }

    fn paint_of(fact: &UsageFact) -> Option<Paint> {
        match fact.kind {
            FactKind::Ended => None,
            FactKind::Hibernated => Some((0, 0, fact.storage_bytes)),
            FactKind::Paused => Some((0, fact.memory_mib, fact.storage_bytes)),
            _ => Some((fact.vcpus, fact.memory_mib, fact.storage_bytes)),
        }
    }

    fn is_machine(&self) -> bool {
        self.facts.last().is_some_and(|fact| !matches!(fact.kind, FactKind::Ended | FactKind::Hibernated))
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Wait(seconds) => self.clock_s += seconds,
            Step::SetClock(by) => self.clock_s = self.clock_s.saturating_add_signed(by),
            Step::Heartbeat => self.heartbeat(),
            Step::Crash if self.is_machine() => self.open = None,
            Step::Crash => {}
            Step::Move => self.epoch += 1,
            Step::Change(kind) => self.change(kind),
        }
    }

    fn heartbeat(&mut self) {
        // Only the host that runs the machine can confirm it, and only while it exists.
        let (Some(fact), Some(_)) = (self.facts.last().copied(), self.open) else { return };
        if fact.epoch == self.epoch && self.is_machine() {
            self.observe();
            self.facts.push(seen(fact, self.clock_s));
        }
    }

    fn change(&mut self, kind: FactKind) {
        let last = self.facts.last().copied();
        let same_machine = last.is_some_and(|last| last.epoch == self.epoch) && kind.continues();
        let asleep = last.is_some_and(|last| last.kind == FactKind::Hibernated);
        let crashed = self.is_machine() && self.open.is_none();
        if crashed && same_machine {
            return; // A lost machine reports nothing.
        }
        if asleep || same_machine {
            self.observe();
        } else {
            self.skip();
        }
        self.sequence = if last.is_some_and(|last| last.epoch != self.epoch) { 1 } else { self.sequence + 3 };
        let vcpus = 1 + u32::try_from(self.sequence % 5).unwrap();
        let fact = UsageFact { epoch: self.epoch, vcpus, ..fact(self.sequence, kind, self.clock_s) };
        self.facts.push(fact);
        self.open = Self::paint_of(&fact);
    }

    /// Sums up the wall.
    fn truth(&self) -> UsageTotals {
        let paints = self.wall.iter().flatten();
        paints
            .map(|(vcpus, memory_mib, bytes)| UsageTotals {
                vcpu_ns: u128::from(*vcpus) * u128::from(SECOND_NS),
                memory_mib_ns: u128::from(*memory_mib) * u128::from(SECOND_NS),
                storage_byte_ns: u128::from(*bytes) * u128::from(SECOND_NS),
            })
            .sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// The central promise: whatever happens to the reports, the billed time is the real one.
    #[test]
    fn billed_time_is_the_painted_time(
        steps in prop::collection::vec(step(), 1..60),
        copies in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        shuffle in prop::collection::vec(any::<u64>(), 200),
    ) {
        let mut world = World::new();
        steps.into_iter().for_each(|step| world.step(step));
        // A sleeping sandbox is billed until now, which is what control's clock says.
        if world.facts.last().is_some_and(|last| last.kind == FactKind::Hibernated) {
            world.observe();
        }
        let mut reports = world.facts.clone();
        if !world.facts.is_empty() {
            reports.extend(copies.iter().map(|index| *index.get(&world.facts)));
        }
        let mut keyed: Vec<_> = reports.into_iter().zip(shuffle.into_iter().cycle()).collect();
        keyed.sort_by_key(|(_, key)| *key);
        let intervals = fold_usage(keyed.into_iter().map(|(fact, _)| fact), world.clock_s * SECOND_NS);
        for pair in intervals.windows(2) {
            prop_assert!(pair[0].to_ns <= pair[1].from_ns, "no moment is billed twice");
        }
        prop_assert!(intervals.iter().all(|one| one.from_ns < one.to_ns));
        let billed: UsageTotals = intervals.iter().map(UsageInterval::totals).sum();
        prop_assert_eq!(billed, world.truth());
    }

    /// Splitting loses nothing: not a nanosecond at an edge, not a second by rounding.
    #[test]
    fn windows_sum_up_to_the_whole(
        from_ns in 0_u64..4_000_000_000_000_000_000,
        long_ns in 0_u64..100 * 24 * HOUR_NS,
        vcpus in 0_u32..128,
        memory_mib in 0_u64..1 << 20,
        storage_bytes in 0_u64..1 << 45,
    ) {
        let interval = UsageInterval { vcpus, memory_mib, storage_bytes, from_ns, to_ns: from_ns + long_ns };
        fn check<W: CalendarWindow>(interval: UsageInterval) -> Result<(), TestCaseError> {
            let mut at_ns = interval.from_ns;
            let mut whole = UsageTotals::default();
            let (mut seconds, mut units) = (0, WholeUnits::of(u128::from(SECOND_NS)));
            for (window, part) in split_by::<W>(interval) {
                prop_assert_eq!(part.from_ns, at_ns, "no gap and no overlap");
                prop_assert!(window.start_ns() <= part.from_ns && part.to_ns <= window.end_ns());
                at_ns = part.to_ns;
                whole += part.totals();
                seconds += units.take(part.totals().vcpu_ns);
            }
            prop_assert_eq!(at_ns, interval.to_ns);
            prop_assert_eq!(whole, interval.totals());
            prop_assert_eq!(seconds, interval.totals().vcpu_seconds());
            prop_assert_eq!(units.left(), interval.totals().vcpu_ns % u128::from(SECOND_NS));
            Ok(())
        }
        check::<UtcHour>(interval)?;
        check::<UtcDay>(interval)?;
        check::<UtcMonth>(interval)?;
    }

    #[test]
    fn whole_units_are_never_lost_or_doubled(
        amounts in prop::collection::vec(0_u128..10_000_000_000, 0..50),
        stop in 0_usize..50,
    ) {
        let mut units = WholeUnits::of(1_000_000_000);
        let mut taken = 0;
        for (at, amount) in amounts.iter().enumerate() {
            if at == stop {
                // A restart continues from the stored rest.
                units = WholeUnits::carrying(1_000_000_000, units.left());
            }
            taken += units.take(*amount);
        }
        prop_assert_eq!(taken, amounts.iter().sum::<u128>() / 1_000_000_000);
    }

    /// Facts from a hostile or broken host do no harm.
    #[test]
    fn no_fact_overflows(facts in prop::collection::vec(any::<(u32, u64, u8, u32, u64, u64)>(), 0..20), now_ns: u64) {
        let facts = facts.into_iter().map(|(epoch, sequence, kind, vcpus, at_ns, seen_ns)| {
            let kind = FactKind::ALL[usize::from(kind) % 7];
            UsageFact { epoch, sequence, kind, vcpus, memory_mib: at_ns, storage_bytes: seen_ns, at_ns, seen_ns }
        });
        let totals: UsageTotals = fold_usage(facts, now_ns).iter().map(UsageInterval::totals).sum();
        let _ = (totals.vcpu_seconds(), totals.memory_gib_seconds(), totals.storage_gib_seconds());
    }
}
