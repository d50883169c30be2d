//! Decides whether a sandbox may be made, and writes down the intent.

use pandastack_model::{Fault, FaultKind, SandboxId, SandboxSpec, SandboxState};
use pandastack_wire_fleet::{TemplateView, WorkspaceId};

use crate::store::{Intent, Observed, Size};

/// Template names an error lists before it stops.
const NAMES_SHOWN_MAX: usize = 20;

/// What the decision looks at.
pub struct View {
    pub templates: Vec<TemplateView>,
    pub sandboxes: u64,
    pub sandboxes_max: u64,
}

/// Who asks for what, and what is settled already: the id and the time.
pub struct Ask {
    pub id: SandboxId,
    pub workspace: WorkspaceId,
    pub created_at_ns: u64,
    pub spec: SandboxSpec,
}

/// Gives the intent to commit, or why there is none.
pub fn place(view: &View, ask: Ask) -> Result<Intent, Fault> {
    let Ask { id, workspace, created_at_ns, spec } = ask;
    let Some(template) = view.templates.iter().find(|template| template.name == spec.template.as_str()) else {
        return Err(unknown_template(view, spec.template.as_str()));
    };
    if view.sandboxes >= view.sandboxes_max {
        return Err(full());
    }
    Ok(Intent {
        id,
        workspace,
        generation: 1,
        created_at_ns,
        spec,
        size: Size { cpus: u32::from(template.cpus), memory_mib: template.memory_mib },
        state: SandboxState::Creating,
        observed: Observed::default(),
    })
}

/// The fault of a workspace that has as many sandboxes as it may.
pub fn full() -> Fault {
    Fault::new(FaultKind::Quota, "quota.sandboxes", "max sandboxes reached; delete one that is no longer needed")
}

fn unknown_template(view: &View, name: &str) -> Fault {
    let known: Vec<_> = view.templates.iter().map(|template| template.name.as_str()).take(NAMES_SHOWN_MAX).collect();
    let known = if known.is_empty() { "none yet".to_owned() } else { known.join(", ") };
    Fault::new(FaultKind::Caller, "template.unknown", format!("unknown template {name:?}; known: {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, sandboxes: u64, expected: Result<u32, (FaultKind, &str)>) {
        let view = View {
            templates: vec![TemplateView {
                name: "base".into(),
                layer: "l".into(),
                memory_mib: 512,
                cpus: 2,
                disk_mib: 1024,
            }],
            sandboxes,
            sandboxes_max: 3,
        };
        let spec = SandboxSpec::of(template.parse().unwrap());
        let ask = Ask { id: SandboxId::random(), workspace: WorkspaceId("w".into()), created_at_ns: 1, spec };
        let got = place(&view, ask).map(|intent| intent.size.cpus);
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
    }
}
