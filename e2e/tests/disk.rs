//! Failures of the host's own disk: it is full, or the power is cut. The server runs on its own
//! small file system.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_client::{
    Client, Config,
    wire::{CreateSandbox, CreateVolume, ExecRequest, ForkRequest, VolumeAttachment},
};
use pandastack_e2e::PATIENCE;
use pandastack_testbed::{DataFolder, TestServer, block_until, built, wait_for};

const ARGUMENTS: [&str; 4] = ["--standby", "0", "--blanks", "0"];

/// A file system in a file, with a data folder on it.
pub struct Disk {
    mount: PathBuf,
    image: PathBuf,
    data: Option<DataFolder>,
    _folder: tempfile::TempDir,
}

impl Disk {
    pub fn make(size: &str) -> Self {
        let mut disk = Self::format(size, "mkfs.xfs", &["-q", "-m", "reflink=1"]);
        disk.data = Some(DataFolder::on(&disk.mount).unwrap());
        // Baked files are flushed: only the server's own writes are tested.
        must("sync", &["-f", text(&disk.mount)]);
        disk
    }

    /// A disk without reflinks, so that the data folder has a volume in an image.
    fn without_reflinks(size: &str) -> Self {
        let mut disk = Self::format(size, "mkfs.ext4", &["-q", "-m", "0"]);
        disk.data = Some(DataFolder::with_image_on(&disk.mount).unwrap());
        must("sync", &["-f", text(&disk.mount)]);
        disk
    }

    fn format(size: &str, program: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (mount, image) = (folder.path().join("disk"), folder.path().join("image"));
        std::fs::create_dir(&mount).unwrap();
        must("truncate", &["-s", size, text(&image)]);
        must(program, &[options, &[text(&image)]].concat());
        let disk = Self { mount, image, data: None, _folder: folder };
        disk.mount();
        disk
    }

    pub fn add_template(&self, name: &str) {
        self.data.as_ref().unwrap().add_template(name).unwrap();
        must("sync", &["-f", text(&self.mount)]);
    }

    pub fn data(&self) -> &Path {
        self.data.as_ref().unwrap().path()
    }

    fn mount(&self) {
        must("mount", &["-o", "loop", text(&self.image), text(&self.mount)]);
    }

    /// Fills the disk, and leaves so many bytes free.
    fn fill(&self, leave: u64) -> PathBuf {
        let filler = self.mount.join("filler");
        let length = self.free_bytes() - leave;
        must("fallocate", &["-l", &length.to_string(), text(&filler)]);
        filler
    }

    /// Loses all data that has not reached the disk, and ends every process.
    pub fn cut_power(&self, server: &mut TestServer) {
        let unflushed = self.mount.join("unflushed");
        std::fs::write(&unflushed, "written a moment ago").unwrap();
        must("xfs_io", &["-x", "-c", "shutdown", text(&self.mount)]);
        server.kill().unwrap();
        end_users(&self.mount);
        if self.data().join("volume.xfs").exists() {
            unmount_unused(&self.data().join("volume"));
        }
        unmount_unused(&self.mount);
        self.mount();
        assert_eq!(std::fs::read(&unflushed).unwrap_or_default(), b"", "this cut loses what was not flushed");
    }

    fn free_bytes(&self) -> u64 {
        free_bytes(&self.mount)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        end_users(&self.mount);
        drop(self.data.take());
        let _ = unmount(&self.mount);
    }
}

fn free_bytes(path: &Path) -> u64 {
    let stat = nix::sys::statvfs::statvfs(path).unwrap();
    stat.blocks_available() * stat.fragment_size()
}

