//! A PostgreSQL server for tests, from the programs of Debian's packages, on a free port of
//! loopback. It ends with the value that holds it.

use std::{
    ffi::OsStr,
    fs, io,
    net::TcpListener,
    os::unix::process::CommandExt,
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

use crate::{Database, DatabaseAddress, PoolSettings, PostgresUrl, query_built};

/// Names a running server, so that the tests of one run share it.
pub const SHARED: &str = "PANDASTACK_TEST_POSTGRES";

/// How long a server may take to start.
const START_MAX: Duration = Duration::from_secs(60);

/// Makes a schema with tables of its own for a test, on the server that the tests of one run share.
/// The folder of the test gives it its name; the same folder has the same schema.
pub async fn shared_schema(folder: &Path) -> io::Result<DatabaseAddress> {
    let shared = std::env::var(SHARED).map_err(|_| {
        io::Error::other(format!("{SHARED} is not set; run the test with: scripts/test -E 'test(NAME)'"))
    })?;
    let at = |options: &str| format!("{shared}{options}").parse::<PostgresUrl>().map_err(io::Error::other);
    let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let name = name.trim_start_matches('.').to_lowercase();
    let schema = format!("test_{}_{name}", std::process::id());
    let pool = PoolSettings { connections_max: 1, busy_max: START_MAX, statement_max: START_MAX };
    let database = Database::open(&DatabaseAddress::Server(at("")?), pool).await.map_err(io::Error::other)?;
    let made = query_built(format!("CREATE SCHEMA IF NOT EXISTS {schema}")).execute(&database).await;
    database.close().await;
    made.map_err(io::Error::other)?;
    Ok(DatabaseAddress::Server(at(&format!("?options=-c%20search_path%3D{schema}"))?))
}

/// A running server.
pub struct PostgresServer {
    folder: TempDir,
    programs: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl PostgresServer {
    /// Makes a cluster and starts its server.
    pub fn start() -> io::Result<Self> {
        let programs = programs()?;
        let folder = tempfile::tempdir()?;
        // The server refuses to run as root.
        if let Some(user) = other_user()? {
            chown(folder.path(), Some(user.uid), Some(user.gid))?;
        }
        let data = folder.path().join("data");
        let make = command(&programs.join("initdb"))?
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(&data)
            .current_dir(folder.path())
            .output()?;
        if !make.status.success() {
            return Err(io::Error::other(format!("initdb failed: {}", String::from_utf8_lossy(&make.stderr))));
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut server = Self { folder, programs, port, child: None };
        server.begin()?;
        Ok(server)
    }

    /// Returns the URL of one of its databases.
    pub fn url(&self, name: &str) -> PostgresUrl {
        let text = format!("postgres://postgres@127.0.0.1:{}/{name}", self.port);
        text.parse().expect("this is always a URL")
    }

    /// The port on loopback. Logins need no password.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends the server at once, as a crash does, and starts it again on the same port.
    pub fn restart(&mut self) -> io::Result<()> {
        self.end(Signal::SIGQUIT);
        self.begin()
    }

    fn begin(&mut self) -> io::Result<()> {
        let log = fs::File::create(self.folder.path().join("log"))?;
        let mut start = command(&self.programs.join("postgres"))?;
        start.arg("-D").arg(self.folder.path().join("data")).args(["-p", &self.port.to_string(), "-k"]);
        start.arg(self.folder.path()).current_dir(self.folder.path());
        for setting in
            ["listen_addresses=127.0.0.1", "fsync=off", "max_connections=300", "shared_buffers=64MB", "jit=off"]
        {
            start.args(["-c", setting]);
        }
        self.child = Some(start.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?);
        let deadline = Instant::now() + START_MAX;
        while !self.is_ready()? {
            let ended = self.child.as_mut().map(Child::try_wait).transpose()?.flatten();
            if ended.is_some() || Instant::now() > deadline {
                let said = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                return Err(io::Error::other(format!("PostgreSQL did not start: {said}")));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn is_ready(&self) -> io::Result<bool> {
        let ready = Command::new(self.programs.join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()])
            .status()?;
        Ok(ready.success())
    }

    fn end(&mut self, how: Signal) {
        let Some(mut child) = self.child.take() else { return };
        // It may have ended by itself.
        let _ = kill(Pid::from_raw(child.id().cast_signed()), how);
        let _ = child.wait();
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.end(Signal::SIGQUIT);
    }
}

/// Finds the newest installed PostgreSQL.
fn programs() -> io::Result<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        let version = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let programs = entry.path().join("bin");
        if let Some(version) = version.filter(|_| programs.join("postgres").exists()) {
            found.push((version, programs));
        }
    }
    let newest = found.into_iter().max().map(|(_, programs)| programs);
    newest.ok_or_else(|| io::Error::other("there is no PostgreSQL here; run scripts/setup"))
}

fn other_user() -> io::Result<Option<User>> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let user = User::from_name("postgres")?;
    user.map(Some).ok_or_else(|| io::Error::other("there is no user postgres; run scripts/setup"))
}

fn command(program: &Path) -> io::Result<Command> {
    let mut command = Command::new(AsRef::<OsStr>::as_ref(program));
    if let Some(user) = other_user()? {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    Ok(command)
}
