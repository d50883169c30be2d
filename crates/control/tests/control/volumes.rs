//! Volumes and the sandboxes that use them.

use pandastack_model::{Fault, FaultKind, VolumeAccess};
use reqwest::Method;
use serde_json::{Value, json};

use crate::rig::{OTHER_KEY, Rig, answer, wait_for};

async fn make(rig: &Rig, body: Value) -> (u16, Value) {
    rig.send(Method::POST, "/v1/volumes", body).await
}

async fn create_with(rig: &Rig, volumes: Value) -> (u16, Value) {
    rig.create(json!({"template": "mini", "volumes": volumes})).await
}

#[tokio::test]
async fn a_volume_is_made_listed_shown_grown_and_deleted() {
    let rig = Rig::start().await;
    let (status, volume) = make(&rig, json!({"name": "data", "zzz": 1})).await;
    assert_eq!((status, &volume["name"], &volume["size_mb"]), (201, &json!("data"), &json!(256)));
    assert_eq!((&volume["size_bytes"], &volume["attached_to"]), (&json!(256 << 20), &json!([])));
    assert!(volume["created_at"].as_str().unwrap().ends_with('Z'));
    make(&rig, json!({"name": "Cache.1", "size_mb": 64})).await;
    let (_, list) = rig.get("/v1/volumes").await;
    let names: Vec<_> = list.as_array().unwrap().iter().map(|volume| &volume["name"]).collect();
    assert_eq!(names, ["Cache.1", "data"]);
    assert_eq!(rig.get("/v1/volumes/data").await, (200, volume));

    let grow = async |size: Value| rig.send(Method::PATCH, "/v1/volumes/data", json!({"size_mb": size})).await;
    let (status, grown) = grow(json!(512)).await;
    assert_eq!((status, &grown["size_mb"]), (200, &json!(512)));
    assert_eq!(grow(json!(512)).await.0, 200, "the same size again is fine");
    let (status, refused) = grow(json!(256)).await;
    assert_eq!((status, &refused["code"]), (400, &json!("volume.shrink")));
    assert_eq!(grow(json!(65_537)).await.0, 400);
    assert_eq!(rig.send(Method::PATCH, "/v1/volumes/data", json!({})).await.0, 400);
    assert_eq!(rig.get("/v1/volumes/data").await.1["size_mb"], 512);

    assert_eq!(rig.delete("/v1/volumes/data").await, 204);
    assert_eq!(rig.delete("/v1/volumes/data").await, 404);
    for (method, body) in [(Method::GET, None), (Method::PATCH, Some(json!({"size_mb": 64})))] {
        let mut request = rig.call(method, "/v1/volumes/data");
        if let Some(body) = &body {
            request = request.json(body);
        }
        let (status, missing) = answer(request).await;
        assert_eq!((status, &missing["code"]), (404, &json!("volume.not_found")));
    }
    assert_eq!(rig.host.volumes.lock().unwrap().len(), 1);
    assert_eq!(make(&rig, json!({"name": "data"})).await.0, 201, "the name is free again");
}

#[tokio::test]
async fn bad_names_and_sizes_are_refused() {
    let rig = Rig::start().await;
    for body in [
        json!({}),
        json!({"name": ""}),
        json!({"name": ".."}),
        json!({"name": "a/b"}),
        json!({"name": "é"}),
        json!({"name": "x".repeat(65)}),
    ] {
        let (status, refused) = make(&rig, body.clone()).await;
        assert_eq!((status, &refused["code"]), (400, &json!("volume.bad_name")), "{body}");
    }
    for size in [json!(0), json!(-5), json!(65_537), json!(15)] {
        let (status, refused) = make(&rig, json!({"name": "v", "size_mb": size})).await;
        assert_eq!((status, &refused["code"]), (400, &json!("volume.bad_size")), "{size}");
    }
    assert_eq!(make(&rig, json!({"name": "v", "size_mb": "big"})).await.0, 400);
    assert!(rig.host.volumes.lock().unwrap().is_empty());
    for nonsense in ["%ff", "..%2fx", "nobody"] {
        assert_eq!(rig.get(&format!("/v1/volumes/{nonsense}")).await.0, 404, "{nonsense}");
    }
}