/// Ends the processes with open files on the disk: the machines, which outlive their server.
fn end_users(mount: &Path) {
    let users = || -> Vec<i32> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let numbered = processes.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
        let uses = |path: &Path| {
            let open = std::fs::read_dir(path.join("fd")).into_iter().flatten().flatten();
            open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|file| file.starts_with(mount))
        };
        numbered.filter(|(_, path)| uses(path)).map(|(pid, _)| pid).collect()
    };
    // No panic: it also cleans up after a failed test.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = users();
        if left.is_empty() || Instant::now() > deadline {
            return;
        }
        for pid in left {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(25));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn unmount(mount: &Path) -> bool {
    Command::new("umount").arg(mount).stderr(std::process::Stdio::null()).status().unwrap().success()
}

/// Waits until nothing uses it: a machine's mount namespace is removed a little after the machine.
fn unmount_unused(mount: &Path) {
    block_until(&format!("{} is unused", mount.display()), PATIENCE, || unmount(mount).then_some(()));
}

fn must(program: &str, arguments: &[&str]) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let status = Command::new(program).args(arguments).env("PATH", path).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

fn client(server: &TestServer) -> Client {
    let config = Config::load_with(|_| None, None).unwrap().with_url(&server.url).unwrap();
    Client::new(config.with_key(server.key.clone())).unwrap()
}

fn plain() -> CreateSandbox {
    let (template, persistent) = (Some("mini".to_owned()), Some(true));
    CreateSandbox { template, persistent, ttl_seconds: Some(3600), ..CreateSandbox::default() }
}

async fn run(client: &Client, id: &str, text: &str) -> String {
    let ask = ExecRequest { cmd: Some(text.to_owned()), ..ExecRequest::default() };
    let ran = client.exec(id, &ask).await.unwrap();
    assert_eq!(ran.exit_code, 0, "{text}: {} {}", ran.stdout, ran.stderr);
    ran.stdout.trim().to_owned()
}

#[tokio::test]
async fn who_fell_asleep_or_was_kept_survives_a_cut_of_the_power() {
    asleep_or_kept_survives_a_cut(&Disk::make("3G")).await;
}

#[tokio::test]
async fn who_fell_asleep_or_was_kept_survives_a_cut_of_the_power_of_an_image() {
    asleep_or_kept_survives_a_cut(&Disk::without_reflinks("3G")).await;
}

async fn asleep_or_kept_survives_a_cut(disk: &Disk) {
    let mut server = TestServer::start(disk.data(), &ARGUMENTS).unwrap();
    let before = client(&server);
    let sleeper = before.create(&plain()).await.unwrap().id;
    let notes = "head -c 3000000 /dev/urandom > /root/note; head -c 3000000 /dev/urandom > /dev/shm/note";
    run(&before, &sleeper, notes).await;
    let sums = "cat /root/note | sha256sum; cat /dev/shm/note | sha256sum";
    let noted = run(&before, &sleeper, sums).await;
    let kept = before.snapshot(&sleeper).await.unwrap().id;
    run(&before, &sleeper, "echo later > /root/later").await;
    before.hibernate(&sleeper).await.unwrap();
    disk.cut_power(&mut server);

    let mut server = TestServer::start(disk.data(), &ARGUMENTS).unwrap();
    let after = client(&server);
    assert_eq!(run(&after, &sleeper, sums).await, noted, "the sleeper wakes as it fell asleep");
    assert_eq!(run(&after, &sleeper, "cat /root/later").await, "later");
    let child = after.create(&CreateSandbox { template: None, from_snapshot: Some(kept), ..plain() }).await.unwrap().id;
    assert_eq!(run(&after, &child, &format!("{sums}; ls /root/later 2>/dev/null || true")).await, noted);
    for id in [&sleeper, &child] {
        after.delete(id).await.unwrap();
    }
    server.stop().unwrap();
}

#[tokio::test]
async fn what_a_guest_has_flushed_to_a_volume_survives_a_cut_of_the_power() {
    flushed_survives_a_cut(&Disk::make("3G")).await;
}

#[tokio::test]
async fn what_a_guest_has_flushed_to_a_volume_survives_a_cut_of_the_power_of_an_image() {
    flushed_survives_a_cut(&Disk::without_reflinks("3G")).await;
}

