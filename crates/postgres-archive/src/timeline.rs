//! What can be restored from what is there: timelines, gaps, the window, the base for a time, and
//! what no base needs any more. Pure: no clock and no store.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use crate::{
    limits::HISTORY_LINES_MAX,
    name::{BaseName, Lsn, Segment},
};

/// Where a timeline left each of its parents, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimelineHistory(Vec<(u32, Lsn)>);

impl TimelineHistory {
    /// Reads a `.history` file. Nothing if it is not one, or has too many lines.
    pub fn parse(text: &str) -> Option<Self> {
        if text.lines().nth(HISTORY_LINES_MAX).is_some() {
            return None;
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parents: Option<Vec<_>> = lines
            .map(|line| {
                let mut words = line.split_whitespace();
                Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
            })
            .collect();
        parents.map(Self)
    }
}

/// What the plans need to know about a base backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BasePoint {
    pub name: BaseName,
    pub timeline: u32,
    pub start: Lsn,
    pub end: Lsn,
    /// From when on the base can be used: a restore to an earlier time is not possible.
    pub ended_at: SystemTime,
}

impl BasePoint {
    /// The first segment that the base does not contain.
    fn next_number(&self) -> u64 {
        self.end.last_segment_number() + 1
    }
}

/// All that one archive has.
#[derive(Debug, Default)]
pub struct Holdings {
    pub segments: BTreeMap<Segment, SystemTime>,
    pub histories: BTreeMap<u32, TimelineHistory>,
    /// Oldest first.
    pub bases: Vec<BasePoint>,
}

/// What can be restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restorable {
    /// Bases from which the log goes on to the end, oldest first.
    pub bases: Vec<BasePoint>,
    pub latest: Option<SystemTime>,
    /// The segment that is missing although later ones are there.
    pub gap: Option<Segment>,
}

/// What need not be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outdated {
    pub bases: Vec<BaseName>,
    /// Segments with a lower number can go.
    pub first_number: u64,
    /// Histories of lower timelines can go: PostgreSQL asks from a base's timeline upwards.
    pub first_timeline: u32,
}

/// The part of the log that one timeline contributes to the current one.
struct Stretch {
    timeline: u32,
    first: u64,
    last: u64,
    end: Lsn,
}

impl Holdings {
    /// Finds the bases and the last time that a restore can use.
    pub fn restorable(&self) -> Restorable {
        let Some(timeline) = self.current_timeline() else {
            return Restorable { bases: Vec::new(), latest: None, gap: None };
        };
        let line = self.ancestry(timeline);
        let usable: Vec<_> = self.bases.iter().filter(|base| belongs(&line, base)).collect();
        let Some(newest) = usable.last() else {
            let gap = (!self.bases.is_empty()).then_some(Segment { timeline, number: 0 });
            return Restorable { bases: Vec::new(), latest: None, gap };
        };
        let (mut next, mut latest) = (newest.next_number(), newest.ended_at);
        while let Some(written) = self.written(&line, next) {
            (next, latest) = (next + 1, latest.max(written));
        }
        let beyond = self.segments.keys().any(|segment| segment.number > next && covers(&line, *segment));
        let gap = beyond.then_some(Segment { timeline: timeline_at(&line, next).unwrap_or(timeline), number: next });
        Restorable { bases: self.connected(&line, &usable), latest: Some(latest), gap }
    }

    /// Finds what a retention no longer asks for.
    pub fn outdated(&self, keep: &Retention, now: SystemTime) -> Outdated {
        let line = self.current_timeline().map(|timeline| self.ancestry(timeline)).unwrap_or_default();
        let counted: BTreeSet<_> = self
            .bases
            .iter()
            .rev()
            .filter(|base| belongs(&line, base))
            .take(keep.count.max(1))
            .map(|b| &b.name)
            .collect();
        let is_kept = |base: &&BasePoint| {
            let age = now.duration_since(base.ended_at).unwrap_or(Duration::ZERO);
            counted.contains(&base.name) || age < keep.age
        };
        let (kept, dropped): (Vec<_>, Vec<_>) = self.bases.iter().partition(is_kept);
        Outdated {
            bases: dropped.into_iter().map(|base| base.name.clone()).collect(),
            first_number: kept.iter().map(|base| base.start.segment_number()).min().unwrap_or(0),
            first_timeline: kept.iter().map(|base| base.timeline).min().unwrap_or(0),
        }
    }

