//! Servers that are killed in the middle of work on a database, and what their next start makes of
//! it. Before each step the row says what is to be done: decision 46.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, Mac};
use pandastack_database::{query, query_as, query_scalar};
use pandastack_kit::Scope;
use pandastack_model::{ByteSize, Fault, FaultKind, LayerId, SandboxId, VolumeId};
use pandastack_postgres_archive::{Archive, ArchiveSettings, ArchiveStore};
use pandastack_wire_fleet::{
    ExecControl, ExecEvent, LayerHold, Program,
    stub::{PlayedCommand, StubHost, stub_template},
};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    databases::{becomes, create},
    rig::{Rig, wait_for},
};

/// Rows of sandboxes, machines on the host, and volumes on the host.
type Counts = (usize, usize, usize);

/// Where a server is killed.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The tool in a machine was called with this verb, and has not done anything yet.
    Before(&'static str),
    /// The tool has done its work, and the server does not hear of it.
    After(&'static str),
    /// The host was asked for a machine and has not made it. Then so much is there.
    BeforeHost(Counts),
    /// The host has made it after that, and the server does not hear of it.
    AfterHost(Counts),
}

/// The tool in all machines of a host. It remembers passwords as PostgreSQL does.
#[derive(Clone, Default)]
struct PlayedGuests {
    /// The verifier of the tenant's password on each volume, also after a crash.
    verifiers: Arc<Mutex<BTreeMap<VolumeId, String>>>,
    cut: Arc<Mutex<Option<Cut>>>,
    /// Whether a call has come to the cut.
    is_cut: Arc<AtomicBool>,
    /// The verb that fails without doing anything.
    failing: Arc<Mutex<Option<&'static str>>>,
    scope: Scope,
}

impl PlayedGuests {
    fn play(&self, host: &Arc<StubHost>) {
        let (guests, host, mut commands) = (self.clone(), host.clone(), host.play_commands());
        self.scope.start("play the tool of databases", async move {
            for turn in 0_usize.. {
                let Some(command) = commands.recv().await else { return };
                // The host records them in the order in which they come.
                let machine = host.executed.lock().unwrap()[turn].0;
                guests.run(&host, machine, command).await;
            }
        });
    }

    async fn run(&self, host: &StubHost, machine: SandboxId, mut command: PlayedCommand) {
        let Program::Argv(argv) = &command.ask.program else { panic!("{:?}", command.ask) };
        let verb = argv[1].clone();
        let cut = *self.cut.lock().unwrap();
        if matches!(cut, Some(Cut::Before(at)) if at == verb) {
            self.wait_for_ever().await;
        }
        let fails = *self.failing.lock().unwrap() == Some(verb.as_str());
        if command.ask.stdin && !fails {
            let verifier = input(&mut command).await;
            let volume = host.ensured.lock().unwrap()[&machine].spec.volumes[0].volume;
            self.verifiers.lock().unwrap().insert(volume, verifier);
        }
        if matches!(cut, Some(Cut::After(at)) if at == verb) {
            self.wait_for_ever().await;
        }
        let printed = match verb.as_str() {
            "health" => "up 50 50".to_owned(),
            _ => json!({"db_size_bytes": 7, "relations_checked": 2}).to_string(),
        };
        let code = i32::from(fails);
        command.play([ExecEvent::Stdout(printed.into()), ExecEvent::Exit { code }]).await;
    }

    async fn wait_for_ever(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        std::future::pending::<()>().await;
    }

    async fn comes_to_cut(&self) {
        wait_for("the tool is where the server is killed", || async { self.is_cut.load(Ordering::SeqCst) }).await;
    }
}

/// Reads what a command gets as its input.
async fn input(command: &mut PlayedCommand) -> String {
    let mut bytes = Vec::new();
    while let Some(ExecControl::Stdin(piece)) = command.control.recv().await {
        bytes.extend_from_slice(&piece);
    }
    String::from_utf8(bytes).unwrap().trim().to_owned()
}

/// A server with databases, and the machines that it has or had.
struct PlayedServer {
    rig: Rig,
    guests: PlayedGuests,
}

impl PlayedServer {
    async fn start() -> Self {
        let (host, guests) = (Arc::new(StubHost::default()), PlayedGuests::default());
        host.templates.lock().unwrap().push(stub_template("postgres-16"));
        guests.play(&host);
        Self { rig: Rig::start_in(tempfile::tempdir().unwrap(), host).await, guests }
    }

    /// Starts a server with a database that has a base backup.
    async fn with_backup() -> (Self, Value) {
        let server = Self::start().await;
        let database = server.created().await;
        let ended_at = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() - 3600;
        let note = json!({"version": 1, "bytes": 3, "digest": "", "timeline": 1, "start": 0x200_0028, "end": 0x200_0100,
            "ended_at": ended_at});
        let folder = server.rig.folder.path().join("store/db").join(database["id"].as_str().unwrap()).join("base");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("base-20260101T000000Z.tar.gz"), "tar").unwrap();
        std::fs::write(folder.join("base-20260101T000000Z.tar.gz.json"), note.to_string()).unwrap();
        server.set_archive();
        (server, database)
    }

    /// Starts a server with a database and a branch of it.
    async fn with_branch() -> (Self, Value, Value) {
        let server = Self::start().await;
        let source = server.created().await;
        let branch = server.branched(&source).await;
        server.set_archive();
        (server, source, branch)
    }

    /// Sets the archive, without which no restore and no reset begins. There is one if a test has
    /// put a backup into it.
    fn set_archive(&self) {
        let (spool, store) = (self.rig.folder.path().join("spool"), self.rig.folder.path().join("store"));
        let archive = store.exists().then(|| {
            let settings = ArchiveSettings::new(spool, ArchiveStore::Folder(store));
            Archive::open(settings, Arc::new(self.rig.control.clone()), self.rig.scope.clone()).unwrap()
        });
        let _ = self.rig.control.clone().with_database_archive(archive);
    }

    async fn created(&self) -> Value {
        becomes(&self.rig, &create(&self.rig, json!({})).await, "running").await
    }

    async fn branched(&self, source: &Value) -> Value {
        let (status, branch) = self.rig.post(&format!("{}/branches", path(source))).await;
        assert_eq!(status, 202, "{branch}");
        becomes(&self.rig, &branch, "running").await
    }

    async fn newest(&self) -> Value {
        self.rig.get("/v1/databases").await.1["items"][0].clone()
    }

    async fn shown(&self, database: &Value) -> Value {
        self.rig.get(&path(database)).await.1
    }

    async fn counts(&self) -> Counts {
        let rows = self.rig.get("/v1/sandboxes?kind=all").await.1.as_array().unwrap().len();
        let volumes = self.rig.host.volumes.lock().unwrap().len();
        (rows, self.rig.host.count(), volumes)
    }

    /// Waits for these counts: what is not needed any more goes after the database is ready.
    async fn comes_to(&self, counts: Counts) {
        wait_for("the rest goes", || async { self.counts().await == counts }).await;
    }

    /// Returns the volume that the machine of a database has, or had last.
    fn volume_of(&self, database: &Value) -> VolumeId {
        let id: SandboxId = database["id"].as_str().unwrap().parse().unwrap();
        self.rig.host.ensured.lock().unwrap()[&id].spec.volumes[0].volume
    }

    /// Sends a request, kills the server on its way, and starts another one on what is left.
    async fn killed(self, request: &str, cut: Cut) -> Self {
        self.cut_off(request, cut).await;
        self.crash().await
    }

    /// Sends a request and waits until the server is where it will be killed.
    async fn cut_off(&self, request: &str, cut: Cut) {
        // Only a failed test shows it.
        println!("{request} is cut off at {cut:?}");
        *self.guests.cut.lock().unwrap() = Some(cut);
        if matches!(cut, Cut::BeforeHost(_) | Cut::AfterHost(_)) {
            self.rig.host.gate.close();
        }
        let asked = self.rig.call(Method::POST, request).json(&json!({}));
        self.rig.scope.start("a request whose answer nobody needs", async move {
            let _ = asked.send().await;
        });
        match cut {
            Cut::Before(_) | Cut::After(_) => self.guests.comes_to_cut().await,
            Cut::BeforeHost(counts) | Cut::AfterHost(counts) => {
                wait_for("the host is asked", || async { self.counts().await == counts }).await;
            }
        }
        if matches!(cut, Cut::AfterHost(_)) {
            self.make_machine().await;
        }
    }

    /// Does what the host was asked: makes the machine for the one volume that is not ready yet.
    async fn make_machine(&self) {
        let database = self.rig.database().await;
        let sql = "SELECT id, sandbox_id FROM volume WHERE status = 'making'";
        let (volume, machine): (String, String) = query_as(sql).fetch_one(&database).await.unwrap();
        database.close().await;
        let (volume, machine) = (volume.parse::<VolumeId>().unwrap(), machine.parse::<SandboxId>().unwrap());
        let host = &self.rig.host;
        let mut ask = host.ensured.lock().unwrap().values().next().unwrap().clone();
        (ask.id, ask.spec.volumes[0].volume) = (machine, volume);
        host.ensured.lock().unwrap().insert(machine, ask);
        host.volumes.lock().unwrap().insert(volume, ByteSize::gib(1));
        host.add(machine);
    }

    async fn crash(self) -> Self {
        self.crash_onto(|_, _| {}).await
    }

    /// Kills the server and starts another one on its rows, with the state of its host. The tasks
    /// of the old one stay blocked, and reach neither. The new host can be prepared.
    async fn crash_onto(self, prepare: impl FnOnce(&StubHost, &PlayedGuests)) -> Self {
        let Self { rig, guests } = self;
        let (old, new) = (rig.host.clone(), Arc::new(StubHost::default()));
        copy(&old.templates, &new.templates);
        copy(&old.sandboxes, &new.sandboxes);
        copy(&old.ensured, &new.ensured);
        copy(&old.layers, &new.layers);
        copy(&old.volumes, &new.volumes);
        rig.control.close().await;
        let guests = PlayedGuests { verifiers: guests.verifiers, ..PlayedGuests::default() };
        prepare(&new, &guests);
        guests.play(&new);
        let server = Self { rig: Rig::start_in(rig.folder, new).await, guests };
        server.set_archive();
        server
    }

    /// Checks that a database has one password, which its machine knows, and that nothing is left
    /// to be done for any database.
    async fn is_settled(&self, database: &Value) {
        let rows = self.rig.database().await;
        let sql = "SELECT COUNT(*) FROM managed_database
                   WHERE next_password IS NOT NULL OR repair IS NOT NULL OR kept_volume IS NOT NULL";
        let unfinished: i64 = query_scalar(sql).fetch_one(&rows).await.unwrap();
        rows.close().await;
        assert_eq!(unfinished, 0, "the row says that something is to be done");
        let verifier = self.guests.verifiers.lock().unwrap().get(&self.volume_of(database)).cloned();
        let verifier = verifier.expect("the machine was never given a password");
        assert!(is_verifier_of(&verifier, database["password"].as_str().unwrap()), "the machine has another password");
    }

    /// Restarts a database that has failed, and checks that it is what it was.
    async fn is_what_it_was(&self, database: &Value, data: VolumeId) {
        let (status, shown) = self.rig.post(&format!("{}/restart", path(database))).await;
        assert_eq!(status, 202, "{shown}");
        let again = becomes(&self.rig, database, "running").await;
        assert_eq!(again["connection_url"], database["connection_url"]);
        assert_eq!(self.volume_of(database), data, "it has other data");
        self.is_settled(&again).await;
    }
}

