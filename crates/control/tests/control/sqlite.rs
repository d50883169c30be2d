//! The state of a test's control plane in SQLite.

use std::path::Path;

use pandastack_control::ControlPlace;

/// Returns the place of the state that belongs to a folder.
pub async fn place(folder: &Path) -> ControlPlace {
    ControlPlace::in_folder(folder)
}

/// Returns everything that is stored, as bytes.
pub async fn stored(folder: &Path) -> Vec<u8> {
    let file = std::fs::read(folder.join("control.db")).unwrap();
    let log = std::fs::read(folder.join("control.db-wal")).unwrap_or_default();
    [file, log].concat()
}
