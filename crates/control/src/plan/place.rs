//! Decides whether a sandbox may be created, and returns its intent.

use pandastack_model::{
    Fault, FaultKind, GuestPort, SandboxId, SandboxOrigin, SandboxSpec, SandboxState, TemplateName, VolumeId,
    VolumeMount,
};
use pandastack_wire_fleet::{TemplateView, WorkspaceId};
use pandastack_wire_public::{CreateSandboxSpec, MountSpec, SandboxSource, declared_key, is_hidden};

use super::copies::CopyTarget;
use crate::{
    app::{no_snapshot, no_volume},
    bakes::PendingView,
    store::{Intent, Lineage, MachineSize, PlannedSandbox, SnapshotRow, StartReport, TemplateRow, VolumeRow},
};

/// Label of the ports that a template declares.
const EXPOSED: &str = "exposed";

/// Maximum number of template names in an error message.
const NAMES_SHOWN_MAX: usize = 20;

/// Input of the decision: the current state.
pub struct PlacementState {
    pub templates: Vec<TemplateView>,
    /// Templates that the server is still making.
    pub pending: Vec<PendingView>,
    /// Names of the workspace's templates, if the requested one is in neither list.
    pub own_names: Vec<TemplateName>,
    /// The requested template, if it belongs to the caller's workspace.
    pub own: Option<TemplateRow>,
    /// The requested snapshot, if it belongs to the caller's workspace.
    pub snapshot: Option<SnapshotRow>,
    /// The requested volumes that belong to the caller's workspace.
    pub volumes: Vec<VolumeRow>,
    pub sandboxes: u64,
    pub sandboxes_max: u64,
}

/// The request and its workspace, with the id and the time already chosen.
pub struct PlacementRequest {
    pub id: SandboxId,
    /// One id for each volume in the snapshot.
    pub volume_ids: Vec<VolumeId>,
    pub workspace: WorkspaceId,
    pub created_at_ns: u64,
    pub wanted: CreateSandboxSpec,
}

/// The source and the size of a new sandbox.
struct SandboxStart {
    template: TemplateName,
    origin: SandboxOrigin,
    size: MachineSize,
    from_snapshot: Option<String>,
}

/// Returns the intent to commit, or the reason for a refusal.
pub fn place(view: &PlacementState, ask: PlacementRequest) -> Result<PlannedSandbox, Fault> {
    let PlacementRequest { id, volume_ids, workspace, created_at_ns, wanted } = ask;
    let CreateSandboxSpec { start, ttl_seconds, persistent, mut metadata, env, egress, bandwidth_mbps, volumes } =
        wanted;
    let SandboxStart { template, origin, size, from_snapshot } = begin(view, start)?;
    if let Some(own) = &view.own {
        let ports = own.settings.ports.iter().filter_map(|port| GuestPort::try_from(i64::from(*port)).ok());
        let declared = ports.filter(|port| !is_hidden(*port)).map(|port| (declared_key(port), EXPOSED.to_owned()));
        metadata.extend(declared);
    }
    let (asked, asked_names) = attach(view, volumes)?;
    // The snapshot's come first: its memory has them in the first slots.
    let target = CopyTarget { sandbox: id, workspace: &workspace, created_at_ns };
    let sealed = view.snapshot.iter().flat_map(|snapshot| &snapshot.volumes).zip(volume_ids);
    let copied = target.copies(sealed);
    let volumes = copied.iter().map(|copy| copy.mount.clone()).chain(asked).collect();
    let volume_names = copied.iter().map(|copy| copy.row.name.clone()).chain(asked_names).collect();
    let copies = copied.into_iter().map(|copy| copy.row).collect();
    if view.sandboxes >= view.sandboxes_max {
        return Err(full());
    }
    let owner = Some(workspace.owner());
    let intent = Intent {
        id,
        workspace,
        generation: 1,
        created_at_ns,
        spec: SandboxSpec {
            owner,
            template,
            origin,
            ttl_seconds,
            persistent,
            metadata,
            env,
            egress,
            bandwidth_mbps,
            volumes,
        },
        volume_names,
        from_snapshot,
        lineage: Lineage::default(),
        size,
        state: SandboxState::Creating,
        observed: StartReport::default(),
    };
    Ok(PlannedSandbox { intent, copies, database: None })
}

