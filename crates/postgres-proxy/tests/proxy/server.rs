//! A PostgreSQL server with passwords, on a free port of loopback, from Debian's packages.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid, User, chown},
};
use tempfile::TempDir;

pub const PASSWORD: &str = "a-password";

/// A running server.
pub struct PasswordServer {
    _folder: TempDir,
    child: Child,
    pub address: SocketAddr,
}

impl PasswordServer {
    pub fn start() -> Self {
        let programs = programs();
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("password");
        fs::write(&secret, PASSWORD).unwrap();
        if let Some(user) = other_user() {
            chown(folder.path(), Some(user.uid), Some(user.gid)).unwrap();
            chown(&secret, Some(user.uid), Some(user.gid)).unwrap();
        }
        let data = folder.path().join("data");
        let made = command(&programs.join("initdb"))
            .args(["--auth=scram-sha-256", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(&data)
            .arg("--pwfile")
            .arg(&secret)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = command(&programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-p", &address.port().to_string(), "-k"])
            .arg(folder.path())
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "jit=off"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { _folder: folder, child, address };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !server.is_ready(&programs) {
            assert!(Instant::now() < deadline, "PostgreSQL did not start");
            sleep(Duration::from_millis(20));
        }
        server
    }

    fn is_ready(&self, programs: &Path) -> bool {
        let port = self.address.port().to_string();
        let ready = Command::new(programs.join("pg_isready")).args(["-q", "-h", "127.0.0.1", "-p", &port]).status();
        ready.unwrap().success()
    }
}

impl Drop for PasswordServer {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGQUIT);
        let _ = self.child.wait();
    }
}

/// The newest installed PostgreSQL.
fn programs() -> PathBuf {
    let found = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin"))).filter(|(_, programs)| programs.join("postgres").exists())
    });
    found.max().expect("there is no PostgreSQL here; run scripts/setup").1
}

/// The server refuses to run as root.
fn other_user() -> Option<User> {
    Uid::effective().is_root().then(|| User::from_name("postgres").unwrap().expect("run scripts/setup"))
}

fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = other_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}
