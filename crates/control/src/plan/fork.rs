//! Decides the children of a fork: ids, metadata, lineage and limits.

use std::collections::BTreeMap;

use pandastack_model::{
    Fault, LayerId, SandboxId, SandboxOrigin, SandboxSpec, SandboxState, VolumeAccess, VolumeId, VolumeMount,
};
use pandastack_wire_public::{
    ForkSpec,
    metadata::{FORK_INDEX, FORK_PARENT_ID, FORK_TREE_ID, FORK_TREE_ROLE, FORKED_FROM},
};

use super::{
    copies::{CopiedMount, CopyTarget, source_name},
    full,
};
use crate::{
    app::no_volume,
    store::{IdleLimit, Intent, Lineage, PlannedSandbox, SealedMount, StartReport, VolumeRow},
};

/// Input of the decision: the current state.
pub struct ForkState {
    pub parent: Intent,
    /// The volumes of the parent.
    pub volumes: Vec<VolumeRow>,
    pub sandboxes: u64,
    pub sandboxes_max: u64,
}

/// The request, with the ids and the time already chosen.
pub struct ForkPlanRequest {
    pub wish: ForkSpec,
    /// One id for each child.
    pub ids: Vec<SandboxId>,
    /// For each child one id for each volume of the parent.
    pub volume_ids: Vec<Vec<VolumeId>>,
    pub layer: LayerId,
    /// The id of the tree, if the children form one.
    pub tree: Option<String>,
    pub created_at_ns: u64,
}

/// Returns the children to commit, ordered by index, or the reason for a refusal.
pub fn fork(view: &ForkState, ask: &ForkPlanRequest) -> Result<Vec<PlannedSandbox>, Fault> {
    assert_eq!(ask.ids.len(), ask.wish.count, "one id for each child");
    assert_eq!(ask.volume_ids.len(), ask.wish.count, "volume ids for each child");
    if view.sandboxes + ask.ids.len() as u64 > view.sandboxes_max {
        return Err(full());
    }
    let child = |(index, id): (usize, &SandboxId)| {
        let volumes = child_volumes(view, ask, index)?;
        let copies = volumes.copies.clone();
        Ok(PlannedSandbox { intent: one(view, ask, index, *id, volumes), copies, database: None })
    };
    ask.ids.iter().enumerate().map(child).collect()
}

fn one(view: &ForkState, ask: &ForkPlanRequest, index: usize, id: SandboxId, volumes: ChildVolumes) -> Intent {
    let parent = &view.parent;
    let kept = IdleLimit { ttl_seconds: parent.spec.ttl_seconds, persistent: parent.spec.persistent };
    // Branches that are never promoted must end by themselves, even if the parent is persistent.
    let explored = ask.wish.explore_ttl.map(|ttl_seconds| IdleLimit { ttl_seconds, persistent: false });
    let limit = explored.unwrap_or(kept);
    Intent {
        id,
        workspace: parent.workspace.clone(),
        generation: 1,
        // One nanosecond apart, so that a list keeps their order.
        created_at_ns: ask.created_at_ns + index as u64,
        spec: SandboxSpec {
            owner: Some(parent.workspace.owner()),
            template: parent.spec.template.clone(),
            origin: SandboxOrigin::Layer(ask.layer),
            ttl_seconds: limit.ttl_seconds,
            persistent: limit.persistent,
            metadata: metadata(parent.id, ask, index),
            env: parent.spec.env.clone(),
            egress: parent.spec.egress.clone(),
            bandwidth_mbps: parent.spec.bandwidth_mbps,
            volumes: volumes.mounts,
        },
        volume_names: volumes.names,
        from_snapshot: None,
        lineage: Lineage {
            parent: Some(parent.id),
            tree: ask.tree.clone(),
            index: u32::try_from(index).ok(),
            promoted: explored.map(|_| kept),
        },
        size: parent.size,
        state: SandboxState::Creating,
        observed: StartReport::default(),
    }
}

