//! Decides the volumes of a copy: a sandbox from a layer that has volumes gets volumes of its own,
//! with the same content, at the same paths and in the same order.

use pandastack_model::{SandboxId, VolumeAccess, VolumeId, VolumeMount};
use pandastack_wire_fleet::WorkspaceId;

use crate::store::{SealedMount, VolumeRow};

/// Hex digits of the sandbox's id in the name of its volume.
const ID_DIGITS: usize = 8;
/// Longest name of a volume.
const NAME_BYTES_MAX: usize = 64;

/// The sandbox that gets copies.
#[derive(Clone, Copy)]
pub struct CopyTarget<'a> {
    pub sandbox: SandboxId,
    pub workspace: &'a WorkspaceId,
    pub created_at_ns: u64,
}

/// One mount of a copy, with the name of its volume.
pub struct CopiedMount {
    pub mount: VolumeMount,
    pub row: VolumeRow,
}

impl CopyTarget<'_> {
    /// Plans volumes with the content of sealed ones. The caller chose their ids.
    pub fn copies<'a>(&self, sealed: impl Iterator<Item = (&'a SealedMount, VolumeId)>) -> Vec<CopiedMount> {
        let mut copies: Vec<CopiedMount> = Vec::new();
        for (sealed, id) in sealed {
            let taken: Vec<_> = copies.iter().map(|copy| copy.row.name.as_str()).collect();
            let name = copy_name(&sealed.name, self.sandbox, &taken);
            copies.push(self.copy(sealed, id, name));
        }
        copies
    }

    fn copy(&self, sealed: &SealedMount, id: VolumeId, name: String) -> CopiedMount {
        let row = VolumeRow {
            id,
            workspace: self.workspace.clone(),
            name,
            size: sealed.size,
            created_at_ns: self.created_at_ns,
            sandbox: Some(self.sandbox),
        };
        let access = if sealed.read_only { VolumeAccess::ReadOnly } else { VolumeAccess::ReadWrite };
        CopiedMount { mount: VolumeMount { volume: id, path: sealed.path.clone(), access }, row }
    }
}

/// Returns the name of a volume without the sandbox that it was copied for, so that a copy of a
/// copy does not get longer and longer.
pub fn source_name(volume: &VolumeRow) -> &str {
    let copied_for = volume.sandbox.and_then(|sandbox| volume.name.strip_suffix(&format!("-{}", short_id(sandbox))));
    copied_for.unwrap_or(&volume.name)
}

/// Returns a name that says of what it is a copy and for which sandbox, and that is not among
/// those of the sandbox's other copies.
fn copy_name(source: &str, sandbox: SandboxId, taken: &[&str]) -> String {
    let named = |end: String| {
        // Names are ASCII.
        let source = &source[..source.len().min(NAME_BYTES_MAX - end.len())];
        format!("{source}{end}")
    };
    let id = short_id(sandbox);
    let numbered = (2..).map(|number| named(format!("-{number}-{id}")));
    let mut names = std::iter::once(named(format!("-{id}"))).chain(numbered);
    names.find(|name| !taken.contains(&name.as_str())).unwrap_or_default()
}

fn short_id(sandbox: SandboxId) -> String {
    sandbox.to_string().chars().filter(char::is_ascii_hexdigit).take(ID_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use pandastack_model::ByteSize;

    use super::*;

    #[test]
    fn a_copy_is_named_after_its_source_and_its_sandbox() {
        let sandbox: SandboxId = "0a1b2c3d-0000-4000-8000-000000000000".parse().unwrap();
        let name = |source: &str, taken: &[&str]| copy_name(source, sandbox, taken);
        assert_eq!(name("data", &[]), "data-0a1b2c3d");
        assert_eq!(name("logs-20240101", &[]), "logs-20240101-0a1b2c3d");
        assert_eq!(name("data", &["data-0a1b2c3d"]), "data-2-0a1b2c3d");
        assert_eq!(name("data", &["data-0a1b2c3d", "data-2-0a1b2c3d"]), "data-3-0a1b2c3d");
        let long = "x".repeat(64);
        let first = name(&long, &[]);
        let second = name(&long, &[&first]);
        assert!(first.len() == 64 && second.len() == 64 && first != second, "{first} {second}");
    }

    #[test]
    fn only_the_owner_of_a_copy_is_left_out_of_its_name() {
        let sandbox: SandboxId = "0a1b2c3d-0000-4000-8000-000000000000".parse().unwrap();
        let volume = |name: &str, sandbox| VolumeRow {
            id: VolumeId::random(),
            workspace: WorkspaceId("w".into()),
            name: name.into(),
            size: ByteSize::gib(1),
            created_at_ns: 1,
            sandbox,
        };
        assert_eq!(source_name(&volume("data-0a1b2c3d", Some(sandbox))), "data");
        assert_eq!(source_name(&volume("data-0a1b2c3d", None)), "data-0a1b2c3d");
        assert_eq!(source_name(&volume("logs-20240101", Some(sandbox))), "logs-20240101");
    }

    #[test]
    fn copies_for_one_sandbox_have_different_names() {
        let (sandbox, workspace) = (SandboxId::random(), WorkspaceId("w".into()));
        let sealed = |path: &str| SealedMount {
            name: "data".into(),
            path: path.into(),
            read_only: false,
            size: ByteSize::gib(1),
        };
        let target = CopyTarget { sandbox, workspace: &workspace, created_at_ns: 1 };
        let mounts = [sealed("/a"), sealed("/b")];
        let copies = target.copies(mounts.iter().map(|mount| (mount, VolumeId::random())));
        assert_eq!(copies.iter().map(|copy| copy.mount.path.as_str()).collect::<Vec<_>>(), ["/a", "/b"]);
        assert!(copies[0].row.name != copies[1].row.name);
    }
}
