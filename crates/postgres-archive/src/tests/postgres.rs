//! A real PostgreSQL archives through the image's own scripts, is backed up, and is restored to a
//! time and to the end.

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid, User, chown},
};
use tokio::net::TcpListener;

use super::bed::{Bed, DB};
use crate::{ArchiveHealth, Who};

const IMAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../images/postgres-16/files");

/// A cluster in a folder, with a server that ends with the value.
struct Cluster {
    folder: PathBuf,
    child: Option<Child>,
}

fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed").flatten();
    let newest = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).max().unwrap();
    format!("/usr/lib/postgresql/{newest}/bin").into()
}

/// The server refuses to run as root.
fn other_user() -> Option<User> {
    Uid::effective().is_root().then(|| User::from_name("postgres").unwrap().expect("there is a user postgres"))
}

fn command(program: &str) -> Command {
    let mut command = Command::new(programs().join(program));
    if let Some(user) = other_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command) -> Vec<u8> {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

fn own(path: &Path) {
    if let Some(user) = other_user() {
        chown(path, Some(user.uid), Some(user.gid)).unwrap();
    }
}

impl Cluster {
    fn folder(parent: &Path, name: &str) -> Self {
        let folder = parent.join(name);
        fs::create_dir(&folder).unwrap();
        own(&folder);
        Self { folder, child: None }
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Puts the image's scripts beside the data, with the address of the test's relay.
    fn scripts(&self, relay: &str) {
        for name in ["archive-wal", "restore-wal"] {
            let text = fs::read_to_string(Path::new(IMAGE).join(name)).unwrap();
            assert!(text.contains("http://172.16.0.1:7071"));
            let path = self.folder.join(name);
            fs::write(&path, text.replace("http://172.16.0.1:7071", relay)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn begin(&mut self, settings: &[String]) {
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log")).unwrap();
        let mut start = command("postgres");
        start.arg("-D").arg(self.data()).arg("-k").arg(&self.folder).current_dir(&self.folder);
        let archive = format!("archive_command={}/archive-wal \"%p\" \"%f\"", self.folder.display());
        let restore = format!("restore_command={}/restore-wal \"%f\" \"%p\"", self.folder.display());
        let usual = ["listen_addresses=", "archive_mode=on", "fsync=off", &archive, &restore];
        for setting in usual.into_iter().chain(settings.iter().map(String::as_str)) {
            start.args(["-c", setting]);
        }
        self.child = Some(start.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Waits until the server takes writes, or has ended.
    fn is_up(&mut self) -> bool {
        let begun = Instant::now();
        loop {
            if self.child.as_mut().unwrap().try_wait().unwrap().is_some() {
                return false;
            }
            let asked = self.psql("SELECT pg_is_in_recovery()").output().unwrap();
            if asked.stdout == b"f\n" {
                return true;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "{}", self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn psql(&self, sql: &str) -> Command {
        let mut psql = command("psql");
        psql.args(["-X", "-q", "-A", "-t", "-U", "postgres", "-d", "postgres", "-h"]).arg(&self.folder);
        psql.args(["-v", "ON_ERROR_STOP=1", "-c", sql]).current_dir(&self.folder);
        psql
    }

    fn sql(&self, sql: &str) -> String {
        String::from_utf8(succeed(&mut self.psql(sql))).unwrap().trim().to_owned()
    }

    fn end(&mut self, how: Signal) {
        let Some(mut child) = self.child.take() else { return };
        let _ = kill(Pid::from_raw(child.id().cast_signed()), how);
        let _ = child.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end(Signal::SIGQUIT);
    }
}

/// Listens on loopback for one machine.
async fn relay(bed: &Bed, id: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (archive, scope) = (bed.archive.clone(), bed.scope.clone());
    bed.scope.start("test relay", async move {
        while let Ok((stream, _)) = listener.accept().await {
            let archive = archive.clone();
            scope.start("test connection", async move { archive.serve(id, stream).await });
        }
    });
    address
}

/// Makes a blank cluster's data from a base in the source's archive, ready to recover.
async fn unpack(bed: &Bed, id: &'static str, parent: &Path) -> (Cluster, String) {
    bed.is(id, Who::Restoring { source: DB.into() });
    let cluster = Cluster::folder(parent, id);
    let address = relay(bed, id).await;
    cluster.scripts(&address);
    fs::create_dir(cluster.data()).unwrap();
    own(&cluster.data());
    fs::set_permissions(cluster.data(), fs::Permissions::from_mode(0o700)).unwrap();
    (cluster, address)
}

fn fill(cluster: &Cluster, address: &str, base: &str) {
    let mut fetch = Command::new("sh");
    if let Some(user) = other_user() {
        fetch.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    let line = format!("curl -sSf {address}/base/{base} | tar -xzf - -C {}", cluster.data().display());
    succeed(fetch.args(["-c", &line]).current_dir(&cluster.folder));
    fs::write(cluster.data().join("recovery.signal"), "").unwrap();
    own(&cluster.data().join("recovery.signal"));
    succeed(command("pg_verifybackup").args(["-n", "-q"]).arg(cluster.data()).current_dir(&cluster.folder));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_database_is_archived_and_restored() {
    let bed = Bed::new();
    bed.archive.run();
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut source = Cluster::folder(home.path(), "source");
    let address = relay(&bed, DB).await;
    source.scripts(&address);
    succeed(command("initdb").args(["-A", "trust", "-U", "postgres", "--no-sync", "-k", "-D"]).arg(source.data()));
    source.begin(&[]);
    assert!(source.is_up());
    source.sql("CREATE TABLE rows (n int, at timestamptz DEFAULT clock_timestamp()); INSERT INTO rows VALUES (0)");

    // The image's own line, over the same socket that a guest uses.
    let base = "base-20260101T000000Z.tar.gz";
    let line = format!(
        "{}/pg_basebackup -h {} -U postgres -D - -Ft --compress=client-gzip:1 -X fetch -c fast | curl -sSf -T - {address}/base/{base}",
        programs().display(),
        source.folder.display()
    );
    succeed(Command::new("sh").args(["-c", &line]));
    let taken = bed.state(DB).await;
    assert_eq!((taken.bases.len(), taken.health), (1, ArchiveHealth::Ok), "{taken:?}");

    // One row per second and a bit, so that a time between two rows says which must be there.
    for n in 1..=4 {
        tokio::time::sleep(Duration::from_millis(1100)).await;
        source.sql(&format!("INSERT INTO rows VALUES ({n})"));
    }
    let middle: f64 = source.sql("SELECT extract(epoch FROM at) FROM rows WHERE n = 2").parse().unwrap();
    let target = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(middle + 0.5);
    let name = source.sql("SELECT pg_walfile_name(pg_switch_wal())");
    bed.archive.wait_for(DB, &name, tokio::time::Instant::now() + Duration::from_secs(60)).await.unwrap();
    let state = bed.until("stored", |state| state.pending_segments == 0).await;
    assert_eq!((state.health, &state.error), (ArchiveHealth::Ok, &None), "{state:?}");
    let plan = bed.archive.plan_restore(DB, Some(target)).await.unwrap();
    assert_eq!(plan.base, base);

    // To a time: the other rows came later.
    let (mut copy, copy_address) = unpack(&bed, "db_copy", home.path()).await;
    fill(&copy, &copy_address, base);
    let seconds = target.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
    let at = source.sql(&format!("SELECT to_timestamp({seconds}) AT TIME ZONE 'UTC' || '+00'"));
    copy.begin(&[format!("recovery_target_time={at}"), "recovery_target_action=promote".into()]);
    assert!(copy.is_up(), "{}", copy.log());
    assert_eq!(copy.sql("SELECT string_agg(n::text, ',' ORDER BY n) FROM rows"), "0,1,2");
    // Its log of the time after the promotion does not reach anybody's archive.
    copy.sql("INSERT INTO rows VALUES (9); SELECT pg_switch_wal()");
    drop(copy);

    // After the last commit the server says so, and all of the log is the answer.
    let (mut whole, whole_address) = unpack(&bed, "db_whole", home.path()).await;
    fill(&whole, &whole_address, base);
    whole.begin(&["recovery_target_time=2099-01-01 00:00:00+00".into()]);
    assert!(!whole.is_up());
    assert!(whole.log().contains("recovery ended before configured recovery target was reached"), "{}", whole.log());
    whole.begin(&[]);
    assert!(whole.is_up(), "{}", whole.log());
    assert_eq!(whole.sql("SELECT string_agg(n::text, ',' ORDER BY n) FROM rows"), "0,1,2,3,4");

    let keys = bed.store.puts.lock().unwrap().clone();
    assert!(keys.iter().all(|key| key.starts_with("db/db_one/")), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_rebuilt_under_its_name_goes_on_in_a_new_timeline() {
    let bed = Bed::new();
    bed.archive.run();
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut first = Cluster::folder(home.path(), "first");
    let address = relay(&bed, DB).await;
    first.scripts(&address);
    succeed(command("initdb").args(["-A", "trust", "-U", "postgres", "--no-sync", "-D"]).arg(first.data()));
    first.begin(&[]);
    assert!(first.is_up());
    let base = "base-20260101T000000Z.tar.gz";
    let folder = first.folder.display().to_string();
    let line = format!(
        "{}/pg_basebackup -h {folder} -U postgres -D - -Ft -z -X fetch -c fast | curl -sSf -T - {address}/base/{base}",
        programs().display()
    );
    succeed(Command::new("sh").args(["-c", &line]));
    first.sql("CREATE TABLE t AS SELECT 1 AS n");
    let name = first.sql("SELECT pg_walfile_name(pg_switch_wal())");
    bed.archive.wait_for(DB, &name, tokio::time::Instant::now() + Duration::from_secs(60)).await.unwrap();
    first.end(Signal::SIGKILL);

    let mut second = Cluster::folder(home.path(), "second");
    second.scripts(&address);
    fs::create_dir(second.data()).unwrap();
    own(&second.data());
    fs::set_permissions(second.data(), fs::Permissions::from_mode(0o700)).unwrap();
    fill(&second, &address, base);
    second.begin(&["recovery_target_timeline=latest".into()]);
    assert!(second.is_up(), "{}", second.log());
    second.sql("INSERT INTO t VALUES (2)");
    let name = second.sql("SELECT pg_walfile_name(pg_switch_wal())");
    assert!(name.starts_with("00000002"), "{name}");
    bed.archive.wait_for(DB, &name, tokio::time::Instant::now() + Duration::from_secs(60)).await.unwrap();
    let state = bed.until("whole", |state| state.pending_segments == 0).await;
    assert_eq!(
        (state.health, state.error, state.last_segment.as_deref()),
        (ArchiveHealth::Ok, None, Some(name.as_str()))
    );

    let (mut third, third_address) = unpack(&bed, "db_third", home.path()).await;
    fill(&third, &third_address, base);
    third.begin(&["recovery_target_timeline=latest".into()]);
    assert!(third.is_up(), "{}", third.log());
    assert_eq!(third.sql("SELECT sum(n) FROM t"), "3");
}