/// Adds the fork's own keys to the caller's metadata. The parent's metadata is not copied, because
/// its labels are wrong on another sandbox.
fn metadata(parent: SandboxId, ask: &ForkPlanRequest, index: usize) -> BTreeMap<String, String> {
    let mut metadata = ask.wish.metadata.clone();
    let mut set = |key: &str, value: String| metadata.insert(key.to_owned(), value);
    set(FORK_PARENT_ID, parent.to_string());
    set(FORKED_FROM, parent.to_string());
    set(FORK_INDEX, index.to_string());
    if let Some(tree) = &ask.tree {
        set(FORK_TREE_ID, tree.clone());
        set(FORK_TREE_ROLE, "child".to_owned());
    }
    metadata
}

/// The volumes of a child, in the order of its parent.
#[derive(Default)]
struct ChildVolumes {
    mounts: Vec<VolumeMount>,
    names: Vec<String>,
    copies: Vec<VolumeRow>,
}

/// A child shares the volumes that its parent only reads, and gets copies of those that it writes.
fn child_volumes(view: &ForkState, ask: &ForkPlanRequest, index: usize) -> Result<ChildVolumes, Fault> {
    let parent = &view.parent;
    let target = CopyTarget { sandbox: ask.ids[index], workspace: &parent.workspace, created_at_ns: ask.created_at_ns };
    let mounts: Vec<_> = parent.spec.volumes.iter().zip(&parent.volume_names).collect();
    let is_written = |mount: &VolumeMount| mount.access == VolumeAccess::ReadWrite;
    let written = mounts.iter().filter(|(mount, _)| is_written(mount)).map(|(mount, name)| {
        let known = view.volumes.iter().find(|volume| volume.id == mount.volume).ok_or_else(|| no_volume(name))?;
        let (name, path) = (source_name(known).to_owned(), mount.path.clone());
        Ok(SealedMount { name, path, read_only: false, size: known.size })
    });
    let written = written.collect::<Result<Vec<_>, Fault>>()?;
    let mut copies = target.copies(written.iter().zip(ask.volume_ids[index].iter().copied())).into_iter();
    let mut volumes = ChildVolumes::default();
    for (mount, name) in mounts {
        let copy = if is_written(mount) { copies.next() } else { None };
        let (mount, name) = match copy {
            Some(CopiedMount { mount, row }) => {
                let name = row.name.clone();
                volumes.copies.push(row);
                (mount, name)
            }
            None => (mount.clone(), name.clone()),
        };
        volumes.mounts.push(mount);
        volumes.names.push(name);
    }
    Ok(volumes)
}

#[cfg(test)]
mod tests {
    use pandastack_model::{ByteSize, Egress, FaultKind};
    use pandastack_wire_fleet::WorkspaceId;

    use super::*;
    use crate::store::MachineSize;

    fn parent() -> Intent {
        let spec = SandboxSpec {
            ttl_seconds: 77,
            persistent: true,
            metadata: [("label".to_owned(), "parent".to_owned())].into(),
            env: [("A".to_owned(), "b".to_owned())].into(),
            egress: Egress::Only(Vec::new()),
            bandwidth_mbps: Some(5),
            ..SandboxSpec::of("base".parse().unwrap())
        };
        Intent {
            id: SandboxId::random(),
            workspace: WorkspaceId("w".into()),
            generation: 1,
            created_at_ns: 1,
            spec,
            volume_names: Vec::new(),
            from_snapshot: Some("s".into()),
            lineage: Lineage::default(),
            size: MachineSize { cpus: 2, memory_mib: 512, disk_mib: 1024 },
            state: SandboxState::Running,
            observed: StartReport::default(),
        }
    }

    fn plan(parent: &Intent, count: usize, explore_ttl: Option<u64>, sandboxes: u64) -> Result<Vec<Intent>, Fault> {
        Ok(plan_all(parent, count, explore_ttl, sandboxes)?.into_iter().map(|planned| planned.intent).collect())
    }

