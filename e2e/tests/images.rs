//! Templates of images, from a real registry on this host: fetched with a password, checked, booted, built upon, and refused.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use pandastack_client::{
    BuildForm, Client, Config,
    wire::{Build, CreateSandbox, ExecRequest, Sandbox},
};
use pandastack_testbed::{DataFolder, Server};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const USER: &str = "ann";
const PASSWORD: &str = "hush-hush-42";
/// The password as the registry keeps it (bcrypt).
const PASSWD: &str = "ann:$2b$04$5Ce0ibWWe0nONE9qGQJOg.LKoHA15PyuZwIkQcQE1CWm0hfycquJS\n";

/// Two layers: a root with a shell, and what its makers changed in it.
const ROOT: &str = "mkdir -p usr/bin usr/lib64 usr/lib/x86_64-linux-gnu etc old/deep; ln -s usr/bin bin; ln -s /usr/lib lib; \
    ln -s usr/lib64 lib64; cp -L /bin/sh /bin/cat usr/bin/; cp -L /lib64/ld-linux-x86-64.so.2 usr/lib64/; \
    cp -L /lib/x86_64-linux-gnu/libc.so.6 usr/lib/x86_64-linux-gnu/; echo first > etc/motd; echo secret > etc/secret; \
    touch old/deep/file; ln -s ../../../../etc/shadow etc/outside";
const CHANGES: &str = "mkdir -p etc opt/tools old; echo second > etc/motd; touch etc/.wh.secret old/.wh..wh..opq; \
    echo kept > old/new; printf '#!/bin/sh\\necho made of layers\\n' > opt/tools/tell; chmod 755 opt/tools/tell; \
    ln etc/motd etc/motd-too";

#[tokio::test]
async fn an_image_becomes_a_template_that_runs_what_is_in_it() {
    let registry = Registry::start();
    let image = registry.push().await;
    let data = DataFolder::with_templates().unwrap();
    let server = Server::start(data.path(), &["--standby", "0", "--image-allow-private"]).unwrap();
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
    let sandbox = create(&client, "tiny").await;
    assert_eq!((sandbox.memory_mb, sandbox.metadata["port.8080"].as_str()), (128, "exposed"));
    let said = run(&client, &sandbox.id, "tell; pwd; echo $GREETING; cat /etc/motd /etc/motd-too /old/new").await;
    assert_eq!(said, "made of layers\n/srv/app\nhello there\nsecond\nsecond\nkept\n");
    let left =
        run(&client, &sandbox.id, "for f in /etc/secret /old/deep /.wh.* /etc/.wh.*; do test ! -e $f || echo $f; done")
            .await;
    assert_eq!(left, "", "whiteouts leave nothing");

    // The same image by its digest: it is here already, and a Dockerfile goes on from it.
    let base = format!("{}/tiny@{}", registry.address, image.digest);
    let auth = json!({"registry": registry.address, "username": USER, "password": PASSWORD});
    let dockerfile =
        format!("ARG BASE={base}\nFROM $BASE\nENV GREETING=hi\nRUN tell > told && echo $GREETING >> told\n");
    let on_top = build(&client, &[("name", "on-top"), ("dockerfile", &dockerfile)], Some(auth)).await;
    let on_top_log = self::log(&client, &on_top).await;
    assert_eq!(on_top.status, "done", "{on_top_log}");
    assert!(on_top_log.contains("CACHED") && !on_top_log.contains("fetching"), "{on_top_log}");
    let second = create(&client, "on-top").await;
    assert_eq!(run(&client, &second.id, "cat told; cat /etc/motd").await, "made of layers\nhi\nsecond\n");

    // What a registry gives under a digest that is not its own is not used.
    registry.spoil(&image.layer);
    let pass = json!({"username": USER, "password": PASSWORD});
    let fields = [("name", "spoiled"), ("image_ref", &name), ("size_mb", "65"), ("memory_mb", "128")];
    let spoiled = build(&client, &fields, Some(pass)).await;
    assert_failed(&spoiled, &name, "template.image_bad");
    assert!(spoiled.error.unwrap().contains(&image.layer));

    assert!(!log.contains(PASSWORD) && !on_top_log.contains(PASSWORD) && !server.said().contains(PASSWORD));
    clean(&client).await;
}