fn path(database: &Value) -> String {
    format!("/v1/databases/{}", database["id"].as_str().unwrap())
}

fn copy<T: Clone>(from: &Mutex<T>, to: &Mutex<T>) {
    let value = from.lock().unwrap().clone();
    *to.lock().unwrap() = value;
}

/// Whether PostgreSQL admits a client with this password. RFC 5802 has the names and the steps.
fn is_verifier_of(verifier: &str, password: &str) -> bool {
    let parts: Vec<&str> = verifier.split(['$', ':']).collect();
    let ["SCRAM-SHA-256", rounds, salt, stored_key, _] = parts[..] else { panic!("no verifier: {verifier}") };
    let keyed = |key: &[u8], text: &[u8]| -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(text);
        mac.finalize().into_bytes().into()
    };
    let salt = [STANDARD.decode(salt).unwrap(), 1_u32.to_be_bytes().to_vec()].concat();
    let mut round = keyed(password.as_bytes(), &salt);
    let mut salted = round;
    for _ in 1..rounds.parse::<u32>().unwrap() {
        round = keyed(password.as_bytes(), &round);
        salted.iter_mut().zip(round).for_each(|(byte, other)| *byte ^= other);
    }
    STANDARD.encode(Sha256::digest(keyed(&salted, b"Client Key"))) == stored_key
}

