//! The table of allowed dependencies (arrows) between rooms, and the check of one arrow against it.
//! A change of the table is a separate commit with a decision note
//! (docs/decisions/0001-rooms-and-arrows.md).

/// The rooms that each room may import. A room that is not listed may not exist.
const ALLOWED: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("kit", &[]),
    ("sys", &[]),
    ("wire-guest", &[]),
    ("wire-fleet", &["model"]),
    ("wire-public", &["model", "wire-guest"]),
    ("vmm", &["model"]),
    ("vmm-qemu", &["vmm", "sys", "kit", "model"]),
    ("vmm-fake", &["vmm", "kit", "model"]),
    ("layers", &["model", "sys", "kit", "vmm"]),
    ("client", &["wire-public", "kit"]),
    ("guest", &["wire-guest", "sys", "kit"]),
    ("host", &["wire-fleet", "wire-guest", "vmm", "layers", "sys", "kit", "model"]),
    ("door", &["wire-public", "wire-fleet", "model", "kit"]),
    ("edge", &["door", "postgres-broker", "wire-public", "wire-fleet", "model", "kit"]),
    ("dockerfile", &[]),
    ("database", &[]),
    ("dial", &["kit"]),
    ("image", &["dial", "dockerfile", "kit"]),
    ("billing", &["kit"]),
    ("tls", &["dial", "kit"]),
    ("identity", &["dial", "kit"]),
    ("mail", &["kit"]),
    ("postgres-proxy", &["kit"]),
    ("postgres-archive", &["kit"]),
    ("postgres-broker", &["kit"]),
    (
        "control",
        &[
            "door",
            "wire-public",
            "wire-fleet",
            "model",
            "kit",
            "billing",
            "database",
            "dial",
            "dockerfile",
            "identity",
            "image",
            "mail",
            "postgres-archive",
            "postgres-broker",
        ],
    ),
    ("mcp", &["client", "door", "wire-fleet", "model", "kit"]),
    ("web", &["door"]),
    ("cli", &["client", "mcp", "model", "kit", "wire-public"]),
];

/// Rooms that may import anything except a binary.
const FREE: &[&str] = &["testbed", "e2e", "xtask", "fuzz"];

/// Rooms that the tests of any room may use.
const FOR_TESTS: &[&str] = &["testbed", "vmm-fake"];

/// One dependency between two packages of the workspace.
pub struct Arrow {
    /// The importing package's folder, such as `crates/host`.
    pub from: String,
    /// The imported package's folder.
    pub to: String,
    pub kind: ArrowKind,
}

/// Whether the arrow exists in the product or only in tests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ArrowKind {
    Product,
    Tests,
}

/// Returns why the arrow is refused, or nothing if the table has it.
pub fn refuse(arrow: &Arrow) -> Option<String> {
    let (from, to) = (room(&arrow.from), room(&arrow.to));
    if is_bin(&arrow.to) {
        return Some(format!("{from} imports the binary {to}; move the shared code into a room"));
    }
    if is_bin(&arrow.from) || FREE.contains(&from) {
        return None;
    }
    if arrow.kind == ArrowKind::Tests && FOR_TESTS.contains(&to) {
        return None;
    }
    let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == from) else {
        return Some(format!("{from} has no row in the table of arrows; add one with a decision note"));
    };
    if allowed.contains(&to) {
        return None;
    }
    let may = if allowed.is_empty() { "no other room".to_owned() } else { format!("only {}", allowed.join(", ")) };
    Some(format!("{from} may import {may}, not {to}; turn the dependency round or pass the value in"))
}

fn room(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

fn is_bin(folder: &str) -> bool {
    folder.starts_with("bins/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(from: &str, to: &str, kind: ArrowKind) -> bool {
        refuse(&Arrow { from: from.into(), to: to.into(), kind }).is_some()
    }

    #[test]
    fn an_arrow_in_the_table_passes() {
        assert!(!refused("crates/host", "crates/vmm", ArrowKind::Product));
        assert!(!refused("crates/layers", "crates/vmm", ArrowKind::Product));
    }

    #[test]
    fn a_service_room_never_imports_another() {
        assert!(refused("crates/control", "crates/host", ArrowKind::Product));
        assert!(refused("crates/edge", "crates/control", ArrowKind::Tests));
        assert!(refused("crates/host", "crates/vmm-qemu", ArrowKind::Product));
    }

    #[test]
    fn pure_rooms_import_nothing() {
        assert!(refused("crates/model", "crates/kit", ArrowKind::Product));
        assert!(refused("crates/sys", "crates/model", ArrowKind::Product));
    }

    #[test]
    fn parsers_of_untrusted_input_have_no_database_in_reach() {
        for room in
            ["crates/dockerfile", "crates/image", "crates/dial", "crates/identity", "crates/billing", "crates/mail"]
        {
            for other in ["crates/control", "crates/host", "crates/layers", "crates/wire-public", "crates/wire-fleet"] {
                assert!(refused(room, other, ArrowKind::Product), "{room} {other}");
            }
        }
    }

    #[test]
    fn tests_may_use_the_testbed_but_the_product_may_not() {
        assert!(!refused("crates/host", "crates/testbed", ArrowKind::Tests));
        assert!(refused("crates/host", "crates/testbed", ArrowKind::Product));
    }

    #[test]
    fn binaries_import_anything_and_nothing_imports_them() {
        assert!(!refused("bins/pandastack", "crates/vmm-qemu", ArrowKind::Product));
        assert!(refused("crates/testbed", "bins/pandastack", ArrowKind::Product));
    }

    #[test]
    fn an_unknown_room_needs_a_row() {
        assert!(refused("crates/shiny", "crates/model", ArrowKind::Product));
    }

    #[test]
    fn the_table_has_no_cycle() {
        fn walk(room: &str, path: &mut Vec<String>) {
            assert!(!path.iter().any(|seen| seen == room), "cycle through {room}: {path:?}");
            path.push(room.to_owned());
            for to in ALLOWED.iter().find(|(name, _)| *name == room).map_or(&[][..], |(_, to)| to) {
                walk(to, path);
            }
            path.pop();
        }
        for (room, _) in ALLOWED {
            walk(room, &mut Vec::new());
        }
    }
}