    fn current_timeline(&self) -> Option<u32> {
        let segment = self.segments.keys().next_back().map(|segment| segment.timeline);
        let history = self.histories.keys().next_back().copied();
        segment.max(history).max(self.bases.iter().map(|base| base.timeline).max())
    }

    /// The timelines that lead to this one, newest first.
    fn ancestry(&self, timeline: u32) -> Vec<Stretch> {
        let parents = self.histories.get(&timeline).map(|history| history.0.as_slice()).unwrap_or_default();
        let mut first = 0;
        let mut line = Vec::with_capacity(parents.len() + 1);
        for (parent, end) in parents {
            line.push(Stretch { timeline: *parent, first, last: end.segment_number(), end: *end });
            first = end.segment_number();
        }
        line.push(Stretch { timeline, first, last: u64::MAX, end: Lsn(u64::MAX) });
        line.reverse();
        line
    }

    /// When the segment of this number was written, on the newest timeline that has it.
    fn written(&self, line: &[Stretch], number: u64) -> Option<SystemTime> {
        let covering = line.iter().filter(|stretch| stretch.first <= number && number <= stretch.last);
        covering
            .filter_map(|stretch| self.segments.get(&Segment { timeline: stretch.timeline, number }))
            .next()
            .copied()
    }

    /// The bases before the newest one from which no segment is missing up to it.
    fn connected(&self, line: &[Stretch], usable: &[&BasePoint]) -> Vec<BasePoint> {
        let mut connected = Vec::new();
        let mut until = None;
        for base in usable.iter().rev() {
            let next = base.next_number();
            if !(next..until.unwrap_or(next)).all(|number| self.written(line, number).is_some()) {
                break;
            }
            until = Some(next);
            connected.push((*base).clone());
        }
        connected.reverse();
        connected
    }
}

fn belongs(line: &[Stretch], base: &BasePoint) -> bool {
    line.iter().any(|stretch| stretch.timeline == base.timeline && base.end <= stretch.end)
}

fn covers(line: &[Stretch], segment: Segment) -> bool {
    line.iter().any(|stretch| {
        stretch.timeline == segment.timeline && stretch.first <= segment.number && segment.number <= stretch.last
    })
}

fn timeline_at(line: &[Stretch], number: u64) -> Option<u32> {
    line.iter().find(|stretch| stretch.first <= number && number <= stretch.last).map(|stretch| stretch.timeline)
}

/// A base and the time to restore to; without a time, all of the log is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePlan {
    pub base: String,
    pub target: Option<SystemTime>,
}

/// Why a restore is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreRefusal {
    #[error("there is no base backup yet")]
    NoBackup,
    #[error("the time lies before the oldest backup")]
    TooEarly { earliest: SystemTime },
    #[error("the time lies after the last archived change")]
    TooLate { latest: SystemTime },
    #[error("the archive cannot be read now: {reason}")]
    Unavailable { reason: String },
}

impl Restorable {
    /// Returns the first and the last time that can be restored.
    pub fn window(&self) -> Option<(SystemTime, SystemTime)> {
        Some((self.bases.first()?.ended_at, self.latest?))
    }

    /// Chooses the newest base at or before the time.
    pub fn plan(&self, target: Option<SystemTime>) -> Result<RestorePlan, RestoreRefusal> {
        let (earliest, latest) = self.window().ok_or(RestoreRefusal::NoBackup)?;
        let usable = |base: &&BasePoint| target.is_none_or(|target| base.ended_at <= target);
        match (target, self.bases.iter().rev().find(usable)) {
            (Some(target), _) if target > latest => Err(RestoreRefusal::TooLate { latest }),
            (_, None) => Err(RestoreRefusal::TooEarly { earliest }),
            (_, Some(base)) => Ok(RestorePlan { base: base.name.to_string(), target }),
        }
    }
}

