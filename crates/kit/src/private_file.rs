//! Files with secrets, which only their owner may read.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Replaces a file atomically with one that only its owner may read. Readers see the old contents
/// or the new. Follows no link.
pub fn replace_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".new");
    let fresh = path.with_file_name(name);
    // Left by a killed process, or placed as a trap. It is never written through.
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let written = file.write_all(contents).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_private_and_follows_no_link() {
        let root = std::env::temp_dir().join(format!("pandastack-secret-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let (victim, path) = (root.join("victim"), root.join("secret"));
        fs::write(&victim, "untouched").unwrap();
        fs::write(&path, "open to others").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&victim, root.join("secret.new")).unwrap();
        for text in ["first", "second"] {
            replace_private(&path, text.as_bytes()).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode), (text, 0o600));
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
        assert!(!root.join("secret.new").exists());
        fs::remove_dir_all(&root).unwrap();
    }
}