#[tokio::test]
async fn names_are_unique_in_a_workspace_only() {
    let rig = Rig::start().await;
    assert_eq!(make(&rig, json!({"name": "v"})).await.0, 201);
    let (status, taken) = make(&rig, json!({"name": "v"})).await;
    assert_eq!((status, &taken["code"]), (409, &json!("volume.exists")));
    assert_eq!(rig.stranger(Method::GET, "/v1/volumes").await, (200, json!([])));
    assert_eq!(rig.stranger(Method::GET, "/v1/volumes/v").await.0, 404);
    assert_eq!(rig.stranger(Method::DELETE, "/v1/volumes/v").await.0, 404);
    let as_stranger =
        |path: &str, body: Value| rig.http.post(format!("{}{path}", rig.url)).bearer_auth(OTHER_KEY).json(&body);
    let attach = as_stranger("/v1/sandboxes", json!({"template": "mini", "volumes": [{"name": "v"}]}));
    assert_eq!(answer(attach).await.0, 404, "another tenant's volume is none");
    assert_eq!(answer(as_stranger("/v1/volumes", json!({"name": "v"}))).await.0, 201);
    assert_eq!(rig.host.volumes.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_host_that_refuses_leaves_no_name() {
    let rig = Rig::start().await;
    rig.host.fail_next("make_volume", Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage"));
    assert_eq!(make(&rig, json!({"name": "v"})).await.0, 507);
    assert_eq!(rig.get("/v1/volumes").await.1, json!([]));
    assert_eq!(make(&rig, json!({"name": "v"})).await.0, 201);
}

#[tokio::test]
async fn a_sandbox_shows_its_volumes_in_order() {
    let rig = Rig::start().await;
    for name in ["a", "b"] {
        make(&rig, json!({"name": name})).await;
    }
    let wanted = json!([{"name": "b"}, {"name": "a", "read_only": true, "mount_path": "/work/data/"}]);
    let (status, sandbox) = create_with(&rig, wanted).await;
    assert_eq!(status, 201, "{sandbox}");
    let shown = json!([{"name": "b", "read_only": false, "mount_path": "/mnt/b"},
                       {"name": "a", "read_only": true, "mount_path": "/work/data"}]);
    assert_eq!(sandbox["volumes"], shown);
    let path = format!("/v1/sandboxes/{}", sandbox["id"].as_str().unwrap());
    assert_eq!(rig.get(&path).await.1["volumes"], shown);
    let asked = rig.host.ensured.lock().unwrap()[&sandbox["id"].as_str().unwrap().parse().unwrap()].clone();
    let mounts: Vec<_> = asked.spec.volumes.iter().map(|mount| (mount.path.as_str(), mount.access)).collect();
    assert_eq!(mounts, [("/mnt/b", VolumeAccess::ReadWrite), ("/work/data", VolumeAccess::ReadOnly)]);
    assert_eq!(rig.get("/v1/volumes/a").await.1["attached_to"], json!([sandbox["id"]]));
}

#[tokio::test]
async fn one_writer_at_a_time_and_no_delete_while_attached() {
    let rig = Rig::start().await;
    make(&rig, json!({"name": "v"})).await;
    let (_, writer) = create_with(&rig, json!([{"name": "v"}])).await;
    let writer = format!("/v1/sandboxes/{}", writer["id"].as_str().unwrap());
    let (status, second) = create_with(&rig, json!([{"name": "v"}])).await;
    assert_eq!((status, &second["code"]), (409, &json!("volume.in_use")));
    assert_eq!(rig.get("/v1/sandboxes").await.1.as_array().unwrap().len(), 1, "the refused one left nothing");
    let (status, kept) = answer(rig.call(Method::DELETE, "/v1/volumes/v")).await;
    assert_eq!((status, &kept["code"]), (409, &json!("volume.attached")));
    assert_eq!(rig.get("/v1/volumes/v").await.0, 200, "a refused delete keeps it");
    assert_eq!(rig.delete(&writer).await, 204);
    for _ in 0..2 {
        assert_eq!(create_with(&rig, json!([{"name": "v", "read_only": true}])).await.0, 201, "readers share");
    }
    let reader = rig.get("/v1/sandboxes").await.1[0]["id"].as_str().unwrap().to_owned();
    let (status, fork) = rig.post(&format!("/v1/sandboxes/{reader}/fork")).await;
    assert_eq!((status, &fork["sandbox"]["volumes"][0]["name"]), (201, &json!("v")), "so does a copy of one");
    assert_eq!(create_with(&rig, json!([{"name": "v"}])).await.0, 409);
    for sandbox in rig.get("/v1/sandboxes").await.1.as_array().unwrap() {
        rig.delete(&format!("/v1/sandboxes/{}", sandbox["id"].as_str().unwrap())).await;
    }
    assert_eq!(rig.delete("/v1/volumes/v").await, 204);
}

/// The path of a sandbox, and the only volume that it has.
async fn only_volume(rig: &Rig, sandbox: &Value) -> (String, Value) {
    let name = sandbox["volumes"][0]["name"].as_str().unwrap();
    let (status, volume) = rig.get(&format!("/v1/volumes/{name}")).await;
    assert_eq!(status, 200, "{volume}");
    (format!("/v1/sandboxes/{}", sandbox["id"].as_str().unwrap()), volume)
}

#[tokio::test]
async fn a_fork_gets_a_copy_of_what_its_parent_writes_and_takes_it_along() {
    let rig = Rig::start().await;
    make(&rig, json!({"name": "v", "size_mb": 2048})).await;
    let (_, writer) = create_with(&rig, json!([{"name": "v", "mount_path": "/data"}])).await;
    let writer = format!("/v1/sandboxes/{}", writer["id"].as_str().unwrap());
    let (status, fork) = rig.post(&format!("{writer}/fork")).await;
    assert_eq!(status, 201, "{fork}");
    let (child, copy) = only_volume(&rig, &fork["sandbox"]).await;
    assert_eq!(copy["sandbox_id"], fork["sandbox"]["id"]);
    assert_eq!(
        (&copy["attached_to"], &fork["sandbox"]["volumes"][0]["mount_path"]),
        (&json!([copy["sandbox_id"]]), &json!("/data"))
    );
    assert_eq!(rig.get("/v1/volumes/v").await.1.get("sandbox_id"), None);
    let (status, kept) =
        answer(rig.call(Method::DELETE, &format!("/v1/volumes/{}", copy["name"].as_str().unwrap()))).await;
    assert_eq!((status, &kept["code"]), (409, &json!("volume.attached")));
    // A copy of a copy, and one that fails.
    let (status, fork) = rig.post(&format!("{child}/fork")).await;
    assert_eq!(status, 201, "{fork}");
    rig.host.fail_next("fork", Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage"));
    assert_eq!(rig.post(&format!("{writer}/fork")).await.0, 507);
    assert_eq!(rig.get("/v1/volumes").await.1.as_array().unwrap().len(), 3, "nothing is left of the failed one");
    assert_eq!(rig.host.volumes.lock().unwrap().len(), 3);
    assert_eq!(rig.delete(&child).await, 204);
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{}", fork["sandbox"]["id"].as_str().unwrap())).await, 204);
    assert_eq!(rig.get("/v1/volumes").await.1.as_array().unwrap().len(), 1, "copies go with their sandboxes");
    assert_eq!(rig.host.volumes.lock().unwrap().len(), 1);
    assert_eq!(rig.delete(&writer).await, 204);
    assert_eq!(rig.get("/v1/volumes/v").await.1["attached_to"], json!([]), "and others stay");
}

#[tokio::test]
async fn a_snapshot_has_its_volumes_and_each_sandbox_from_it_gets_copies() {
    let rig = Rig::start().await;
    for name in ["r", "w"] {
        make(&rig, json!({"name": name})).await;
    }
    let wanted = json!([{"name": "r", "read_only": true, "mount_path": "/r"}, {"name": "w", "mount_path": "/w"}]);
    let (_, source) = create_with(&rig, wanted.clone()).await;
    let source = format!("/v1/sandboxes/{}", source["id"].as_str().unwrap());
    let (status, snapshot) = rig.post(&format!("{source}/snapshots")).await;
    assert_eq!(status, 201, "{snapshot}");
    assert_eq!(
        snapshot["volumes"],
        json!([{"name": "r", "read_only": true, "mount_path": "/r"},
                                           {"name": "w", "read_only": false, "mount_path": "/w"}])
    );
    assert_eq!(rig.delete(&source).await, 204);
    for name in ["r", "w"] {
        assert_eq!(rig.delete(&format!("/v1/volumes/{name}")).await, 204, "the snapshot does not need it");
    }
    let body = json!({"template": "mini", "from_snapshot": snapshot["id"]});
    let (status, made) = rig.send(Method::POST, "/v1/sandboxes", body).await;
    assert_eq!(status, 201, "{made}");
    let paths: Vec<_> = made["volumes"].as_array().unwrap().iter().map(|volume| volume["mount_path"].clone()).collect();
    assert_eq!(paths, ["/r", "/w"]);
    assert_eq!(rig.get("/v1/volumes").await.1.as_array().unwrap().len(), 2);
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{}", made["id"].as_str().unwrap())).await, 204);
    assert_eq!(rig.get("/v1/volumes").await.1, json!([]));
    let snapshot = format!("/v1/snapshots/{}", snapshot["id"].as_str().unwrap());
    assert_eq!(rig.delete(&snapshot).await, 204);
}

/// Makes a snapshot of a sandbox that reads a volume and writes another, and returns the request
/// for a sandbox from it.
async fn from_snapshot(rig: &Rig) -> Value {
    for name in ["r", "w"] {
        make(rig, json!({"name": name, "size_mb": 64})).await;
    }
    let wanted = json!([{"name": "r", "read_only": true, "mount_path": "/r"}, {"name": "w", "mount_path": "/w"}]);
    let (_, source) = create_with(rig, wanted).await;
    let source = format!("/v1/sandboxes/{}", source["id"].as_str().unwrap());
    let (status, snapshot) = rig.post(&format!("{source}/snapshots")).await;
    assert_eq!(status, 201, "{snapshot}");
    assert_eq!(rig.delete(&source).await, 204);
    json!({"template": "mini", "from_snapshot": snapshot["id"]})
}

#[tokio::test]
async fn a_copy_that_another_sandbox_attaches_stays_when_its_first_sandbox_goes() {
    let rig = Rig::start().await;
    let body = from_snapshot(&rig).await;
    let (_, owner) = rig.create(body).await;
    let copy = owner["volumes"][0]["name"].as_str().unwrap().to_owned();
    let (status, reader) = create_with(&rig, json!([{"name": copy, "read_only": true}])).await;
    assert_eq!(status, 201, "{reader}");
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{}", owner["id"].as_str().unwrap())).await, 204);
    let (status, volume) = rig.get(&format!("/v1/volumes/{copy}")).await;
    assert_eq!((status, volume.get("sandbox_id")), (200, None), "{volume}");
    assert_eq!(volume["attached_to"], json!([reader["id"]]));
    let (_, forked) = rig.post(&format!("/v1/sandboxes/{}/fork", reader["id"].as_str().unwrap())).await;
    assert_eq!(forked["sandbox"]["volumes"][0]["name"], json!(copy), "{forked}");
    for id in [&reader["id"], &forked["sandbox"]["id"]] {
        assert_eq!(rig.delete(&format!("/v1/sandboxes/{}", id.as_str().unwrap())).await, 204);
    }
    assert_eq!(rig.get(&format!("/v1/volumes/{copy}")).await.0, 200);
    assert_eq!(rig.delete(&format!("/v1/volumes/{copy}")).await, 204);
}

#[tokio::test]
async fn nothing_is_left_of_a_copy_whose_sandbox_is_deleted_while_it_is_created() {
    let rig = Rig::start().await;
    let body = from_snapshot(&rig).await;
    rig.host.gate.close();
    let delete = async {
        wait_for("the sandbox is listed", || async { rig.get("/v1/sandboxes").await.1[0]["id"].is_string() }).await;
        let id = rig.get("/v1/sandboxes").await.1[0]["id"].as_str().unwrap().to_owned();
        assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
        rig.host.gate.let_through(1);
    };
    let ((status, made), ()) = tokio::join!(rig.create(body), delete);
    assert_eq!((status, &made["code"]), (409, &json!("sandbox.deleted")));
    assert_eq!(rig.get("/v1/volumes").await.1.as_array().unwrap().len(), 2);
    assert_eq!(rig.host.volumes.lock().unwrap().len(), 2, "the host has a disk that nobody knows");
}

#[tokio::test]
async fn a_volume_that_cannot_be_removed_yet_does_not_keep_the_others() {
    let rig = Rig::start().await;
    let body = from_snapshot(&rig).await;
    let (_, made) = rig.create(body.clone()).await;
    rig.host.fail_next("remove_volume", Fault::new(FaultKind::Unavailable, "host.busy", "later"));
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{}", made["id"].as_str().unwrap())).await, 204);
    assert_eq!(rig.get("/v1/volumes").await.1.as_array().unwrap().len(), 2, "both copies are hidden");
    assert_eq!(rig.host.volumes.lock().unwrap().len(), 3, "and one is gone");
    let (_, made) = rig.create(body).await;
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{}", made["id"].as_str().unwrap())).await, 204);
    assert_eq!(rig.host.volumes.lock().unwrap().len(), 2, "the next delete removes the other");
}

#[tokio::test]
async fn a_copy_counts_with_the_size_that_it_has() {
    let rig = Rig::start().await;
    let body = from_snapshot(&rig).await;
    let counted = async || rig.get("/v1/quotas").await.1["usage"]["volume_total_gib"].as_u64();
    assert_eq!(counted().await, Some(1));
    assert_eq!(rig.create(body).await.0, 201);
    // The host's clones are larger than the volumes were when the snapshot was planned.
    wait_for("the sizes are corrected", || async { counted().await >= Some(2) }).await;
}

#[tokio::test]
async fn a_volume_that_could_not_grow_counts_as_before() {
    let rig = Rig::start().await;
    make(&rig, json!({"name": "v", "size_mb": 64})).await;
    rig.host.fail_next("grow_volume", Fault::new(FaultKind::Storage, "host.storage", "insufficient host storage"));
    assert_eq!(rig.send(Method::PATCH, "/v1/volumes/v", json!({"size_mb": 512})).await.0, 507);
    assert_eq!(rig.get("/v1/volumes/v").await.1["size_mb"], 64);
    assert_eq!(rig.send(Method::PATCH, "/v1/volumes/v", json!({"size_mb": 128})).await.0, 200);
    assert_eq!(rig.get("/v1/volumes/v").await.1["size_mb"], 128);
}

#[tokio::test]
async fn volumes_of_one_workspace_leave_room_for_another() {
    let rig = Rig::start().await;
    // All volumes together may use three times the host's 128 GiB, and one workspace three quarters
    // of that: 288 GiB.
    let size = 64 * 1024;
    for number in 0..4 {
        assert_eq!(make(&rig, json!({"name": format!("v{number}"), "size_mb": size})).await.0, 201);
    }
    let (status, refused) = make(&rig, json!({"name": "more", "size_mb": size})).await;
    assert_eq!((status, &refused["code"]), (429, &json!("quota.volume_bytes")), "{refused}");
    assert_eq!(make(&rig, json!({"name": "small", "size_mb": 1024})).await.0, 201);
    let (status, refused) = rig.send(Method::PATCH, "/v1/volumes/small", json!({"size_mb": size})).await;
    assert_eq!((status, &refused["code"]), (429, &json!("quota.volume_bytes")), "{refused}");
    let body = json!({"name": "v", "size_mb": size});
    let other = rig.http.post(format!("{}/v1/volumes", rig.url)).bearer_auth(OTHER_KEY).json(&body);
    assert_eq!(answer(other).await.0, 201);
}