#[tokio::test]
async fn a_registry_near_the_server_is_out_of_reach_until_the_operator_allows_it() {
    let registry = Registry::start();
    let data = DataFolder::with_templates().unwrap();
    let server = Server::start(data.path(), &["--standby", "0"]).unwrap();
    let client = client(&server);
    let name = format!("{}/tiny:1", registry.address);
    let pass = json!({"username": USER, "password": PASSWORD});
    assert_failed(&image_build(&client, "near", &name, Some(pass)).await, &name, "template.image_not_allowed");
    let dockerfile = format!("FROM {name}\n");
    let refused = build(&client, &[("name", "near"), ("dockerfile", &dockerfile)], None).await;
    assert_failed(&refused, &name, "template.image_not_allowed");
    let form = BuildForm { fields: fields(&[("name", "near"), ("image_ref", "No Such Name")]), files: Vec::new() };
    let fault = client.build_template(form).await.unwrap_err();
    assert_eq!((fault.status(), fault.to_string().contains("no name of an image")), (Some(400), true), "{fault}");
    clean(&client).await;
}

/// What was pushed.
struct Pushed {
    digest: String,
    /// The digest of the second layer.
    layer: String,
}

/// Debian's registry, on a free port of this host, with one user.
struct Registry {
    child: Child,
    folder: tempfile::TempDir,
    address: String,
}