#[tokio::test]
async fn a_database_that_was_being_made_gets_its_credentials() {
    for cut in [Cut::AfterHost((2, 1, 1)), Cut::Before("credentials"), Cut::After("credentials")] {
        let server = PlayedServer::start().await;
        let first = server.created().await;
        let server = server.killed("/v1/databases", cut).await;
        let second = becomes(&server.rig, &server.newest().await, "running").await;
        assert_ne!(second["password"], first["password"]);
        assert_eq!(server.counts().await, (2, 2, 2));
        server.is_settled(&second).await;
        assert_eq!(server.rig.delete(&path(&second)).await, 204);
        assert_eq!(server.counts().await, (1, 1, 1));
    }
}

/// Its callers have its id, so it is shown.
#[tokio::test]
async fn a_database_whose_machine_was_not_made_has_failed() {
    for (request, counts) in [("/v1/databases", (2, 1, 1)), ("/v1/databases/SOURCE/clone", (2, 1, 2))] {
        let (server, source) = PlayedServer::with_backup().await;
        let request = request.replace("SOURCE", source["id"].as_str().unwrap());
        let server = server.killed(&request, Cut::BeforeHost(counts)).await;
        let failed = server.newest().await;
        assert_eq!(failed["status"], "failed", "{failed}");
        assert!(failed["error"].as_str().unwrap().contains("the server stopped"), "{failed}");
        assert_eq!(server.counts().await, (1, 1, 1), "neither its machine nor its volume is left");
        assert_eq!(server.rig.delete(&path(&failed)).await, 204);
        assert_eq!(server.rig.get("/v1/databases").await.1["count"], 1);
        server.created().await;
    }
}

