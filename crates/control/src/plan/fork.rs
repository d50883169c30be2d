//! Decides the children of a fork: ids, metadata, lineage and limits.

use std::collections::BTreeMap;

use pandastack_model::{
    Fault, FaultKind, LayerId, SandboxId, SandboxOrigin, SandboxSpec, SandboxState, VolumeAccess, VolumeMount,
};
use pandastack_wire_public::{
    ForkSpec,
    metadata::{FORK_INDEX, FORK_PARENT_ID, FORK_TREE_ID, FORK_TREE_ROLE, FORKED_FROM},
};

use super::full;
use crate::store::{IdleLimit, Intent, Lineage, StartReport};

/// Input of the decision: the current state.
pub struct ForkState {
    pub parent: Intent,
    pub sandboxes: u64,
    pub sandboxes_max: u64,
}

/// The request, with the ids and the time already chosen.
pub struct ForkPlanRequest {
    pub wish: ForkSpec,
    /// One id for each child.
    pub ids: Vec<SandboxId>,
    pub layer: LayerId,
    /// The id of the tree, if the children form one.
    pub tree: Option<String>,
    pub created_at_ns: u64,
}

/// Returns the children to commit, ordered by index, or the reason for a refusal.
pub fn fork(view: &ForkState, ask: &ForkPlanRequest) -> Result<Vec<Intent>, Fault> {
    assert_eq!(ask.ids.len(), ask.wish.count, "one id for each child");
    if view.sandboxes + ask.ids.len() as u64 > view.sandboxes_max {
        return Err(full());
    }
    let mounts = shared_volumes(&view.parent)?;
    let child = |(index, id): (usize, &SandboxId)| one(view, ask, index, *id, &mounts);
    Ok(ask.ids.iter().enumerate().map(child).collect())
}

fn one(view: &ForkState, ask: &ForkPlanRequest, index: usize, id: SandboxId, mounts: &[VolumeMount]) -> Intent {
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
            volumes: mounts.to_vec(),
        },
        volume_names: parent.volume_names.clone(),
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

/// Children share the volumes that the parent only reads. A volume has only one writer, so a parent
/// that writes to one cannot be forked.
fn shared_volumes(parent: &Intent) -> Result<Vec<VolumeMount>, Fault> {
    let written = parent.spec.volumes.iter().zip(&parent.volume_names);
    match written.into_iter().find(|(mount, _)| mount.access == VolumeAccess::ReadWrite) {
        None => Ok(parent.spec.volumes.clone()),
        Some((_, name)) => {
            let text = format!(
                "volume {name} is attached read-write, which only one sandbox can do at a time; attach it read-only \
                 to fork"
            );
            Err(Fault::new(FaultKind::Conflict, "volume.attached", text))
        }
    }
}

#[cfg(test)]
mod tests {
    use pandastack_model::{Egress, VolumeId};
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
        let view = ForkState { parent: parent.clone(), sandboxes, sandboxes_max: 10 };
        let metadata = [("mine".to_owned(), "1".to_owned())].into();
        let ask = ForkPlanRequest {
            wish: ForkSpec { count, metadata, explore_ttl },
            ids: (0..count).map(|_| SandboxId::random()).collect(),
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
    fn only_readers_of_volumes_are_copied() {
        let mut parent = parent();
        let mount = VolumeMount { volume: VolumeId::random(), path: "/mnt/v".into(), access: VolumeAccess::ReadOnly };
        (parent.spec.volumes, parent.volume_names) = (vec![mount], vec!["v".into()]);
        assert_eq!(plan(&parent, 1, None, 0).unwrap()[0].spec.volumes, parent.spec.volumes);
        parent.spec.volumes[0].access = VolumeAccess::ReadWrite;
        assert_eq!(plan(&parent, 1, None, 0).unwrap_err().code, "volume.attached");
    }
}
