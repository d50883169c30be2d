//! Boot times: the last boots of each workspace, kept in memory.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Mutex, PoisonError},
};

use pandastack_model::SandboxId;
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::{BootBucket, BootSample, BootStats, rfc3339};

use crate::{
    app::public_boot_mode,
    limits::{BOOT_WORKSPACES_MAX, BOOTS_PER_WORKSPACE_MAX},
};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// One boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootRecord {
    pub at_ns: u64,
    pub sandbox: SandboxId,
    pub template: String,
    pub mode: String,
    pub boot_ms: u64,
}

/// The boots of all workspaces.
#[derive(Default)]
pub struct BootHistory(Mutex<HashMap<WorkspaceId, VecDeque<BootRecord>>>);

impl BootHistory {
    /// Adds a boot. Past the limits, the oldest boot or the least recent workspace is dropped.
    pub fn add(&self, workspace: &WorkspaceId, boot: BootRecord) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= BOOT_WORKSPACES_MAX && !all.contains_key(workspace) {
            let last = |boots: &VecDeque<BootRecord>| boots.back().map_or(0, |boot| boot.at_ns);
            let quiet = all.iter().min_by_key(|(_, boots)| last(boots)).map(|(workspace, _)| workspace.clone());
            quiet.map(|quiet| all.remove(&quiet));
        }
        let boots = all.entry(workspace.clone()).or_default();
        if boots.len() >= BOOTS_PER_WORKSPACE_MAX {
            boots.pop_front();
        }
        boots.push_back(boot);
    }

    /// Summarizes the boots of a workspace and lists the most recent ones.
    pub fn stats(&self, workspace: &WorkspaceId, recent: usize, now_ns: u64) -> BootStats {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(boots) = all.get(workspace) else { return BootStats::default() };
        let oldest_ns = boots.front().map_or(now_ns, |boot| boot.at_ns);
        BootStats {
            total_samples: boots.len() as u64,
            window_seconds: now_ns.saturating_sub(oldest_ns) / NS_PER_SECOND,
            overall: BootBucket::of(boots.iter().map(|boot| boot.boot_ms).collect()),
            by_mode: grouped(boots, |boot| public_boot_mode(&boot.mode)),
            by_template: grouped(boots, |boot| &boot.template),
            recent: boots.iter().rev().take(recent).map(render).collect(),
        }
    }
}

fn grouped<'a>(
    boots: &'a VecDeque<BootRecord>,
    of: impl Fn(&'a BootRecord) -> &'a str,
) -> BTreeMap<String, BootBucket> {
    let mut groups: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for boot in boots {
        groups.entry(of(boot)).or_default().push(boot.boot_ms);
    }
    groups.into_iter().map(|(name, boots)| (name.to_owned(), BootBucket::of(boots))).collect()
}

fn render(boot: &BootRecord) -> BootSample {
    let time = rfc3339(boot.at_ns);
    BootSample {
        ts: time.clone(),
        time,
        sandbox_id: boot.sandbox.to_string(),
        template: boot.template.clone(),
        boot_mode: public_boot_mode(&boot.mode).to_owned(),
        boot_ms: boot.boot_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_are_kept_by_workspace_within_limits() {
        let (boots, mine) = (BootHistory::default(), WorkspaceId("mine".into()));
        let boot = |number: u64| BootRecord {
            at_ns: number * NS_PER_SECOND,
            sandbox: SandboxId::random(),
            template: "mini".into(),
            mode: if number.is_multiple_of(2) { "standby".into() } else { "fork".into() },
            boot_ms: number,
        };
        for number in 0..BOOTS_PER_WORKSPACE_MAX as u64 + 10 {
            boots.add(&mine, boot(number));
        }
        let now_ns = (BOOTS_PER_WORKSPACE_MAX as u64 + 20) * NS_PER_SECOND;
        let stats = boots.stats(&mine, 3, now_ns);
        assert_eq!(stats.total_samples, BOOTS_PER_WORKSPACE_MAX as u64);
        assert_eq!((stats.overall.min_ms, stats.window_seconds), (10, BOOTS_PER_WORKSPACE_MAX as u64 + 10));
        assert_eq!(stats.by_mode.keys().collect::<Vec<_>>(), ["fork", "snapshot-natid"]);
        assert_eq!((stats.by_template["mini"].count, stats.recent.len()), (stats.total_samples, 3));
        assert_eq!(stats.recent[0].boot_ms, BOOTS_PER_WORKSPACE_MAX as u64 + 9);
        assert_eq!(boots.stats(&WorkspaceId("other".into()), 3, now_ns), BootStats::default());
        for number in 0..BOOT_WORKSPACES_MAX as u64 {
            boots.add(&WorkspaceId(format!("w{number}")), boot(now_ns / NS_PER_SECOND));
        }
        assert_eq!(boots.stats(&mine, 3, now_ns).total_samples, 0, "the quietest workspace gives way");
    }
}
