//! A change of a configuration file: shown as a diff, written atomically, with a copy of the old
//! file.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use pandastack_kit::replace_private;

/// Largest configuration file.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Unchanged lines around a change.
const AROUND: usize = 3;

/// A file before and after a change.
pub struct ConfigChange {
    path: PathBuf,
    old: Option<String>,
    new: String,
}

impl ConfigChange {
    /// Reads the file and makes its new text.
    pub fn of(path: &Path, make: impl FnOnce(&str) -> anyhow::Result<String>) -> anyhow::Result<Self> {
        // A link, as managers of dot files make them, stays: its target is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let old = match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
            Ok(about) if about.len() > FILE_BYTES_MAX => bail!("{} is too large", path.display()),
            Ok(_) => Some(fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?),
        };
        let new = make(old.as_deref().unwrap_or_default())
            .with_context(|| format!("change {}; add the entry by hand, --print shows it", path.display()))?;
        Ok(Self { path, old, new })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells whether the file has the entry already.
    pub fn is_empty(&self) -> bool {
        self.old.as_ref() == Some(&self.new)
    }

    /// Returns the change as a diff.
    pub fn diff(&self) -> String {
        let (old, new): (Vec<_>, Vec<_>) =
            (self.old.as_deref().unwrap_or_default().lines().collect(), self.new.lines().collect());
        let same = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
        let rest = old.len().min(new.len()) - same;
        let end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
        let mut shown = format!("--- {0}\n+++ {0}\n", self.path.display());
        let mut add =
            |mark: &str, lines: &[&str]| lines.iter().for_each(|line| shown.push_str(&format!("{mark}{line}\n")));
        add(" ", &old[same.saturating_sub(AROUND)..same]);
        add("-", &old[same..old.len() - end]);
        add("+", &new[same..new.len() - end]);
        let after = &old[old.len() - end..];
        add(" ", &after[..after.len().min(AROUND)]);
        shown
    }

    /// Writes the file. Returns the path of the copy of the old one.
    pub fn write(&self) -> anyhow::Result<Option<PathBuf>> {
        let failed = |what: &str| format!("{what} {}", self.path.display());
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).with_context(|| failed("make the folder of"))?;
        }
        let Some(old) = &self.old else {
            replace_private(&self.path, self.new.as_bytes()).with_context(|| failed("write"))?;
            return Ok(None);
        };
        let mode = fs::metadata(&self.path).with_context(|| failed("read"))?.permissions().mode();
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".before-pandastack");
        let copy = self.path.with_file_name(name);
        for (path, text) in [(&copy, old), (&self.path, &self.new)] {
            replace_private(path, text.as_bytes()).with_context(|| format!("write {}", path.display()))?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).with_context(|| failed("set the mode of"))?;
        }
        Ok(Some(copy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_and_written_with_a_copy() {
        let folder = std::env::temp_dir().join(format!("pandastack-mcp-{}", std::process::id()));
        let (path, link) = (folder.join("a/config.json"), folder.join("link.json"));
        let change = ConfigChange::of(&path, |old| Ok(format!("{old}one\n"))).unwrap();
        assert_eq!((change.write().unwrap(), fs::read_to_string(&path).unwrap().as_str()), (None, "one\n"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let change = ConfigChange::of(&link, |old| Ok(format!("{old}two\n"))).unwrap();
        assert!(change.diff().ends_with(" one\n+two\n"), "{}", change.diff());
        let copy = change.write().unwrap().unwrap();
        assert_eq!(fs::read_to_string(copy).unwrap(), "one\n");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(ConfigChange::of(&path, |old| Ok(old.to_owned())).unwrap().is_empty());
        fs::remove_dir_all(&folder).unwrap();
    }
}