impl Registry {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (data, users) = (folder.path().join("data"), folder.path().join("users"));
        std::fs::write(&users, PASSWD).unwrap();
        let config = json!({
            "version": 0.1,
            "log": {"level": "info", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": data}},
            "http": {"addr": "127.0.0.1:0", "secret": "of no use"},
            "auth": {"htpasswd": {"realm": "here", "path": users}},
        });
        // JSON is YAML.
        let path = folder.path().join("config.yml");
        std::fs::write(&path, config.to_string()).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("docker-registry; scripts/setup installs it");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, rest) = line.split_once("listening on ")?;
            Some(rest.split('"').next()?.to_owned())
        });
        let address = address.expect("the registry says where it listens");
        // It would stop at a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, folder, address }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/v2/tiny/{path}", self.address)
    }

    /// Pushes an image of two layers, packed and not, as `tiny:1`.
    async fn push(&self) -> Pushed {
        let (root, changes) = (self.layer("root", ROOT), self.layer("changes", CHANGES));
        let unpacked = [digest(&root), digest(&changes)];
        let packed = self.packed("root");
        let config = json!({
            "os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": unpacked},
            "config": {"Env": ["PATH=/opt/tools:/usr/bin:/bin", "GREETING=hello there"], "WorkingDir": "/srv/app",
                "Cmd": ["tell"], "ExposedPorts": {"8080/tcp": {}}},
        });
        let config = config.to_string().into_bytes();
        for blob in [&packed, &changes, &config] {
            self.push_blob(blob).await;
        }
        let part = |kind: &str, blob: &[u8]| json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest(blob), "size": blob.len()});
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({
            "schemaVersion": 2, "mediaType": kind, "config": part("config.v1+json", &config),
            "layers": [part("layer.v1.tar+gzip", &packed), part("layer.v1.tar", &changes)],
        });
        let manifest = manifest.to_string().into_bytes();
        self.push_manifest(&digest(&manifest), kind, manifest.clone()).await;
        // The name stands for a list of platforms, as those of most images do.
        let other = json!({"mediaType": kind, "digest": digest(&manifest), "size": manifest.len(), "platform": {"os": "linux", "architecture": "arm64"}});
        let ours = json!({"mediaType": kind, "digest": digest(&manifest), "size": manifest.len(), "platform": {"os": "linux", "architecture": "amd64"}});
        let kind = "application/vnd.oci.image.index.v1+json";
        let list = json!({"schemaVersion": 2, "mediaType": kind, "manifests": [other, ours]}).to_string().into_bytes();
        self.push_manifest("1", kind, list).await;
        Pushed { digest: digest(&manifest), layer: digest(&changes) }
    }

    fn layer(&self, name: &str, script: &str) -> Vec<u8> {
        let folder = self.folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let script = format!("set -e; {script}; tar --owner=0 --group=0 -cf ../{name}.tar .; gzip -k ../{name}.tar");
        let packed = Command::new("sh").args(["-c", &script]).current_dir(&folder).status().unwrap();
        assert!(packed.success());
        std::fs::read(folder.with_extension("tar")).unwrap()
    }

    fn packed(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(format!("{name}.tar.gz"))).unwrap()
    }

    async fn push_blob(&self, blob: &[u8]) {
        let web = reqwest::Client::new();
        let begun = web.post(self.url("blobs/uploads/")).basic_auth(USER, Some(PASSWORD)).send().await.unwrap();
        assert_eq!(begun.status(), 202);
        let to = begun.headers()["location"].to_str().unwrap();
        let mark = if to.contains('?') { '&' } else { '?' };
        let to = format!("{to}{mark}digest={}", digest(blob));
        let put = web.put(to).basic_auth(USER, Some(PASSWORD)).header("content-type", "application/octet-stream");
        assert_eq!(put.body(blob.to_vec()).send().await.unwrap().status(), 201);
    }

    async fn push_manifest(&self, name: &str, kind: &str, manifest: Vec<u8>) {
        let put = reqwest::Client::new().put(self.url(&format!("manifests/{name}")));
        let put = put.basic_auth(USER, Some(PASSWORD)).header("content-type", kind).body(manifest);
        let answer = put.send().await.unwrap();
        assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
    }

    /// Changes a byte of what the registry keeps under a digest.
    fn spoil(&self, digest: &str) {
        let sum = digest.strip_prefix("sha256:").unwrap();
        let path: PathBuf = ["data/docker/registry/v2/blobs/sha256", &sum[..2], sum, "data"].iter().collect();
        let path = self.folder.path().join(path);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(Path::new(&path), bytes).unwrap();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn digest(bytes: &[u8]) -> String {
    let sum: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{sum}")
}

#[track_caller]
fn assert_failed(build: &Build, image: &str, code: &str) {
    let error = build.error.as_deref().unwrap_or_default();
    assert!(build.status == "failed" && error.contains(image) && error.contains(code), "{build:?}");
}

fn client(server: &Server) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

fn fields(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn image_build(client: &Client, name: &str, image: &str, auth: Option<Value>) -> Build {
    build(client, &[("name", name), ("image_ref", image), ("size_mb", "64"), ("memory_mb", "128")], auth).await
}

/// Builds and follows the log to its end. Disks and machines are small.
async fn build(client: &Client, pairs: &[(&str, &str)], auth: Option<Value>) -> Build {
    let mut fields = fields(pairs);
    for (name, value) in [("size_mb", "64"), ("memory_mb", "128")] {
        if !fields.iter().any(|(given, _)| given == name) {
            fields.push((name.to_owned(), value.to_owned()));
        }
    }
    fields.extend(auth.map(|auth| ("registry_auth".to_owned(), auth.to_string())));
    let begun = client.build_template(BuildForm { fields, files: Vec::new() }).await.unwrap();
    log(client, &begun).await;
    client.get_build(&begun.id).await.unwrap()
}

async fn log(client: &Client, build: &Build) -> String {
    let (mut log, mut text) = (client.build_log(&build.id, true).await.unwrap(), String::new());
    while let Some(line) = log.next().await {
        text.push_str(&line.unwrap());
        text.push('\n');
    }
    text
}

async fn create(client: &Client, template: &str) -> Sandbox {
    let ask = CreateSandbox { template: Some(template.into()), ..CreateSandbox::default() };
    client.create(&ask).await.unwrap()
}

async fn run(client: &Client, id: &str, line: &str) -> String {
    let ran = client.exec(id, &ExecRequest { cmd: Some(line.into()), ..ExecRequest::default() }).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{line}: {} {}", ran.stdout, ran.stderr);
    ran.stdout
}

/// Deletes every sandbox; then nothing may be left but layers that somebody owns.
async fn clean(client: &Client) {
    for sandbox in client.list().await.unwrap() {
        client.delete(&sandbox.id).await.unwrap();
    }
    let audit = client.audit().await.unwrap();
    assert_eq!((audit.leaks, audit.machines), (Vec::new(), 0));
}
