//! How databases are looked after over a host without machines: backups that are due, volumes that
//! cannot grow, and what webhooks hear of both.

use std::{path::Path, sync::Arc, time::Duration};

use pandastack_kit::Scope;
use pandastack_postgres_archive::{Archive, ArchiveSettings, ArchiveStore};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    databases::{PlayedTool, becomes, create},
    receiver::{Receiver, WebhookRig},
};

/// Databases are looked at every 15 s. A busy machine may take longer.
const LOOKED_AFTER: Duration = Duration::from_secs(150);
const HOUR: u64 = 3600;

/// Puts a base backup of some age into a store, as an earlier server left it.
fn leave_backup(store: &Path, database: &Value, age_hours: u64) {
    let ended_at = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() - age_hours * HOUR;
    let note = json!({"version": 1, "bytes": 3, "digest": "", "timeline": 1, "start": 0x200_0028, "end": 0x200_0100,
        "ended_at": ended_at});
    let folder = store.join("db").join(database["id"].as_str().unwrap()).join("base");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("base-20260101T000000Z.tar.gz"), "tar").unwrap();
    std::fs::write(folder.join("base-20260101T000000Z.tar.gz.json"), note.to_string()).unwrap();
}

#[tokio::test]
async fn a_backup_is_taken_every_day_and_failures_are_told() {
    let told = WebhookRig::start().await;
    let (tool, receiver) = (PlayedTool::start(&told.rig), Receiver::start().await);
    told.subscribe(&receiver.url, &["database.*"]).await;
    *tool.health.lock().unwrap() = "up 50 50";
    *tool.failing.lock().unwrap() = Some("base-backup");
    let made = [create(&told.rig, json!({})).await, create(&told.rig, json!({})).await];
    let [old, fresh] = [becomes(&told.rig, &made[0], "running").await, becomes(&told.rig, &made[1], "running").await];
    let (store, scope) = (told.rig.folder.path().join("store"), Scope::new());
    leave_backup(&store, &old, 25);
    leave_backup(&store, &fresh, 23);
    let settings = ArchiveSettings::new(told.rig.folder.path().join("spool"), ArchiveStore::Folder(store));
    let archive = Archive::open(settings, Arc::new(told.rig.control.clone()), scope.clone()).unwrap();
    let _ = told.rig.control.clone().with_database_archive(Some(archive));

    let until = Instant::now() + LOOKED_AFTER;
    while receiver.seen().is_empty() || tool.verbs().iter().filter(|verb| *verb == "health").count() < 2 {
        assert!(Instant::now() < until, "{:?}", tool.verbs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let failed = receiver.seen()[0].json();
    assert_eq!((&failed["type"], &failed["sandbox_id"]), (&json!("database.backup_failed"), &old["id"]), "{failed}");
    assert!(failed["payload"]["reason"].is_string(), "{failed}");
    assert_eq!(tool.verbs().iter().filter(|verb| *verb == "base-backup").count(), 1, "only the old one is due");
    assert_eq!(receiver.seen().len(), 1);
    scope.close(crate::rig::PATIENCE).await;
}

#[tokio::test]
async fn a_full_volume_that_cannot_grow_is_told() {
    let told = WebhookRig::start().await;
    let (tool, receiver) = (PlayedTool::start(&told.rig), Receiver::start().await);
    told.subscribe(&receiver.url, &["database.*"]).await;
    *tool.health.lock().unwrap() = "up 85 15";
    let database = becomes(&told.rig, &create(&told.rig, json!({})).await, "running").await;
    // The host says that little is left.
    let _ = told.rig.control.clone().with_database_archive(None);
    let until = Instant::now() + LOOKED_AFTER;
    while receiver.seen().is_empty() {
        assert!(Instant::now() < until, "{:?}", tool.verbs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let full = receiver.seen()[0].json();
    assert_eq!((&full["type"], &full["sandbox_id"]), (&json!("database.not_grown"), &database["id"]), "{full}");
    assert_eq!((&full["payload"]["used"], &full["payload"]["free"]), (&json!(85), &json!(15)));
    assert!(full["payload"]["reason"].as_str().unwrap().contains("the host has less than"), "{full}");
}