async fn flushed_survives_a_cut(disk: &Disk) {
    let mut server = TestServer::start(disk.data(), &ARGUMENTS).unwrap();
    let before = client(&server);
    before.create_volume(&CreateVolume { name: "data".into(), size_mb: Some(64) }).await.unwrap();
    let data = || VolumeAttachment { name: "data".into(), read_only: None, mount_path: Some("/data".into()) };
    let attached = || CreateSandbox { volumes: Some(vec![data()]), ..plain() };
    let writer = before.create(&attached()).await.unwrap().id;
    let write = "mkdir /data/deep && head -c 3000000 /dev/urandom > /dev/shm/note && \
                 dd if=/dev/shm/note of=/data/deep/note bs=64k conv=fsync 2>/dev/null && cat /dev/shm/note | sha256sum";
    let noted = run(&before, &writer, write).await;
    disk.cut_power(&mut server);

    let mut server = TestServer::start(disk.data(), &ARGUMENTS).unwrap();
    let after = client(&server);
    // Its machine ended with the power, and so did its claim on the volume.
    let next = after.create(&attached()).await.unwrap().id;
    assert_eq!(run(&after, &next, "cat /data/deep/note | sha256sum").await, noted, "what was flushed is there");
    run(&after, &next, "echo more > /data/more && sync").await;
    for id in [&writer, &next] {
        after.delete(id).await.unwrap();
    }
    after.delete_volume("data").await.unwrap();
    server.stop().unwrap();
}

#[tokio::test]
async fn a_guest_waits_for_room_on_a_full_disk_and_loses_nothing() {
    let disk = Disk::make("3G");
    let mut server = TestServer::start(disk.data(), &ARGUMENTS).unwrap();
    let client = client(&server);
    let id = client.create(&plain()).await.unwrap().id;
    run(&client, &id, "head -c 48000000 /dev/urandom > /dev/shm/big").await;
    let filler = disk.fill(8 << 20);

    let copy = "cp /dev/shm/big /root/big && sync && echo 3 > /proc/sys/vm/drop_caches && \
                cat /root/big | sha256sum && cat /dev/shm/big | sha256sum && ! mount | grep ' / ' | grep -w ro";
    let meanwhile = async {
        let waits = async || server.said().contains("the host's disk may be full").then_some(());
        wait_for("the guest to wait", PATIENCE, waits).await;
        // A refused create has made nothing, and the waiting machine is not failed. Each create
        // writes to a full disk.
        for _ in 0..8 {
            let refused = client.create(&plain()).await.unwrap_err();
            assert_eq!((refused.status(), refused.code()), (Some(507), Some("host.storage")), "{refused}");
        }
        assert_eq!(client.get(&id).await.unwrap().status, "running");
        tokio::time::sleep(Duration::from_secs(3)).await;
        std::fs::remove_file(&filler).unwrap();
    };
    // Run together: if the guest had got a disk error before there was space, the copy would end
    // early and fail below.
    let (sums, ()) = tokio::join!(run(&client, &id, copy), meanwhile);
    let sums: Vec<&str> = sums.lines().collect();
    assert_eq!(sums[0], sums[1], "what was written arrived");
    is_told_the_time(&client, &id).await;
    let alone = async || (client.list().await.unwrap().len() == 1).then_some(());
    wait_for("the refused ones to be forgotten", PATIENCE, alone).await;
    client.delete(&id).await.unwrap_or_else(|error| panic!("{error}: {}", server.said()));
    server.stop().unwrap();
}

