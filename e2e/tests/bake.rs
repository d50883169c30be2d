//! Baking with the built program, ended in its middle: by a request, which it still answers for, and by force, after which the
//! next one does.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_e2e::PATIENCE;
use pandastack_host::net;
use pandastack_testbed::{DataFolder, built, processes, wait_for};

#[tokio::test]
async fn a_bake_that_is_killed_or_stopped_leaves_nothing() {
    let data = DataFolder::with_templates().unwrap();
    // Without its layer it is baked again.
    let volume = data.path().join("volume");
    std::fs::remove_file(volume.join("templates/mini")).unwrap();
    for layer in std::fs::read_dir(volume.join("layers")).unwrap().flatten() {
        std::fs::remove_dir_all(layer.path()).unwrap();
    }

    let mut killed = begin(data.path());
    let folder = booting(&killed).await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!processes(&folder).is_empty(), "the machine of a killed bake runs on");

    let stopped = begin(data.path());
    booting(&stopped).await;
    assert_eq!(processes(&folder), Vec::<String>::new(), "the next bake ends it");
    kill(Pid::from_raw(stopped.id() as i32), Signal::SIGTERM).unwrap();
    let stopped_id = stopped.id();
    let ended = stopped.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("nothing is baked"), "{}: {said}", ended.status);

    let instance = data.path().canonicalize().unwrap().display().to_string();
    for process in [killed.id(), stopped_id] {
        assert_eq!(folder_of(process), None);
        let net::Leftovers { namespaces, links, tables } =
            net::leftovers(&format!("{instance} bake {process}")).await.unwrap();
        assert_eq!([namespaces, links, tables].concat(), Vec::<String>::new());
    }
    assert_eq!(std::fs::read_dir(volume.join("disks")).unwrap().count(), 0);
    assert!(!volume.join("templates/mini").exists());
}

fn begin(data: &Path) -> Child {
    let mut bake = Command::new(built("pandastack"));
    bake.args(["template", "bake", "mini", "--data-dir"]).arg(data);
    bake.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a bake has a machine, and gives the folder of its machines.
async fn booting(bake: &Child) -> PathBuf {
    let machine = async || folder_of(bake.id()).filter(|folder| !processes(folder).is_empty());
    wait_for("the machine of a bake", PATIENCE, machine).await
}

fn folder_of(process: u32) -> Option<PathBuf> {
    let folders = std::fs::read_dir("/run/pandastack").into_iter().flatten().flatten().map(|entry| entry.path());
    folders.into_iter().find(|folder| folder.to_string_lossy().ends_with(&format!(".bake-{process}")))
}