/// What is kept: at least so many base backups, and all that are younger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub count: usize,
    pub age: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::SEGMENT_BYTES;

    fn at(second: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(second)
    }

    fn base(hour: u32, timeline: u32, segment: u64) -> BasePoint {
        BasePoint {
            name: format!("base-20260101T{hour:02}0000Z.tar.gz").parse().unwrap(),
            timeline,
            start: Lsn(segment * SEGMENT_BYTES + 40),
            end: Lsn(segment * SEGMENT_BYTES + 300),
            ended_at: at(segment * 10),
        }
    }

    fn holdings(bases: &[BasePoint], segments: &[(u32, std::ops::RangeInclusive<u64>)]) -> Holdings {
        let mut all = Holdings { bases: bases.to_vec(), ..Holdings::default() };
        for (timeline, numbers) in segments {
            let timeline = *timeline;
            all.segments.extend(numbers.clone().map(|number| (Segment { timeline, number }, at(number * 10 + 9))));
        }
        all
    }

    #[test]
    fn nothing_and_only_a_base() {
        assert_eq!(holdings(&[], &[(1, 1..=3)]).restorable().plan(None), Err(RestoreRefusal::NoBackup));
        let found = holdings(&[base(1, 1, 2)], &[]).restorable();
        assert_eq!(found.window(), Some((at(20), at(20))));
        assert_eq!(found.gap, None);
    }

    #[test]
    fn the_window_goes_from_the_oldest_connected_base_to_the_last_segment() {
        let found = holdings(&[base(1, 1, 2), base(2, 1, 5)], &[(1, 1..=8)]).restorable();
        assert_eq!(found.window(), Some((at(20), at(89))));
        assert_eq!(found.plan(None).unwrap().base, "base-20260101T020000Z.tar.gz");
        assert_eq!(found.plan(Some(at(49))).unwrap().base, "base-20260101T010000Z.tar.gz");
        assert_eq!(found.plan(Some(at(50))).unwrap().base, "base-20260101T020000Z.tar.gz");
        assert_eq!(found.plan(Some(at(19))), Err(RestoreRefusal::TooEarly { earliest: at(20) }));
        assert_eq!(found.plan(Some(at(90))), Err(RestoreRefusal::TooLate { latest: at(89) }));
    }

    #[test]
    fn a_gap_ends_the_window_or_moves_its_start() {
        let found = holdings(&[base(1, 1, 2)], &[(1, 3..=4), (1, 6..=8)]).restorable();
        assert_eq!(found.window(), Some((at(20), at(49))));
        assert_eq!(found.gap.unwrap().to_string(), "000000010000000000000005");
        let found = holdings(&[base(1, 1, 2), base(2, 1, 6)], &[(1, 3..=4), (1, 6..=8)]).restorable();
        assert_eq!((found.window(), found.gap), (Some((at(60), at(89))), None));
    }

    #[test]
    fn a_new_timeline_goes_on_where_its_parent_ended() {
        let mut all = holdings(&[base(1, 1, 2)], &[(1, 3..=9), (2, 5..=7)]);
        // Without its history nobody knows where the new timeline began.
        assert_eq!(all.restorable().window(), None);
        assert!(all.restorable().gap.is_some());
        let text = format!("1\t0/{:X}\tno recovery target specified\n", 5 * SEGMENT_BYTES + 8);
        all.histories.insert(2, TimelineHistory::parse(&text).unwrap());
        assert_eq!(all.restorable().window(), Some((at(20), at(79))));
        assert_eq!(all.restorable().gap, None);
        // A base of the part that was left behind leads nowhere.
        all.bases.push(base(2, 1, 8));
        assert_eq!(all.restorable().bases.len(), 1);
        all.bases.push(base(3, 2, 6));
        assert_eq!(all.restorable().bases.len(), 2);
        // Right after the switch the new timeline has no segment yet.
        all.segments.retain(|segment, _| segment.timeline == 1);
        all.bases.truncate(1);
        assert_eq!(all.restorable().window(), Some((at(20), at(59))));
        assert!(TimelineHistory::parse("what").is_none());
    }

    #[test]
    fn retention_keeps_a_number_and_an_age() {
        let all = holdings(&[base(1, 1, 2), base(2, 1, 5), base(3, 1, 9)], &[(1, 1..=20)]);
        let outdated = |count, age| {
            let found = all.outdated(&Retention { count, age: Duration::from_secs(age) }, at(100));
            (found.bases.len(), found.first_number)
        };
        assert_eq!(outdated(1, 0), (2, 9));
        assert_eq!(outdated(0, 0), (2, 9));
        assert_eq!(outdated(2, 0), (1, 5));
        assert_eq!(outdated(1, 60), (1, 5));
        assert_eq!(outdated(9, 0), (0, 2));
        assert_eq!(
            holdings(&[], &[(1, 1..=3)]).outdated(&Retention { count: 1, age: Duration::ZERO }, at(9)),
            Outdated::default()
        );
    }
}
