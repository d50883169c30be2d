//! Templates from images of a real registry on this host: fetched with a password, verified,
//! booted, extended, and refused.

use pandastack_client::{BuildForm, Client, wire::Build};
use pandastack_e2e::{
    registry::{LocalRegistry, PASSWORD, USER},
    templates::{self, clean, client, create, ended, fields, log, run},
};
use pandastack_testbed::{DataFolder, TestServer};
use serde_json::{Value, json};

#[tokio::test]
async fn an_image_becomes_a_template_that_runs_what_is_in_it() {
    let registry = LocalRegistry::start();
    let image = registry.push().await;
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--image-allow-private"]).unwrap();
    let client = client(&server);
    let name = format!("{}/tiny:1", registry.address);

    let refused = image_build(&client, "refused", &name, None).await;
    assert_failed(&refused, &name, "template.image_denied");
    let wrong = json!({"username": USER, "password": "guess"});
    assert_failed(&image_build(&client, "refused", &name, Some(wrong)).await, &name, "template.image_denied");
    let pass = json!({"username": USER, "password": PASSWORD});
    let missing = format!("{}/tiny:2", registry.address);
    let refused = image_build(&client, "refused", &missing, Some(pass.clone())).await;
    assert_failed(&refused, &missing, "template.image_not_found");

    let made = image_build(&client, "tiny", &name, Some(pass)).await;
    let log = log(&client, &made).await;
    assert_eq!((made.status.as_str(), made.image_ref.as_ref()), ("done", Some(&name)), "{log}");
    assert!(log.contains("fetching layer 1/2") && log.contains("fetching layer 2/2"), "{log}");
    // Its command prints something and ends, which is not a failure.
    assert!(log.contains("made of layers") && log.contains("the command ended with exit status 0"), "{log}");
    let sandbox = create(&client, "tiny").await;
    assert_eq!((sandbox.memory_mb, sandbox.metadata["port.8080"].as_str()), (128, "exposed"));
    let said = run(&client, &sandbox.id, "tell; pwd; echo $GREETING; cat /etc/motd /etc/motd-too /old/new").await;
    assert_eq!(said, "made of layers\n/srv/app\nhello there\nsecond\nsecond\nkept\n");
    let left =
        run(&client, &sandbox.id, "for f in /etc/secret /old/deep /.wh.* /etc/.wh.*; do test ! -e $f || echo $f; done")
            .await;
    assert_eq!(left, "", "whiteouts leave nothing");

    // The same image by its digest: it is cached already, and a Dockerfile extends it.
    let base = format!("{}/tiny@{}", registry.address, image.digest);
    let auth = json!({"registry": registry.address, "username": USER, "password": PASSWORD});
    let dockerfile =
        format!("ARG BASE={base}\nFROM $BASE\nENV GREETING=hi\nRUN tell > told && echo $GREETING >> told\n");
    let on_top = build(&client, &[("name", "on-top"), ("dockerfile", &dockerfile)], Some(auth)).await;
    let on_top_log = templates::log(&client, &on_top).await;
    assert_eq!(on_top.status, "done", "{on_top_log}");
    assert!(on_top_log.contains("CACHED") && !on_top_log.contains("fetching"), "{on_top_log}");
    let second = create(&client, "on-top").await;
    assert_eq!(run(&client, &second.id, "cat told; cat /etc/motd").await, "made of layers\nhi\nsecond\n");

    takes_files_alone(&client, &registry).await;

    // A blob that does not match its digest is not used.
    registry.corrupt_blob(&image.layer);
    let pass = json!({"username": USER, "password": PASSWORD});
    let fields = [("name", "spoiled"), ("image_ref", &name), ("size_mb", "65"), ("memory_mb", "128")];
    let spoiled = build(&client, &fields, Some(pass)).await;
    assert_failed(&spoiled, &name, "template.image_bad");
    assert!(spoiled.error.unwrap().contains(&image.layer));

    assert!(!log.contains(PASSWORD) && !on_top_log.contains(PASSWORD) && !server.said().contains(PASSWORD));
    clean(&client).await;
}