#[tokio::test]
async fn what_a_golden_layer_was_being_made_with_is_removed() {
    let layers = |server: &PlayedServer| server.rig.host.layers.lock().unwrap().len();
    for cut in [Cut::BeforeHost((0, 0, 1)), Cut::Before("init"), Cut::After("init")] {
        let server = PlayedServer::start().await;
        server.cut_off("/v1/databases", cut).await;
        if matches!(cut, Cut::After("init")) {
            // Sealed next, and the server does not hear of it.
            let rows = server.rig.database().await;
            let layer: String = query_scalar("SELECT layer FROM golden_database").fetch_one(&rows).await.unwrap();
            rows.close().await;
            let layer: LayerId = layer.parse().unwrap();
            server.rig.host.layers.lock().unwrap().insert(layer, LayerHold::Kept);
        }
        let server = server.crash().await;
        assert_eq!((server.counts().await, layers(&server)), ((0, 0, 0), 0));
        let failed = server.newest().await;
        assert_eq!(failed["status"], "failed", "{failed}");
        assert_eq!(server.rig.delete(&path(&failed)).await, 204);
        let made = server.created().await;
        assert_eq!((server.counts().await, layers(&server)), ((1, 1, 1), 1));
        server.is_settled(&made).await;
    }
}

#[tokio::test]
async fn a_branch_that_was_being_made_gets_credentials_of_its_own() {
    for cut in [Cut::AfterHost((2, 1, 1)), Cut::Before("credentials"), Cut::After("credentials")] {
        let server = PlayedServer::start().await;
        let source = server.created().await;
        let server = server.killed(&format!("{}/branches", path(&source)), cut).await;
        let branch = becomes(&server.rig, &server.newest().await, "running").await;
        assert_eq!(branch["branched_from"], source["id"]);
        assert_ne!(branch["password"], source["password"]);
        assert_eq!(server.shown(&source).await["connection_url"], source["connection_url"]);
        assert_eq!(server.counts().await, (2, 2, 2));
        server.is_settled(&branch).await;
        server.is_settled(&source).await;
    }
}

/// Nobody has its id: the answer comes when the copy exists.
#[tokio::test]
async fn a_branch_that_was_not_copied_is_forgotten() {
    let server = PlayedServer::start().await;
    let source = server.created().await;
    let request = format!("{}/branches", path(&source));
    let server = server.killed(&request, Cut::BeforeHost((2, 1, 1))).await;
    assert_eq!(server.rig.get("/v1/databases").await.1["count"], 1);
    assert_eq!(server.counts().await, (1, 1, 1));
    let branch = server.branched(&source).await;
    server.is_settled(&branch).await;
}