#[tokio::test]
async fn a_guest_that_waits_for_room_outlives_its_server() {
    let disk = Disk::make("3G");
    let mut server = TestServer::start(disk.data(), &ARGUMENTS).unwrap();
    let before = client(&server);
    let id = before.create(&plain()).await.unwrap().id;
    run(&before, &id, "head -c 48000000 /dev/urandom > /dev/shm/big").await;
    let filler = disk.fill(8 << 20);
    run(&before, &id, "(cp /dev/shm/big /root/big; sync; touch /dev/shm/done) >/dev/null 2>&1 </dev/null &").await;
    let waits = async || server.said().contains("the host's disk may be full").then_some(());
    wait_for("the guest to wait", PATIENCE, waits).await;
    server.kill().unwrap();
    std::fs::remove_file(&filler).unwrap();
    // Its clock has stopped with it.
    tokio::time::sleep(Duration::from_secs(3)).await;

    let mut server = TestServer::start(disk.data(), &ARGUMENTS).unwrap();
    let after = client(&server);
    assert_eq!(after.get(&id).await.unwrap().status, "running");
    let is_done = async || (run(&after, &id, "ls /dev/shm").await.contains("done")).then_some(());
    wait_for("what it was writing", PATIENCE, is_done).await;
    let sums =
        run(&after, &id, "echo 3 > /proc/sys/vm/drop_caches; cat /root/big | sha256sum; cat /dev/shm/big | sha256sum")
            .await;
    let sums: Vec<&str> = sums.lines().collect();
    assert_eq!(sums[0], sums[1], "what was written arrived");
    is_told_the_time(&after, &id).await;
    after.delete(&id).await.unwrap();
    server.stop().unwrap();
}

#[tokio::test]
async fn room_of_the_removed_comes_back_to_a_short_disk_under_the_image() {
    const MIB: u64 = 1 << 20;
    let disk = Disk::without_reflinks("3G");
    let mut server = TestServer::start(disk.data(), &ARGUMENTS).unwrap();
    let client = client(&server);
    let id = client.create(&plain()).await.unwrap().id;
    run(&client, &id, "head -c 200000000 /dev/urandom > /root/big && sync").await;
    // Short of space, but enough for a create, and for the image to lose no writes.
    let _filler = disk.fill(500 * MIB);
    client.delete(&id).await.unwrap();
    let is_back = async || (disk.free_bytes() > 650 * MIB).then_some(());
    wait_for("the room of what was removed", PATIENCE, is_back).await;
    // The image offers it a little later: unwritten data of other programs counts against it.
    let is_offered = async || (free_bytes(&disk.data().join("volume")) > 320 * MIB).then_some(());
    wait_for("the image to offer that room", PATIENCE, is_offered).await;
    let next = client.create(&plain()).await.unwrap().id;
    assert_eq!(run(&client, &next, "echo alive").await, "alive");
    client.delete(&next).await.unwrap();
    server.stop().unwrap();
}

/// Waits until a guest that was stopped for seconds has the host's time. It cannot be ahead.
async fn is_told_the_time(client: &Client, id: &str) {
    let is_told = async || {
        let asked = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let guest: u64 = run(client, id, "date +%s%3N").await.parse().unwrap();
        (u128::from(guest) + 500 > asked.as_millis()).then_some(())
    };
    wait_for("the host's time", PATIENCE, is_told).await;
}