/// Copies files from the image only: nothing of it is started, and cached blobs are not fetched.
async fn takes_files_alone(client: &Client, registry: &LocalRegistry) {
    let name = format!("{}/tiny:1", registry.address);
    let auth = json!({"registry": registry.address, "username": USER, "password": PASSWORD});
    let dockerfile = format!(
        "FROM mini\nCOPY --from={name} --chown=5:6 /lib/../opt/tools/t* /etc/motd* /srv/\nRUN /srv/tell > /srv/told\n"
    );
    let taken = build(client, &[("name", "taken"), ("dockerfile", &dockerfile)], Some(auth.clone())).await;
    let taken_log = templates::log(client, &taken).await;
    assert!(taken.status == "done" && taken_log.contains("fetching layer 2/2"), "{taken_log}");
    let third = create(client, "taken").await;
    let said = run(
        client,
        &third.id,
        "cd /srv; cat told motd-too; stat -c %a:%u:%g tell; ls -a /tmp | grep -c pandastack || true",
    )
    .await;
    assert_eq!(said, "made of layers\nsecond\n755:5:6\n0\n");
    let again = build(client, &[("name", "taken-2"), ("dockerfile", &dockerfile)], Some(auth.clone())).await;
    let again_log = templates::log(client, &again).await;
    assert!(again_log.contains("step 1/2 CACHED") && !again_log.contains("fetching"), "{again_log}");
    let dockerfile = format!("FROM mini\nCOPY --from={name} /nowhere /srv/\n");
    let missing = build(client, &[("name", "missing"), ("dockerfile", &dockerfile)], Some(auth)).await;
    assert_failed(&missing, &name, "\"/nowhere\" does not exist in the image");
}

#[tokio::test]
async fn a_registry_near_the_server_is_out_of_reach_until_the_operator_allows_it() {
    let registry = LocalRegistry::start();
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let client = client(&server);
    let name = format!("{}/tiny:1", registry.address);
    let pass = json!({"username": USER, "password": PASSWORD});
    assert_failed(&image_build(&client, "near", &name, Some(pass)).await, &name, "template.image_not_allowed");
    let dockerfile = format!("FROM {name}\n");
    let refused = build(&client, &[("name", "near"), ("dockerfile", &dockerfile)], None).await;
    assert_failed(&refused, &name, "template.image_not_allowed");
    let form = BuildForm { fields: fields(&[("name", "near"), ("image_ref", "No Such Name")]), files: Vec::new() };
    let fault = client.build_template(form).await.unwrap_err();
    assert_eq!((fault.status(), fault.to_string().contains("not a valid image name")), (Some(400), true), "{fault}");
    clean(&client).await;
}

#[track_caller]
fn assert_failed(build: &Build, image: &str, code: &str) {
    let error = build.error.as_deref().unwrap_or_default();
    assert!(build.status == "failed" && error.contains(image) && error.contains(code), "{build:?}");
}

async fn image_build(client: &Client, name: &str, image: &str, auth: Option<Value>) -> Build {
    build(client, &[("name", name), ("image_ref", image), ("size_mb", "64"), ("memory_mb", "128")], auth).await
}

/// Builds and waits for the end. Disks and machines are small.
async fn build(client: &Client, pairs: &[(&str, &str)], auth: Option<Value>) -> Build {
    let mut fields = fields(pairs);
    for (name, value) in [("size_mb", "64"), ("memory_mb", "128")] {
        if !fields.iter().any(|(given, _)| given == name) {
            fields.push((name.to_owned(), value.to_owned()));
        }
    }
    fields.extend(auth.map(|auth| ("registry_auth".to_owned(), auth.to_string())));
    let begun = client.build_template(BuildForm { fields, files: Vec::new() }).await.unwrap();
    ended(client, begun).await
}
