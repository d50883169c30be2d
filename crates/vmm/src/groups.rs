//! Names of the machines' control groups. Recovery finds leftover machines by these names.

use std::path::Path;

/// The top group of this product.
const TOP: &str = "pandastack";

/// The group of one machine, named after its folder.
pub fn group_of(run_dir: &Path) -> String {
    let all = run_dir.parent().unwrap_or(Path::new(""));
    format!("{}/{}", groups_of(all), last(run_dir))
}

/// The parent group of all machines whose folders lie in this folder.
pub fn groups_of(run_root: &Path) -> String {
    format!("{TOP}/{}", last(run_root))
}

fn last(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_of_one_folder_have_their_groups_side_by_side() {
        assert_eq!(group_of(Path::new("/run/pandastack/0a1b/mch_x")), "pandastack/0a1b/mch_x");
        assert_eq!(groups_of(Path::new("/run/pandastack/0a1b")), "pandastack/0a1b");
    }
}
