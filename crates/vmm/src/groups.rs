//! Names of the control groups that machines live in, so that whoever looks for leftovers finds
//! them.

use std::path::Path;

/// The group above all others of ours.
const TOP: &str = "pandastack";

/// Names the group of one machine by its own folder.
pub fn group_of(run_dir: &Path) -> String {
    let all = run_dir.parent().unwrap_or(Path::new(""));
    format!("{}/{}", groups_of(all), last(run_dir))
}

/// Names the group that holds the groups of all machines whose folders lie in a folder.
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
