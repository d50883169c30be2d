//! Opening the database, the first key, and restarts.

use std::sync::Arc;

use pandastack_control::{BootstrapError, BootstrapKey};
use pandastack_kit::Scope;
use pandastack_wire_fleet::{ControlPort, Credential, stub::StubHost};
use serde_json::json;

use crate::rig::{KEY, Rig, open};

#[tokio::test]
async fn the_first_start_makes_a_key_and_later_ones_keep_it() {
    let folder = tempfile::tempdir().unwrap();
    let control = open(folder.path(), Arc::default(), Scope::new()).await;
    let made = control.bootstrap(None).await.unwrap();
    let key = made.reveal().unwrap().to_owned();
    assert!(matches!(made, BootstrapKey::Made(_)) && key.len() == 36 && key.starts_with("pds_"));
    control.authenticate(Credential::bearer(&key)).await.unwrap();
    control.close().await;

    let control = open(folder.path(), Arc::default(), Scope::new()).await;
    let kept = control.bootstrap(None).await.unwrap();
    assert!(kept.reveal().is_none());
    assert_eq!(kept.prefix(), &key[..12]);
    control.authenticate(Credential::bearer(&key)).await.unwrap();
    let given = control.bootstrap(Some(KEY.into())).await.unwrap();
    assert_eq!(given.reveal(), Some(KEY));
    let (first, second) =
        (control.authenticate(Credential::bearer(&key)).await, control.authenticate(Credential::bearer(KEY)).await);
    assert_eq!(first.unwrap().workspace, second.unwrap().workspace, "both keys open the same workspace");
    for bad in ["", "secret", "pds_XYZ"] {
        assert!(matches!(control.bootstrap(Some(bad.into())).await, Err(BootstrapError::BadKey)));
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
