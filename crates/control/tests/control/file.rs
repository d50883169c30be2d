//! The SQLite file itself.

use std::{os::unix::fs::PermissionsExt, sync::Arc};

use pandastack_control::{Control, ControlPlace};
use pandastack_kit::{Scope, SystemClock};
use pandastack_wire_fleet::stub::StubHost;

use crate::rig::{KEY, Rig};

#[tokio::test]
async fn the_database_is_private_and_holds_no_key() {
    let rig = Rig::start().await;
    for name in ["control.db", "control.db-wal"] {
        let path = rig.folder.path().join(name);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0, "{name}");
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()), "{name}");
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let place = ControlPlace::in_folder(folder.path());
    std::fs::write(folder.path().join("control.db"), [0x5a; 8192]).unwrap();
    let opened = Control::open(&place, Arc::new(StubHost::default()), Scope::new(), Arc::new(SystemClock)).await;
    assert!(opened.is_err());
    let missing = ControlPlace::in_folder(&folder.path().join("no/such/folder"));
    let opened = Control::open(&missing, Arc::new(StubHost::default()), Scope::new(), Arc::new(SystemClock)).await;
    assert!(opened.is_err());
}
