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
    /// Plans a volume with the content of a sealed one. The caller chose its id.
    pub fn copy(&self, sealed: &SealedMount, id: VolumeId) -> CopiedMount {
        let row = VolumeRow {
            id,
            workspace: self.workspace.clone(),
            name: copy_name(&sealed.name, self.sandbox),
            size: sealed.size,
            created_at_ns: self.created_at_ns,
            sandbox: Some(self.sandbox),
        };
        let access = if sealed.read_only { VolumeAccess::ReadOnly } else { VolumeAccess::ReadWrite };
        CopiedMount { mount: VolumeMount { volume: id, path: sealed.path.clone(), access }, row }
    }
}

/// Returns a name that says of what it is a copy and for which sandbox. A copy of a copy does not
/// get longer and longer.
fn copy_name(name: &str, sandbox: SandboxId) -> String {
    let is_id = |end: &str| end.len() == ID_DIGITS && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    let base = name.rsplit_once('-').filter(|(_, end)| is_id(end)).map_or(name, |(base, _)| base);
    let id: String = sandbox.to_string().chars().filter(char::is_ascii_hexdigit).take(ID_DIGITS).collect();
    // Names are ASCII.
    format!("{}-{id}", &base[..base.len().min(NAME_BYTES_MAX - ID_DIGITS - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_named_after_its_source_and_its_sandbox() {
        let sandbox: SandboxId = "0a1b2c3d-0000-4000-8000-000000000000".parse().unwrap();
        assert_eq!(copy_name("data", sandbox), "data-0a1b2c3d");
        assert_eq!(copy_name("data-ffffffff", sandbox), "data-0a1b2c3d");
        assert_eq!(copy_name("data-main", sandbox), "data-main-0a1b2c3d");
        assert_eq!(copy_name(&"x".repeat(64), sandbox).len(), 64);
    }
}
