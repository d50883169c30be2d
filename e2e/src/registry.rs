//! A real registry on this host, with an image in it.

#![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::json;
use sha2::{Digest, Sha256};

/// The user of the registry.
pub const USER: &str = "ann";
pub const PASSWORD: &str = "hush-hush-42";
/// The password as the registry stores it (bcrypt).
const PASSWD: &str = "ann:$2b$04$5Ce0ibWWe0nONE9qGQJOg.LKoHA15PyuZwIkQcQE1CWm0hfycquJS\n";

/// Two layers: a root with a shell, and changes to it.
const ROOT: &str = "mkdir -p usr/bin usr/lib64 usr/lib/x86_64-linux-gnu etc old/deep; ln -s usr/bin bin; ln -s \
    /usr/lib lib; \
    ln -s usr/lib64 lib64; cp -L /bin/sh /bin/cat usr/bin/; cp -L /lib64/ld-linux-x86-64.so.2 usr/lib64/; \
    cp -L /lib/x86_64-linux-gnu/libc.so.6 usr/lib/x86_64-linux-gnu/; echo first > etc/motd; echo secret > etc/secret; \
    touch old/deep/file; ln -s ../../../../etc/shadow etc/outside";
const CHANGES: &str = "mkdir -p etc opt/tools old; echo second > etc/motd; touch etc/.wh.secret old/.wh..wh..opq; \
    echo kept > old/new; printf '#!/bin/sh\\necho made of layers\\n' > opt/tools/tell; chmod 755 opt/tools/tell; \
    ln etc/motd etc/motd-too";

/// A pushed image.
pub struct PushedImage {
    pub digest: String,
    /// The digest of the second layer.
    pub layer: String,
}

/// Debian's registry, on a free port of this host, with one user.
pub struct LocalRegistry {
    child: Child,
    folder: tempfile::TempDir,
    pub address: String,
}

impl LocalRegistry {
    pub fn start() -> Self {
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
        // JSON is valid YAML.
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
        // A full pipe would block the registry.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, folder, address }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/v2/tiny/{path}", self.address)
    }

    /// Pushes an image of two layers, with two compressions, as `tiny:1`.
    pub async fn push(&self) -> PushedImage {
        let (root, changes) = (self.layer("root", ROOT), self.layer("changes", CHANGES));
        let unpacked = [digest(&root), digest(&changes)];
        let (root, changes) = (self.packed("root.tar.gz"), self.packed("changes.tar.zst"));
        let config = json!({
            "os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": unpacked},
            "config": {"Env": ["PATH=/opt/tools:/usr/bin:/bin", "GREETING=hello there"], "WorkingDir": "/srv/app",
                "Cmd": ["tell"], "ExposedPorts": {"8080/tcp": {}}},
        });
        let config = config.to_string().into_bytes();
        for blob in [&root, &changes, &config] {
            self.push_blob(blob).await;
        }
        let part = |kind: &str, blob: &[u8]| {
            let kind = format!("application/vnd.oci.image.{kind}");
            json!({"mediaType": kind, "digest": digest(blob), "size": blob.len()})
        };
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({
            "schemaVersion": 2, "mediaType": kind, "config": part("config.v1+json", &config),
            "layers": [part("layer.v1.tar+gzip", &root), part("layer.v1.tar+zstd", &changes)],
        });
        let manifest = manifest.to_string().into_bytes();
        self.push_manifest(&digest(&manifest), kind, manifest.clone()).await;
        // The name refers to a list of platforms, as with most images.
        let [other, ours] = ["arm64", "amd64"].map(|architecture| {
            let platform = json!({"os": "linux", "architecture": architecture});
            json!({"mediaType": kind, "digest": digest(&manifest), "size": manifest.len(), "platform": platform})
        });
        let kind = "application/vnd.oci.image.index.v1+json";
        let list = json!({"schemaVersion": 2, "mediaType": kind, "manifests": [other, ours]}).to_string().into_bytes();
        self.push_manifest("1", kind, list).await;
        PushedImage { digest: digest(&manifest), layer: digest(&changes) }
    }

    fn layer(&self, name: &str, script: &str) -> Vec<u8> {
        let folder = self.folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let script = format!(
            "set -e; {script}; tar --owner=0 --group=0 -cf ../{name}.tar .; gzip -k ../{name}.tar; zstd -q -19 \
                ../{name}.tar"
        );
        let packed = Command::new("sh").args(["-c", &script]).current_dir(&folder).status().unwrap();
        assert!(packed.success());
        std::fs::read(folder.with_extension("tar")).unwrap()
    }

    fn packed(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
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

    /// Changes a byte of the registry's blob with this digest.
    pub fn corrupt_blob(&self, digest: &str) {
        let sum = digest.strip_prefix("sha256:").unwrap();
        let path: PathBuf = ["data/docker/registry/v2/blobs/sha256", &sum[..2], sum, "data"].iter().collect();
        let path = self.folder.path().join(path);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(Path::new(&path), bytes).unwrap();
    }
}

impl Drop for LocalRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn digest(bytes: &[u8]) -> String {
    let sum: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{sum}")
}