/// The last step of a seal fails, long after the guest was paused: the guest continues.
#[tokio::test]
async fn a_seal_that_fails_after_the_pause_leaves_its_machine_running() {
    let disk = Disk::make("3G");
    let mut server = TestServer::start(disk.data(), &ARGUMENTS).unwrap();
    let client = client(&server);
    let id = client.create(&plain()).await.unwrap().id;
    let counter = "nohup sh -c 'n=0; while :; do n=$((n+1)); echo $n > /dev/shm/n.new; mv /dev/shm/n.new /dev/shm/n; \
        sleep 0.05; done' \
                   > /dev/null 2>&1 & until [ -s /dev/shm/n ]; do sleep 0.05; done; echo $!";
    let process = run(&client, &id, counter).await;
    let count = async || -> u64 { run(&client, &id, "cat /dev/shm/n").await.parse().unwrap() };
    let goes_on = async || {
        assert_eq!(client.get(&id).await.unwrap().status, "running");
        let before = count().await;
        wait_for("the counter to go on", PATIENCE, async || (count().await > before).then_some(())).await;
        run(&client, &id, &format!("kill -0 {process}")).await;
    };
    let layers = disk.data().join("volume/layers");
    let sealed = || std::fs::read_dir(&layers).unwrap().count();
    let before = sealed();

    // No file can be moved into it any more.
    must("chattr", &["+i", text(&layers)]);
    client.hibernate(&id).await.expect_err("the layer cannot be moved into its place");
    goes_on().await;
    client.snapshot(&id).await.expect_err("the layer cannot be moved into its place");
    goes_on().await;
    client.fork(&id, &ForkRequest::default()).await.expect_err("the layer cannot be moved into its place");
    goes_on().await;
    must("chattr", &["-i", text(&layers)]);
    assert_eq!(sealed(), before, "a refused seal left a layer");
    assert_eq!(client.list().await.unwrap().len(), 1, "a refused fork left a child");

    client.hibernate(&id).await.unwrap();
    assert_eq!(client.get(&id).await.unwrap().status, "hibernated");
    // Any use wakes it. The state changes a moment later.
    count().await;
    let runs = async || (client.get(&id).await.unwrap().status == "running").then_some(());
    wait_for("the wake to be told", PATIENCE, runs).await;
    goes_on().await;
    client.delete(&id).await.unwrap();
    server.stop().unwrap();
}

#[test]
fn a_bake_without_room_says_so_at_once_and_leaves_nothing() {
    let disk = Disk::make("3G");
    let volume = disk.data().join("volume");
    std::fs::remove_file(volume.join("templates/mini")).unwrap();
    for layer in std::fs::read_dir(volume.join("layers")).unwrap().flatten() {
        std::fs::remove_dir_all(layer.path()).unwrap();
    }
    disk.fill(64 << 20);
    let mut bake = Command::new(built("pandastack"));
    let ended = bake.args(["template", "bake", "mini", "--data-dir"]).arg(disk.data()).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && said.contains("a first boot may need"), "{}: {said}", ended.status);
    for folder in ["layers", "disks", "staging"] {
        assert_eq!(std::fs::read_dir(volume.join(folder)).unwrap().count(), 0, "{folder}");
    }
}

/// The same on an image, which takes longer to fill.
mod deep {
    use super::*;

    #[tokio::test]
    async fn a_guest_in_an_image_waits_for_room_on_the_disk_under_it_and_loses_nothing() {
        const MIB: u64 = 1 << 20;
        let disk = Disk::without_reflinks("3G");
        let mut server = TestServer::start(disk.data(), &ARGUMENTS).unwrap();
        let client = client(&server);
        let id = client.create(&plain()).await.unwrap().id;
        // Less than the guest is about to write. The server learns it only from its own check of
        // the disk.
        let filler = disk.fill(64 * MIB);
        let promised = async || (free_bytes(&disk.data().join("volume")) < 32 * MIB).then_some(());
        wait_for("the image to promise no more than there is", PATIENCE, promised).await;

        let copy = "head -c 96000000 /dev/urandom | tee /root/big | sha256sum && sync && \
                    echo 3 > /proc/sys/vm/drop_caches && cat /root/big | sha256sum && \
                    ! mount | grep ' / ' | grep -w ro";
        let meanwhile = async {
            let waits = async || server.said().contains("the host's disk may be full").then_some(());
            wait_for("the guest to wait", PATIENCE, waits).await;
            let refused = client.create(&plain()).await.unwrap_err();
            assert_eq!((refused.status(), refused.code()), (Some(507), Some("host.storage")), "{refused}");
            assert!(disk.free_bytes() > 32 * MIB, "the server's own files still have room");
            std::fs::remove_file(&filler).unwrap();
        };
        let (sums, ()) = tokio::join!(run(&client, &id, copy), meanwhile);
        let sums: Vec<&str> = sums.lines().collect();
        assert_eq!(sums[0], sums[1], "what was written arrived");
        client.delete(&id).await.unwrap_or_else(|error| panic!("{error}: {}", server.said()));
        server.stop().unwrap();
    }
}
