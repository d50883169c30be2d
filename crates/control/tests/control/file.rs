//! The SQLite file itself.

use std::{os::unix::fs::PermissionsExt, sync::Arc};

use pandastack_control::{Control, ControlPlace, Orphans, SCHEMA, mark_restored};
use pandastack_database::put_back;
use pandastack_kit::{Scope, SystemClock};
use pandastack_model::SandboxState;
use pandastack_wire_fleet::stub::StubHost;
use reqwest::Method;
use serde_json::json;

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

/// A real backup, put back as `pandastack admin restore` does.
#[tokio::test]
async fn a_restored_backup_puts_aside_what_came_after_it() {
    let rig = Rig::start().await;
    let before = rig.created().await;
    let (database, backup) = (rig.database().await, rig.folder.path().join("backup.db"));
    database.snapshot_to(&backup).await.unwrap();
    database.close().await;
    let after = rig.created().await;
    let volume = rig.send(Method::POST, "/v1/volumes", json!({"name": "later", "size_mb": 64})).await;
    assert_eq!(volume.0, 201);
    rig.scope.close(std::time::Duration::from_secs(5)).await;
    rig.control.close().await;

    let place = ControlPlace::in_folder(rig.folder.path()).database;
    put_back(&backup, &rig.folder.path().join("control.db"), SCHEMA).await.unwrap();
    mark_restored(&place, "backup.db", 1).await.unwrap();
    let rig = Rig::start_in(rig.folder, rig.host).await;
    rig.control.look_after_orphans().await.unwrap();
    assert_eq!((rig.host.count(), rig.host.volumes.lock().unwrap().len()), (2, 1));
    assert_eq!(rig.host.state(&before), SandboxState::Running);
    assert_eq!(rig.host.state(&after), SandboxState::Asleep);
    assert_eq!(rig.get("/v1/sandboxes").await.1.as_array().unwrap().len(), 1);
    let orphans = Orphans::open(&place, 1).await.unwrap();
    let kinds: Vec<_> = orphans.list().await.unwrap().into_iter().map(|orphan| orphan.kind).collect();
    assert_eq!(kinds, ["sandbox", "volume"]);
    orphans.close().await;
}