#[tokio::test]
async fn a_restart_goes_on_with_the_same_data_and_credentials() {
    let host = Cut::BeforeHost((1, 0, 1));
    for cut in [Cut::Before("stop"), Cut::After("stop"), host, Cut::Before("start"), Cut::After("start")] {
        let server = PlayedServer::start().await;
        let database = server.created().await;
        let data = server.volume_of(&database);
        let server = server.killed(&format!("{}/restart", path(&database)), cut).await;
        let again = becomes(&server.rig, &database, "running").await;
        assert_eq!(again["connection_url"], database["connection_url"]);
        assert_eq!((server.volume_of(&database), server.counts().await), (data, (1, 1, 1)));
        server.is_settled(&again).await;
    }
}

#[tokio::test]
async fn a_reset_of_a_branch_goes_on_and_keeps_its_credentials() {
    let before = (2, 1, 2);
    for cut in [Cut::BeforeHost(before), Cut::AfterHost(before), Cut::Before("credentials"), Cut::After("credentials")]
    {
        let (server, source, branch) = PlayedServer::with_branch().await;
        let old = server.volume_of(&branch);
        let server = server.killed(&format!("{}/reset", path(&branch)), cut).await;
        let again = becomes(&server.rig, &branch, "running").await;
        assert_eq!(again["connection_url"], branch["connection_url"]);
        assert_ne!(server.volume_of(&branch), old, "it has the old data");
        server.comes_to((2, 2, 2)).await;
        server.is_settled(&again).await;
        server.is_settled(&source).await;
    }
}

#[tokio::test]
async fn a_reset_that_cannot_go_on_gives_the_data_back() {
    for cut in [Cut::BeforeHost((2, 1, 2)), Cut::AfterHost((2, 1, 2))] {
        let (server, _, branch) = PlayedServer::with_branch().await;
        let data = server.volume_of(&branch);
        server.cut_off(&format!("{}/reset", path(&branch)), cut).await;
        let lost = Fault::new(FaultKind::Unavailable, "host.lost", "agent unreachable");
        let server = server.crash_onto(|host, _| host.fail_next("fork", lost)).await;
        let failed = becomes(&server.rig, &branch, "failed").await;
        assert!(failed["error"].as_str().unwrap().contains("agent unreachable"), "{failed}");
        assert_eq!(server.counts().await, (2, 1, 2));
        server.is_what_it_was(&branch, data).await;
        assert_eq!(server.counts().await, (2, 2, 2));
    }
}

#[tokio::test]
async fn a_clone_that_was_being_filled_is_filled_again() {
    for cut in [
        Cut::AfterHost((2, 1, 2)),
        Cut::Before("restore"),
        Cut::After("restore"),
        Cut::Before("credentials"),
        Cut::After("credentials"),
    ] {
        let (server, source) = PlayedServer::with_backup().await;
        let server = server.killed(&format!("{}/clone", path(&source)), cut).await;
        let clone = becomes(&server.rig, &server.newest().await, "running").await;
        assert_eq!(clone["cloned_from"], source["id"]);
        assert_ne!(clone["password"], source["password"]);
        assert_eq!(server.shown(&source).await["connection_url"], source["connection_url"]);
        server.comes_to((2, 2, 2)).await;
        server.is_settled(&clone).await;
        server.is_settled(&source).await;
    }
}

#[tokio::test]
async fn a_clone_that_cannot_be_filled_has_failed_and_can_be_deleted() {
    let (server, source) = PlayedServer::with_backup().await;
    server.cut_off(&format!("{}/clone", path(&source)), Cut::Before("restore")).await;
    let server = server.crash_onto(|_, guests| *guests.failing.lock().unwrap() = Some("restore")).await;
    let failed = becomes(&server.rig, &server.newest().await, "failed").await;
    assert!(failed["error"].as_str().unwrap().contains("database restore"), "{failed}");
    assert_eq!(server.counts().await, (2, 1, 2));
    assert_eq!(server.rig.delete(&path(&failed)).await, 204);
    assert_eq!(server.counts().await, (1, 1, 1));
}

/// Starts a server with a database that has a base backup and has failed.
async fn failed_with_backup() -> (PlayedServer, Value, String) {
    let (server, database) = PlayedServer::with_backup().await;
    let rows = server.rig.database().await;
    query("UPDATE managed_database SET error = 'its disk broke'").execute(&rows).await.unwrap();
    rows.close().await;
    let request = format!("{}/failover", path(&database));
    (server, database, request)
}