    fn plan_all(
        parent: &Intent,
        count: usize,
        explore_ttl: Option<u64>,
        sandboxes: u64,
    ) -> Result<Vec<PlannedSandbox>, Fault> {
        let volumes = parent.spec.volumes.iter().zip(&parent.volume_names).map(|(mount, name)| VolumeRow {
            id: mount.volume,
            workspace: parent.workspace.clone(),
            name: name.clone(),
            size: ByteSize::gib(2),
            created_at_ns: 1,
            sandbox: None,
        });
        let view = ForkState { parent: parent.clone(), volumes: volumes.collect(), sandboxes, sandboxes_max: 10 };
        let metadata = [("mine".to_owned(), "1".to_owned())].into();
        let ask = ForkPlanRequest {
            wish: ForkSpec { count, metadata, explore_ttl },
            ids: (0..count).map(|_| SandboxId::random()).collect(),
            volume_ids: (0..count).map(|_| parent.spec.volumes.iter().map(|_| VolumeId::random()).collect()).collect(),
            layer: LayerId::random(),
            tree: Some("t".into()),
            created_at_ns: 100,
        };
        fork(&view, &ask)
    }

    #[test]
    fn children_inherit_all_but_labels() {
        let parent = parent();
        let children = plan(&parent, 3, None, 1).unwrap();
        for (index, child) in children.iter().enumerate() {
            let SandboxSpec { ttl_seconds, persistent, env, egress, bandwidth_mbps, metadata, .. } = &child.spec;
            assert_eq!((*ttl_seconds, *persistent, *bandwidth_mbps), (77, true, Some(5)));
            assert_eq!((env, egress), (&parent.spec.env, &parent.spec.egress));
            assert_eq!((child.size, child.from_snapshot.as_ref()), (parent.size, None));
            let text = parent.id.to_string();
            let expected = [
                ("mine", "1"),
                (FORK_INDEX, &index.to_string()),
                (FORK_PARENT_ID, &text),
                (FORKED_FROM, &text),
                (FORK_TREE_ID, "t"),
                (FORK_TREE_ROLE, "child"),
            ];
            let expected: BTreeMap<_, _> = expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
            assert_eq!(metadata, &expected);
            assert_eq!(child.created_at_ns, 100 + index as u64);
            assert_eq!(child.lineage.promoted, None);
        }
        assert_eq!(children.iter().map(|child| child.id).collect::<std::collections::BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn explored_branches_end_by_themselves_until_promoted() {
        let child = plan(&parent(), 1, Some(60), 0).unwrap().remove(0);
        assert_eq!((child.spec.ttl_seconds, child.spec.persistent), (60, false));
        assert_eq!(child.lineage.promoted, Some(IdleLimit { ttl_seconds: 77, persistent: true }));
    }

    #[test]
    fn the_quota_counts_every_child() {
        assert!(plan(&parent(), 4, None, 6).is_ok());
        assert_eq!(plan(&parent(), 5, None, 6).unwrap_err().kind, FaultKind::Quota);
    }

    #[test]
    fn children_share_what_is_read_and_get_copies_of_what_is_written() {
        let mut parent = parent();
        let mount = |path: &str, access| VolumeMount { volume: VolumeId::random(), path: path.into(), access };
        parent.spec.volumes = vec![mount("/mnt/r", VolumeAccess::ReadOnly), mount("/mnt/w", VolumeAccess::ReadWrite)];
        parent.volume_names = vec!["r".into(), "w".into()];
        let children = plan_all(&parent, 2, None, 0).unwrap();
        for PlannedSandbox { intent, copies, .. } in &children {
            let [read, written] = &intent.spec.volumes[..] else { panic!("{:?}", intent.spec.volumes) };
            assert_eq!(read, &parent.spec.volumes[0]);
            assert_eq!((written.path.as_str(), written.access), ("/mnt/w", VolumeAccess::ReadWrite));
            let [copy] = &copies[..] else { panic!("{copies:?}") };
            assert_eq!((copy.id, copy.sandbox, copy.size), (written.volume, Some(intent.id), ByteSize::gib(2)));
            assert_eq!(intent.volume_names, ["r".to_owned(), copy.name.clone()]);
        }
        let ids = |planned: &PlannedSandbox| planned.copies[0].id;
        assert!(ids(&children[0]) != ids(&children[1]) && ids(&children[0]) != parent.spec.volumes[1].volume);
    }
}
