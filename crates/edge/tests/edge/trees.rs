//! Whole directories, through the edge.

use pandastack_model::{Fault, FaultKind};
use pandastack_wire_fleet::{FileChange, FileChangeKind};
use reqwest::Method;
use serde_json::json;

use crate::rig::{Rig, answer, within};

fn change(kind: FileChangeKind, path: &str) -> FileChange {
    FileChange { kind, path: path.into(), folder: false, cookie: None }
}

#[tokio::test]
async fn directories_are_made_moved_and_given_modes() {
    let rig = Rig::start().await;
    for (route, body, status) in [
        ("/fs/mkdir", json!({"path": "/a"}), 201),
        ("/fs/mkdir", json!({"path": "/a/b", "parents": true}), 201),
        ("/fs/move", json!({"from": "/a", "to": "/b"}), 200),
        ("/fs/move", json!({"from": "/a", "to": "/b", "overwrite": true}), 200),
        ("/fs/chmod", json!({"path": "/a", "mode": "0750"}), 200),
        ("/fs/chmod", json!({"path": "/a", "mode": "4755", "recursive": true}), 200),
    ] {
        assert_eq!(answer(rig.post(route, &body)).await.0, status, "{route} {body}");
    }
    assert_eq!(
        *rig.host.calls.lock().unwrap(),
        [
            "make_dir /a Only",
            "make_dir /a/b All",
            "move_path /a /b Stays",
            "move_path /a /b Goes",
            "chmod /a 750 Only",
            "chmod /a 4755 All",
        ]
    );
    for (route, body, code) in [
        ("/fs/mkdir", json!({}), "fs.bad_path"),
        ("/fs/mkdir", json!({"path": "relative"}), "fs.bad_path"),
        ("/fs/move", json!({"from": "/a"}), "fs.bad_path"),
        ("/fs/move", json!({"from": "/a\u{0}", "to": "/b"}), "fs.bad_path"),
        ("/fs/chmod", json!({"path": "/a", "mode": 755}), "fs.bad_mode"),
        ("/fs/chmod", json!({"path": "/a"}), "fs.bad_mode"),
    ] {
        let (status, refusal) = answer(rig.post(route, &body)).await;
        assert_eq!((status, &refusal["code"]), (400, &json!(code)), "{route} {body}");
    }
    for (method, route) in [
        (Method::POST, "mkdir"),
        (Method::POST, "move"),
        (Method::POST, "chmod"),
        (Method::GET, "watch?path=/"),
        (Method::GET, "tar?path=/"),
        (Method::PUT, "tar?path=/"),
        (Method::GET, "dir?path=/&recursive=1"),
    ] {
        let url = format!("{}/v1/sandboxes/{}/fs/{route}", rig.url, rig.id);
        assert_eq!(answer(rig.http.request(method, &url).bearer_auth("theirs").body("{}")).await.0, 404, "{route}");
    }
    assert_eq!(rig.host.calls.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn a_recursive_listing_never_leaves_its_directory() {
    let rig = Rig::start().await;
    let names = ["a", "a/b", "../x", "a/../../y", "/etc", "a//b", "a/b/c", ""];
    *rig.host.walked.lock().unwrap() = names.map(str::to_owned).to_vec();
    let (status, listing) = answer(rig.call(Method::GET, "/fs/dir?path=/tmp&recursive=1")).await;
    let entries = listing["entries"].as_array().unwrap();
    let seen: Vec<_> =
        entries.iter().map(|entry| (entry["name"].as_str().unwrap(), entry["path"].as_str().unwrap())).collect();
    assert_eq!((status, seen.as_slice()), (200, &[("a", "/tmp/a"), ("b", "/tmp/a/b"), ("c", "/tmp/a/b/c")][..]));
    assert_eq!(listing["truncated"], true);
    assert_eq!(answer(rig.call(Method::GET, "/fs/dir?path=/tmp&depth=2")).await.0, 200);
    assert_eq!(*rig.host.calls.lock().unwrap(), [format!("walk /tmp {}", u32::MAX), "walk /tmp 2".to_owned()]);
    for depth in ["0", "-1", "x"] {
        let (status, refusal) = answer(rig.call(Method::GET, &format!("/fs/dir?path=/&depth={depth}"))).await;
        assert_eq!((status, &refusal["code"]), (400, &json!("fs.bad_depth")));
    }
}

#[tokio::test]
async fn changes_are_told_in_order_and_an_overflow_is_one_of_them() {
    let rig = Rig::start().await;
    let gone = Fault::new(FaultKind::Missing, "path.not_found", "the watched path was deleted or moved");
    let moved = FileChange { folder: true, cookie: Some(5), ..change(FileChangeKind::MovedTo, "/srv/é") };
    let changes = [
        Ok(vec![change(FileChangeKind::Created, "/srv/a"), change(FileChangeKind::Written, "/srv/a")]),
        Ok(vec![moved, change(FileChangeKind::Overflow, "/srv")]),
        Err(gone),
    ];
    rig.host.changes.lock().unwrap().push_back(changes.into_iter().collect());
    let response = rig.call(Method::GET, "/fs/watch?path=/srv&recursive=1").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(
        within("the end", response.text()).await.unwrap(),
        "event: ready\ndata: {\"path\":\"/srv\"}\n\n\
         event: change\ndata: {\"type\":\"created\",\"path\":\"/srv/a\",\"is_dir\":false}\n\n\
         event: change\ndata: {\"type\":\"written\",\"path\":\"/srv/a\",\"is_dir\":false}\n\n\
         event: change\ndata: {\"type\":\"moved_to\",\"path\":\"/srv/\\u00e9\",\"is_dir\":true,\"cookie\":5}\n\n\
         event: overflow\ndata: {\"path\":\"/srv\"}\n\n\
         event: error\ndata: {\"error\":\"the watched path was deleted or moved\"}\n\n"
    );
    assert_eq!(answer(rig.call(Method::GET, "/fs/watch?path=/srv")).await.0, 404, "a refusal has a status of its own");
    assert_eq!(*rig.host.calls.lock().unwrap(), ["watch /srv All", "watch /srv Only"]);
}

#[tokio::test]
async fn archives_pass_through() {
    let rig = Rig::start().await;
    let response = rig.call(Method::GET, "/fs/tar?path=/srv").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/x-tar");
    assert_eq!(response.text().await.unwrap(), "tarball");
    let broken = async { rig.call(Method::GET, "/fs/tar?path=/breaks").send().await?.bytes().await };
    assert!(broken.await.is_err(), "a part is not taken for the whole");
    let put = rig.call(Method::PUT, "/fs/tar?path=/srv").body(vec![0; 1024]);
    assert_eq!(answer(put).await, (200, json!({"path": "/srv", "entries": 2, "bytes": 1024})));
    assert_eq!(*rig.host.calls.lock().unwrap(), ["write_tree /srv 1024"]);
    assert_eq!(answer(rig.call(Method::PUT, "/fs/tar").body("")).await.1["code"], "fs.bad_path");
}