/// The fault of a workspace that reached its limit of sandboxes.
pub fn full() -> Fault {
    Fault::new(FaultKind::Quota, "quota.sandboxes", "max sandboxes reached; delete one that is no longer needed")
}

fn begin(view: &PlacementState, start: SandboxSource) -> Result<SandboxStart, Fault> {
    match start {
        SandboxSource::Template(name) if let Some(own) = view.own.as_ref().filter(|own| own.name == name) => {
            Ok(SandboxStart {
                template: name,
                origin: SandboxOrigin::Layer(own.layer),
                size: own.size,
                from_snapshot: None,
            })
        }
        SandboxSource::Template(name) => {
            let known = view.templates.iter().find(|template| template.name == name.as_str());
            let known = known.ok_or_else(|| unknown_template(view, name.as_str()))?;
            let size =
                MachineSize { cpus: u32::from(known.cpus), memory_mib: known.memory_mib, disk_mib: known.disk_mib };
            Ok(SandboxStart { template: name, origin: SandboxOrigin::Template, size, from_snapshot: None })
        }
        // The template may be deleted by now; the layer contains everything.
        SandboxSource::Snapshot(_) => {
            let snapshot = view.snapshot.as_ref().ok_or_else(no_snapshot)?;
            Ok(SandboxStart {
                template: snapshot.template.clone(),
                origin: SandboxOrigin::Layer(snapshot.layer),
                size: snapshot.size,
                from_snapshot: Some(snapshot.id()),
            })
        }
    }
}

fn attach(view: &PlacementState, wanted: Vec<MountSpec>) -> Result<(Vec<VolumeMount>, Vec<String>), Fault> {
    let mount = |MountSpec { name, path, access }: MountSpec| {
        let known = view.volumes.iter().find(|volume| volume.name == name.as_str());
        let known = known.ok_or_else(|| no_volume(name.as_str()))?;
        Ok((VolumeMount { volume: known.id, path, access }, known.name.clone()))
    };
    wanted.into_iter().map(mount).collect::<Result<Vec<_>, _>>().map(|mounts| mounts.into_iter().unzip())
}

fn unknown_template(view: &PlacementState, name: &str) -> Fault {
    if let Some(pending) = view.pending.iter().find(|pending| pending.is_named(name)) {
        return pending.fault();
    }
    let own = view.own_names.iter().map(ToString::to_string);
    let known = own.chain(view.templates.iter().map(|template| template.name.clone()));
    let pending = view.pending.iter().map(|pending| format!("{} ({})", pending.template.name, pending.status()));
    let known: Vec<_> = known.chain(pending).take(NAMES_SHOWN_MAX).collect();
    let known = match known.as_slice() {
        [] => "this server has none; its operator runs: pandastack template bake mini".to_owned(),
        names => format!("known: {}", names.join(", ")),
    };
    Fault::new(FaultKind::Caller, "template.unknown", format!("unknown template {name:?}; {known}"))
}

#[cfg(test)]
mod tests {
    use pandastack_model::{ByteSize, LayerId};
    use pandastack_wire_public::CreateSandbox;
    use serde_json::json;

    use super::*;
    use crate::{
        bakes::{PendingTemplate, TemplateBakes},
        store::SealedMount,
    };

    fn view(sandboxes: u64) -> PlacementState {
        PlacementState {
            templates: vec![TemplateView {
                name: "base".into(),
                layer: "l".into(),
                memory_mib: 512,
                cpus: 2,
                disk_mib: 1024,
            }],
            pending: Vec::new(),
            own_names: Vec::new(),
            own: None,
            snapshot: None,
            volumes: Vec::new(),
            sandboxes,
            sandboxes_max: 3,
        }
    }