#[tokio::test]
async fn a_rebuild_from_the_archive_goes_on() {
    for cut in [
        Cut::BeforeHost((1, 0, 2)),
        Cut::AfterHost((1, 0, 2)),
        Cut::Before("restore"),
        Cut::After("restore"),
        Cut::Before("credentials"),
        Cut::After("credentials"),
    ] {
        let (server, database, request) = failed_with_backup().await;
        let old = server.volume_of(&database);
        let server = server.killed(&request, cut).await;
        let rebuilt = becomes(&server.rig, &database, "running").await;
        assert_ne!(server.volume_of(&database), old, "it has the old data");
        server.comes_to((1, 1, 1)).await;
        server.is_settled(&rebuilt).await;
    }
}

#[tokio::test]
async fn a_rebuild_that_cannot_go_on_gives_the_data_back() {
    for cut in [Cut::BeforeHost((1, 0, 2)), Cut::AfterHost((1, 0, 2)), Cut::Before("restore")] {
        let (server, database, request) = failed_with_backup().await;
        let data = server.volume_of(&database);
        server.cut_off(&request, cut).await;
        let server = server.crash_onto(|_, guests| *guests.failing.lock().unwrap() = Some("restore")).await;
        let failed = becomes(&server.rig, &database, "failed").await;
        assert!(failed["error"].as_str().unwrap().contains("database restore"), "{failed}");
        assert_eq!(server.counts().await, (1, 0, 1));
        *server.guests.failing.lock().unwrap() = None;
        server.is_what_it_was(&database, data).await;
        assert_eq!(server.counts().await, (1, 1, 1));
    }
}

/// Each server begins with a volume of its own.
#[tokio::test]
async fn a_rebuild_that_is_cut_off_again_and_again_leaves_one_volume() {
    let (mut server, database, request) = failed_with_backup().await;
    let cut = Cut::Before("restore");
    server.cut_off(&request, cut).await;
    for _ in 0..3 {
        server = server.crash_onto(|_, guests| *guests.cut.lock().unwrap() = Some(cut)).await;
        server.guests.comes_to_cut().await;
    }
    let server = server.crash().await;
    let rebuilt = becomes(&server.rig, &database, "running").await;
    server.comes_to((1, 1, 1)).await;
    server.is_settled(&rebuilt).await;
}

/// The machine may have the new password already, so the old one cannot be kept.
#[tokio::test]
async fn a_reset_of_credentials_goes_on_with_the_password_that_was_written() {
    for cut in [Cut::Before("credentials"), Cut::After("credentials")] {
        let server = PlayedServer::start().await;
        let database = server.created().await;
        server.cut_off(&format!("{}/reset-credentials", path(&database)), cut).await;
        let rows = server.rig.database().await;
        let sql = "SELECT next_password FROM managed_database";
        let written: String = query_scalar(sql).fetch_one(&rows).await.unwrap();
        rows.close().await;
        let server = server.crash().await;
        wait_for("it has the new password", || async { server.shown(&database).await["password"] == written }).await;
        let renewed = server.shown(&database).await;
        assert_ne!(renewed["password"], database["password"]);
        assert_eq!((&renewed["status"], server.counts().await), (&json!("running"), (1, 1, 1)));
        server.is_settled(&renewed).await;
    }
}

#[tokio::test]
async fn a_restore_drill_that_was_cut_off_has_failed_and_leaves_nothing() {
    for cut in [Cut::BeforeHost((1, 1, 2)), Cut::Before("restore"), Cut::Before("check"), Cut::After("check")] {
        let (server, database) = PlayedServer::with_backup().await;
        let (backups, request) = (format!("{}/backups", path(&database)), format!("{}/verify-backup", path(&database)));
        let server = server.killed(&request, cut).await;
        assert_eq!(server.counts().await, (1, 1, 1), "the scratch machine or its volume is left");
        let drill = server.rig.get(&backups).await.1["drill"].clone();
        assert_eq!(drill["status"], "failed", "{drill}");
        assert_eq!(drill["error"], "the server stopped during the drill");
        // The next one is not refused.
        assert_eq!(server.rig.post(&request).await.0, 202);
        let passed = || async { server.rig.get(&backups).await.1["drill"]["status"] == "passed" };
        wait_for("the next drill passes", passed).await;
        assert_eq!(server.counts().await, (1, 1, 1));
        assert_eq!(server.shown(&database).await["connection_url"], database["connection_url"]);
    }
}
