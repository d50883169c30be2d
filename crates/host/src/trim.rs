//! Returns the space of removed layers and disks to the disk under the data volume's image: later
//! and slowly, or at once when that disk is short. Why not at each removal:
//! `docs/decisions/0025-trimming.md`.

use std::{sync::Arc, time::Duration};

use pandastack_layers::UnusedSpace;
use pandastack_model::ByteSize;

use crate::sandbox::HostContext;

/// Interval of the checks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Time between two trims while the disk has enough space.
const TRIM_EVERY: Duration = Duration::from_secs(3600);

/// Minimum that a trim must gain.
const WORTH: ByteSize = ByteSize::mib(64);

/// The disk is short when less than this many times the reserve is free.
const SHORT: u64 = 4;

/// Speed of a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrimSpeed {
    /// Rests three times as long as it works.
    Slow,
    Fast,
}

/// Checks the volume at an interval, and trims it when that is due.
pub async fn repeat(context: Arc<HostContext>) {
    let token = context.scope.token();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = token.cancelled() => return,
        }
        let Some(slack) = context.volume.slack() else { return };
        let Some(pace) = due(&slack, context.settings.disk_reserve) else { continue };
        let (of, over) = (context.clone(), token.clone());
        let rest = if pace == TrimSpeed::Slow { 3 } else { 0 };
        let trimmed = context.scope.block("trim", move || of.volume.trim(rest, || over.is_cancelled())).await;
        match trimmed {
            Ok(Ok(())) => tracing::debug!(?slack, after = ?context.volume.slack(), "trimmed the data volume"),
            Ok(Err(error)) => tracing::warn!(%error, "could not trim the data volume"),
            Err(_) => return,
        }
    }
}

/// Decides whether to trim, and how fast.
fn due(slack: &UnusedSpace, reserve: ByteSize) -> Option<TrimSpeed> {
    let UnusedSpace { held, free_under, since } = *slack;
    if held < WORTH.get() {
        None
    } else if free_under < held.max(reserve.get().saturating_mul(SHORT)) {
        Some(TrimSpeed::Fast)
    } else {
        (since >= TRIM_EVERY).then_some(TrimSpeed::Slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_trim_is_due_each_hour_and_at_once_on_a_short_disk_if_it_is_worth_it() {
        let hour = TRIM_EVERY.as_secs();
        for (held, free_under, since, expected) in [
            (GIB, 50 * GIB, hour, Some(TrimSpeed::Slow)),
            (GIB, 50 * GIB, hour - 1, None),
            (GIB / 32, 50 * GIB, hour, None),
            (GIB, GIB - 1, 0, Some(TrimSpeed::Fast)),
            (GIB / 8, GIB - 1, 0, Some(TrimSpeed::Fast)),
            (GIB / 32, GIB - 1, hour, None),
            // More is held in vain than is free on the disk.
            (50 * GIB, 40 * GIB, 0, Some(TrimSpeed::Fast)),
            (50 * GIB, 60 * GIB, 0, None),
        ] {
            let slack = UnusedSpace { held, free_under, since: Duration::from_secs(since) };
            assert_eq!(due(&slack, ByteSize::mib(256)), expected, "{slack:?}");
        }
    }
}