    fn ask(body: serde_json::Value) -> PlacementRequest {
        let wanted = serde_json::from_value::<CreateSandbox>(body).unwrap().try_into().unwrap();
        PlacementRequest {
            id: SandboxId::random(),
            volume_ids: vec![VolumeId::random()],
            workspace: WorkspaceId("w".into()),
            created_at_ns: 1,
            wanted,
        }
    }

    fn check(template: &str, sandboxes: u64, expected: Result<u32, (FaultKind, &str)>) {
        let got = place(&view(sandboxes), ask(json!({ "template": template }))).map(|planned| planned.intent.size.cpus);
        assert_eq!(
            got.as_ref().map_err(|fault| (fault.kind, fault.code)),
            expected.as_ref().map_err(|e| *e),
            "{template}"
        );
    }

    #[test]
    fn a_sandbox_has_its_templates_size() {
        check("base", 2, Ok(2));
    }

    #[test]
    fn refusals_have_names() {
        check("other", 0, Err((FaultKind::Caller, "template.unknown")));
        check("base", 3, Err((FaultKind::Quota, "quota.sandboxes")));
        let code = |body| place(&view(0), ask(body)).unwrap_err().code;
        assert_eq!(code(json!({"template": "base", "from_snapshot": "s"})), "snapshot.not_found");
        assert_eq!(code(json!({"template": "base", "volumes": [{"name": "v"}]})), "volume.not_found");
    }

    #[test]
    fn an_unknown_template_is_answered_with_the_next_step() {
        let refusal = |view: &PlacementState, name: &str| place(view, ask(json!({ "template": name }))).unwrap_err();
        let own_names = vec!["mine".parse().unwrap()];
        let text = refusal(&PlacementState { own_names, ..view(0) }, "other").text;
        assert_eq!(text, "unknown template \"other\"; known: mine, base");
        let empty = PlacementState { templates: Vec::new(), ..view(0) };
        let text = refusal(&empty, "other").text;
        assert!(text.ends_with("its operator runs: pandastack template bake mini"), "{text}");

        let bakes = TemplateBakes::default();
        let (name, aliases) = ("mini".parse().unwrap(), vec!["small".parse().unwrap()]);
        bakes.add(PendingTemplate { name, aliases, cpus: 1, memory_mib: 256, disk_mib: 1024 });
        let baking = PlacementState { pending: bakes.pending(), ..empty };
        for name in ["mini", "small"] {
            assert_eq!(refusal(&baking, name).code, "template.baking", "{name}");
        }
        let refused = refusal(&baking, "other");
        assert_eq!(refused.text, "unknown template \"other\"; known: mini (waiting)");
        // An older one of that name serves until the new one is there.
        assert!(
            place(&PlacementState { pending: bakes.pending(), ..view(0) }, ask(json!({"template": "base"}))).is_ok()
        );
    }

    #[test]
    fn a_snapshot_brings_its_own_template_and_size() {
        let snapshot = SnapshotRow {
            layer: LayerId::random(),
            workspace: WorkspaceId("w".into()),
            sandbox: SandboxId::random(),
            template: "gone".parse().unwrap(),
            size: MachineSize { cpus: 7, memory_mib: 77, disk_mib: 777 },
            own: ByteSize::new(1),
            created_at_ns: 0,
            volumes: vec![SealedMount {
                name: "data".into(),
                path: "/data".into(),
                read_only: false,
                size: ByteSize::gib(1),
            }],
        };
        let view = PlacementState { snapshot: Some(snapshot.clone()), ..view(0) };
        let planned = place(&view, ask(json!({"template": "base", "from_snapshot": "s"}))).unwrap();
        let PlannedSandbox { intent, copies, .. } = planned;
        assert_eq!((intent.spec.volumes[0].volume, intent.spec.volumes[0].path.as_str()), (copies[0].id, "/data"));
        assert_eq!((&intent.volume_names[0], copies[0].sandbox), (&copies[0].name, Some(intent.id)));
        assert_eq!((intent.size, intent.spec.origin), (snapshot.size, SandboxOrigin::Layer(snapshot.layer)));
        assert_eq!((intent.spec.template.as_str(), intent.from_snapshot), ("gone", Some(snapshot.id())));
    }
}
