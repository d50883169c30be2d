//! Opening the database, the first key, and restarts.

use std::{os::unix::fs::PermissionsExt, sync::Arc};

use pandastack_control::{BootstrapError, BootstrapKey, Control};
use pandastack_kit::{Scope, SystemClock};
use pandastack_model::SandboxId;
use pandastack_wire_fleet::{ControlPort, stub::StubHost};
use serde_json::json;

use crate::rig::{KEY, Rig, open};

#[tokio::test]
async fn the_first_start_makes_a_key_and_later_ones_keep_it() {
    let folder = tempfile::tempdir().unwrap();
    let control = open(folder.path(), Arc::default(), Scope::new()).await;
    let made = control.bootstrap(None).await.unwrap();
    let key = made.reveal().unwrap().to_owned();
    assert!(matches!(made, BootstrapKey::Made(_)) && key.len() == 36 && key.starts_with("pds_"));
    control.authenticate(Some(&key)).await.unwrap();
    control.close().await;

    let control = open(folder.path(), Arc::default(), Scope::new()).await;
    let kept = control.bootstrap(None).await.unwrap();
    assert!(kept.reveal().is_none());
    assert_eq!(kept.prefix(), &key[..12]);
    control.authenticate(Some(&key)).await.unwrap();
    let given = control.bootstrap(Some(KEY.into())).await.unwrap();
    assert_eq!(given.reveal(), Some(KEY));
    let (first, second) = (control.authenticate(Some(&key)).await, control.authenticate(Some(KEY)).await);
    assert_eq!(first.unwrap().workspace, second.unwrap().workspace, "both keys open the same workspace");
    for bad in ["", "secret", "pds_XYZ"] {
        assert!(matches!(control.bootstrap(Some(bad.into())).await, Err(BootstrapError::BadKey)));
    }
}

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
async fn a_restart_marks_lost_sandboxes_failed() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}");
    let before = rig.get(&path).await.1;
    let rig = rig.restart().await;
    let (status, sandbox) = rig.get(&path).await;
    assert_eq!((status, &sandbox["status"]), (200, &json!("failed")));
    assert!(sandbox["status_reason"].as_str().unwrap().contains("no longer exists"));
    assert_eq!(sandbox["created_at"], before["created_at"]);
    assert_eq!(rig.get("/v1/sandboxes").await.1.as_array().unwrap().len(), 1);
    assert_eq!(rig.delete(&path).await, 204);
    let rig = rig.restart().await;
    assert_eq!(rig.get(&path).await.0, 404);
    assert_eq!(rig.delete(&path).await, 204, "a repeated delete succeeds across a restart");
}

#[tokio::test]
async fn a_restart_keeps_what_the_host_still_runs() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let host = Arc::new(StubHost::default());
    host.add(id.parse().unwrap());
    rig.control.close().await;
    let rig = Rig::start_in(rig.folder, host).await;
    assert_eq!(rig.get(&format!("/v1/sandboxes/{id}")).await.1["status"], "running");
}

#[tokio::test]
async fn a_database_of_the_first_version_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.db");
    let id = SandboxId::random();
    {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let pool = sqlx::sqlite::SqlitePool::connect_with(options).await.unwrap();
        sqlx::raw_sql(include_str!("../../src/store/0001_start.sql")).execute(&pool).await.unwrap();
        let rows = "CREATE TABLE schema_version (version BIGINT PRIMARY KEY, applied_at BIGINT NOT NULL);
                    INSERT INTO schema_version VALUES (1, 0);
                    INSERT INTO workspace VALUES ('default', 0);";
        sqlx::raw_sql(rows).execute(&pool).await.unwrap();
        let old = "INSERT INTO sandbox VALUES (?, 'default', 1, 5, 'mini', 60, 1, '{\"a\":\"b\"}', '{}', 2, 512, 'running', NULL,
                       '10.0.0.2', 12, 'standby', 'fake')";
        sqlx::query(old).bind(id.to_string()).execute(&pool).await.unwrap();
        pool.close().await;
    }
    let host = Arc::new(StubHost::default());
    host.add(id);
    let rig = Rig::start_in(folder, host).await;
    let (status, sandbox) = rig.get(&format!("/v1/sandboxes/{id}")).await;
    assert_eq!((status, &sandbox["ttl_seconds"], &sandbox["persistent"]), (200, &json!(60), &json!(true)));
    assert_eq!(sandbox["metadata"], json!({"a": "b", "workspace": "default"}));
    assert!(sandbox.get("egress_allowlist").is_none() && sandbox.get("from_snapshot").is_none());
    assert_eq!(rig.post(&format!("/v1/sandboxes/{id}/fork")).await.0, 201);
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.db");
    std::fs::write(&path, [0x5a; 8192]).unwrap();
    let opened = Control::open(&path, Arc::new(StubHost::default()), Scope::new(), Arc::new(SystemClock)).await;
    assert!(opened.is_err());
    let missing = folder.path().join("no/such/folder/control.db");
    let opened = Control::open(&missing, Arc::new(StubHost::default()), Scope::new(), Arc::new(SystemClock)).await;
    assert!(opened.is_err());
}
