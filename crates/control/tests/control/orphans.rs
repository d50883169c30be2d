//! What the host has and the database never knew: put aside, adopted, removed after a week. A
//! database without some rows stands for an older one; `file.rs` restores a real backup.

use std::sync::Arc;

use pandastack_control::{ControlSettings, OrphanFault, OrphanView, Orphans, mark_restored};
use pandastack_database::{query, query_scalar};
use pandastack_kit::Clock;
use pandastack_model::{Fault, FaultKind, SandboxId, SandboxState, VolumeId};
use pandastack_wire_fleet::{
    ControlPort, IdlePolicy,
    stub::{StubHost, stub_template},
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    backend,
    billing::StillClock,
    databases::{PlayedTool, becomes, create},
    rig::{Rig, answer, wait_for},
};

const WEEK_S: u64 = 7 * 24 * 3600;
const NOW_S: u64 = 1_790_000_000;
/// Longer than the pause after which a failed step is tried again.
const RETRY_S: u64 = 61;

/// A server whose host has more than its database knows.
struct Restored {
    rig: Rig,
    clock: Arc<StillClock>,
    tool: PlayedTool,
    /// Known to the database.
    known: String,
    /// A running sandbox that ends when idle, and the volume that it writes.
    sandbox: SandboxId,
    volume: VolumeId,
    /// A volume that nobody uses.
    unused: VolumeId,
    database: SandboxId,
    /// The volume of the database.
    data: VolumeId,
}

impl Restored {
    /// Makes everything, then takes the rows of most of it away, as an older backup has none.
    async fn start() -> Self {
        let rig = Rig::start().await;
        let tool = PlayedTool::start(&rig);
        let known = rig.created().await;
        let named = |name: &str| json!({"name": name, "size_mb": 64});
        assert_eq!(rig.send(Method::POST, "/v1/volumes", named("work")).await.0, 201);
        let volume = only(&rig.host);
        assert_eq!(rig.send(Method::POST, "/v1/volumes", named("unused")).await.0, 201);
        let unused = *rig.host.volumes.lock().unwrap().keys().find(|id| **id != volume).unwrap();
        let asked = json!({"template": "mini", "ttl_seconds": 60, "metadata": {"a": "b"},
            "volumes": [{"name": "work", "mount_path": "/work"}]});
        let (status, made) = rig.create(asked).await;
        assert_eq!(status, 201, "{made}");
        let database = becomes(&rig, &create(&rig, json!({"label": "orders"})).await, "running").await;
        let database: SandboxId = id_of(&database);
        let data = rig.host.ensured.lock().unwrap()[&database].spec.volumes[0].volume;
        let (sandbox, clock) = (id_of(&made), StillClock::at(NOW_S));
        let restored = Self { rig, clock, tool, known, sandbox, volume, unused, database, data };
        restored.forgotten().await.again().await
    }

    /// Takes the rows away of everything but one sandbox.
    async fn forgotten(self) -> Self {
        let database = self.rig.database().await;
        for id in self.ids() {
            for sql in [
                "DELETE FROM sandbox WHERE id = ?",
                "DELETE FROM managed_database WHERE id = ?",
                "DELETE FROM volume WHERE id = ?",
                "DELETE FROM usage_fact WHERE subject = ?",
                "DELETE FROM usage_subject WHERE id = ?",
            ] {
                query(sql).bind(id.clone()).execute(&database).await.unwrap();
            }
        }
        database.close().await;
        let place = backend::place(self.rig.folder.path()).await;
        mark_restored(&place.database, "old.db", self.clock.now_ns()).await.unwrap();
        self
    }

    /// Starts the server once more on the same host, with the clock of the test.
    async fn again(self) -> Self {
        let Self { rig, clock, known, sandbox, volume, unused, database, data, tool: _ } = self;
        rig.scope.close(std::time::Duration::from_secs(5)).await;
        rig.control.close().await;
        // Faults and players belong to one run of the server.
        let host = Arc::new(StubHost::default());
        let old = rig.host;
        macro_rules! keep {
            ($($field:ident),*) => { $(*host.$field.lock().unwrap() = old.$field.lock().unwrap().clone();)* };
        }
        keep!(sandboxes, ensured, layers, volumes, lifecycles);
        host.templates.lock().unwrap().push(stub_template("postgres-16"));
        let rig = Rig::start_with(rig.folder, host, ControlSettings::default(), clock.clone()).await;
        let tool = PlayedTool::start(&rig);
        Self { rig, clock, tool, known, sandbox, volume, unused, database, data }
    }

    fn ids(&self) -> Vec<String> {
        let machines = [self.sandbox, self.database].map(|id| id.to_string());
        machines.into_iter().chain([self.volume, self.unused, self.data].map(|id| id.to_string())).collect()
    }

    async fn orphans(&self) -> Orphans {
        Orphans::open(&backend::place(self.rig.folder.path()).await.database, self.clock.now_ns()).await.unwrap()
    }

    async fn list(&self) -> Vec<OrphanView> {
        let orphans = self.orphans().await;
        let list = orphans.list().await.unwrap();
        orphans.close().await;
        list
    }

    async fn find(&self, id: impl ToString) -> Option<OrphanView> {
        self.list().await.into_iter().find(|orphan| orphan.id == id.to_string())
    }

    async fn look(&self) {
        self.rig.control.look_after_orphans().await.unwrap();
    }

    /// Asks for an adoption into the workspace of the rig's key, and lets the server do it.
    async fn adopt(&self, id: impl ToString) {
        let orphans = self.orphans().await;
        orphans.adopt(&id.to_string(), "default", None).await.unwrap();
        orphans.close().await;
        self.look().await;
    }

    async fn refused(&self, id: impl ToString, workspace: &str, name: Option<&str>) -> OrphanFault {
        let orphans = self.orphans().await;
        let refused = orphans.adopt(&id.to_string(), workspace, name).await.unwrap_err();
        orphans.close().await;
        refused
    }

    /// How many entries of the audit trail tell of this.
    async fn audited(&self, id: impl ToString, workspace: &str) -> i64 {
        let database = self.rig.database().await;
        let sql = "SELECT COUNT(*) FROM audit WHERE path LIKE ? AND workspace = ?";
        let path = format!("orphans/%/{}", id.to_string());
        let count = query_scalar(sql).bind(path).bind(workspace).fetch_one(&database).await.unwrap();
        database.close().await;
        count
    }

    fn state(&self, id: SandboxId) -> SandboxState {
        self.rig.host.state(&id.to_string())
    }

    fn has_volume(&self, id: VolumeId) -> bool {
        self.rig.host.volumes.lock().unwrap().contains_key(&id)
    }

    fn has_sandbox(&self, id: SandboxId) -> bool {
        self.rig.host.sandboxes.lock().unwrap().contains_key(&id)
    }
}

fn only(host: &StubHost) -> VolumeId {
    *host.volumes.lock().unwrap().keys().next().unwrap()
}

fn id_of(shown: &Value) -> SandboxId {
    shown["id"].as_str().unwrap().parse().unwrap()
}

fn broken() -> Fault {
    Fault::new(FaultKind::Unavailable, "host.lost", "the agent does not answer")
}

#[tokio::test]
async fn nothing_that_the_older_database_does_not_know_is_removed() {
    let restored = Restored::start().await;
    restored.look().await;
    let list = restored.list().await;
    let kinds: Vec<_> = list.iter().map(|orphan| (orphan.kind, orphan.id.clone())).collect();
    assert_eq!(kinds.len(), 5, "{list:?}");
    for (kind, id) in [
        ("sandbox", restored.sandbox.to_string()),
        ("database", restored.database.to_string()),
        ("volume", restored.volume.to_string()),
        ("volume", restored.unused.to_string()),
        ("volume", restored.data.to_string()),
    ] {
        assert!(kinds.contains(&(kind, id.clone())), "{kind} {id}: {kinds:?}");
    }
    let sandbox = restored.find(restored.sandbox).await.unwrap();
    assert_eq!((sandbox.template.as_deref(), sandbox.cpus, sandbox.memory_mib), (Some("mini"), 2, 512));
    assert_eq!((sandbox.host_state.as_str(), sandbox.state), ("running", "kept"));
    assert_eq!((sandbox.backup.as_deref(), sandbox.workspace.as_deref()), (Some("old.db"), Some("default")));
    assert_eq!(sandbox.expires_at_ns - sandbox.put_aside_at_ns, WEEK_S * 1_000_000_000);
    let data = restored.find(restored.data).await.unwrap();
    assert_eq!(data.of_sandbox, Some(restored.database.to_string()));
    assert_eq!(restored.find(restored.unused).await.unwrap().disk_mib, 64);

    // Asleep, and without the idle limit that would have ended it.
    for id in [restored.sandbox, restored.database] {
        assert_eq!(restored.state(id), SandboxState::Asleep);
        let lifecycle = restored.rig.host.lifecycles.lock().unwrap()[&id];
        assert_eq!(lifecycle, IdlePolicy { ttl_seconds: 0, persistent: true });
    }
    assert_eq!(restored.rig.host.state(&restored.known), SandboxState::Running);

    // In no list, reachable by nobody, and for no quota.
    let rig = &restored.rig;
    assert_eq!(rig.get("/v1/sandboxes").await.1.as_array().unwrap().len(), 1);
    assert_eq!(rig.get("/v1/volumes").await.1, json!([]));
    assert_eq!(rig.get("/v1/databases").await.1["count"], 0);
    for path in [format!("/v1/sandboxes/{}", restored.sandbox), format!("/v1/databases/{}", restored.database)] {
        assert_eq!(rig.get(&path).await.0, 404, "{path}");
        assert_eq!(rig.stranger(Method::GET, &path).await.0, 404, "{path}");
    }
    assert!(rig.control.admit_anyone(restored.sandbox).await.is_err());
    assert!(rig.control.admit_database(restored.database).await.is_err());
    let sleeping = restored.state(restored.sandbox);
    assert_eq!(sleeping, SandboxState::Asleep, "nobody woke it");
}

#[tokio::test]
async fn the_week_goes_on_across_starts() {
    let restored = Restored::start().await;
    let before = restored.list().await;
    restored.clock.pass(3600);
    let restored = restored.again().await;
    restored.look().await;
    let after = restored.list().await;
    assert_eq!(after.len(), 5);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before.id, before.expires_at_ns), (&after.id, after.expires_at_ns));
    }
}

#[tokio::test]
async fn an_adopted_sandbox_works_with_its_volume() {
    let restored = Restored::start().await;
    restored.look().await;
    restored.adopt(restored.sandbox).await;
    assert!(restored.find(restored.sandbox).await.is_none() && restored.find(restored.volume).await.is_none());
    let rig = &restored.rig;
    let path = format!("/v1/sandboxes/{}", restored.sandbox);
    wait_for("its row has the state of the host", || async { rig.get(&path).await.1["status"] == "hibernated" }).await;
    let shown = rig.get(&path).await.1;
    assert_eq!(
        (&shown["ttl_seconds"], &shown["persistent"], &shown["template"]),
        (&json!(60), &json!(false), &json!("mini"))
    );
    assert_eq!(shown["metadata"]["a"], "b");
    let lifecycle = rig.host.lifecycles.lock().unwrap()[&restored.sandbox];
    assert_eq!(lifecycle, IdlePolicy { ttl_seconds: 60, persistent: false }, "it has its idle limit again");
    let (_, volumes) = rig.get("/v1/volumes").await;
    let name = volumes[0]["name"].as_str().unwrap().to_owned();
    assert!(
        name.starts_with("restored-") && volumes[0]["attached_to"] == json!([restored.sandbox.to_string()]),
        "{volumes}"
    );
    assert_eq!(shown["volumes"][0]["name"], json!(name), "{shown}");
    assert_eq!(rig.stranger(Method::GET, &path).await.0, 404);
    assert_eq!(restored.audited(restored.sandbox, "default").await, 1);
    assert_eq!(rig.post(&format!("{path}/wake")).await.0, 200);
    assert_eq!(restored.state(restored.sandbox), SandboxState::Running);
    let again = restored.refused(restored.sandbox, "default", None).await;
    assert!(matches!(again, OrphanFault::Missing(_)), "{again}");
    // It is deleted like any other. Its volume stays, as before.
    assert_eq!(rig.delete(&path).await, 204);
    assert!(restored.has_volume(restored.volume) && !restored.has_sandbox(restored.sandbox));
    assert_eq!(rig.delete(&format!("/v1/volumes/{name}")).await, 204);
}

#[tokio::test]
async fn an_adopted_volume_is_mounted_under_its_new_name() {
    let restored = Restored::start().await;
    let orphans = restored.orphans().await;
    orphans.adopt(&restored.unused.to_string(), "other", Some("found")).await.unwrap();
    orphans.close().await;
    restored.look().await;
    let (_, volumes) = restored.rig.stranger(Method::GET, "/v1/volumes").await;
    assert_eq!((&volumes[0]["name"], &volumes[0]["size_mb"]), (&json!("found"), &json!(64)), "{volumes}");
    assert_eq!(restored.rig.get("/v1/volumes").await.1, json!([]));
    assert_eq!(restored.audited(restored.unused, "other").await, 1);
    let body = json!({"template": "mini", "volumes": [{"name": "found", "mount_path": "/found"}]});
    let url = format!("{}/v1/sandboxes", restored.rig.url);
    let asked = restored.rig.http.post(url).bearer_auth(crate::rig::OTHER_KEY).json(&body);
    let (status, made) = answer(asked).await;
    assert_eq!(status, 201, "{made}");
    let ensured = restored.rig.host.ensured.lock().unwrap();
    assert_eq!(ensured[&id_of(&made)].spec.volumes[0].volume, restored.unused);
}

#[tokio::test]
async fn an_adopted_database_has_its_label_and_a_new_password() {
    let restored = Restored::start().await;
    restored.look().await;
    restored.adopt(restored.database).await;
    assert_eq!(restored.tool.verbs(), ["credentials"]);
    let path = format!("/v1/databases/{}", restored.database);
    let (status, shown) = restored.rig.get(&path).await;
    assert_eq!((status, &shown["label"], &shown["size"]), (200, &json!("orders"), &json!("1g")));
    wait_for("it runs", || async { restored.rig.get(&path).await.1["status"] == "running" }).await;
    assert!(restored.rig.get(&path).await.1["password"].as_str().is_some());
    assert!(restored.find(restored.database).await.is_none() && restored.find(restored.data).await.is_none());
    assert_eq!(restored.audited(restored.database, "default").await, 1);
    // Its volume goes with it, as before.
    assert_eq!(restored.rig.delete(&path).await, 204);
    assert!(!restored.has_volume(restored.data) && !restored.has_sandbox(restored.database));
}

#[tokio::test]
async fn a_database_whose_password_cannot_be_set_gets_it_later() {
    let restored = Restored::start().await;
    restored.look().await;
    *restored.tool.failing.lock().unwrap() = Some("credentials");
    restored.adopt(restored.database).await;
    let orphan = restored.find(restored.database).await.unwrap();
    assert_eq!(orphan.state, "adopted");
    assert!(orphan.error.unwrap().contains("credentials"), "the operator sees why");
    assert_eq!(restored.audited(restored.database, "default").await, 0);
    *restored.tool.failing.lock().unwrap() = None;
    restored.clock.pass(RETRY_S);
    restored.look().await;
    assert!(restored.find(restored.database).await.is_none());
    let path = format!("/v1/databases/{}", restored.database);
    wait_for("it runs", || async { restored.rig.get(&path).await.1["status"] == "running" }).await;
    assert_eq!(restored.audited(restored.database, "default").await, 1);
}

#[tokio::test]
async fn everything_is_removed_after_a_week_and_not_before() {
    let restored = Restored::start().await;
    restored.look().await;
    let database = restored.rig.database().await;
    restored.clock.pass(WEEK_S - 1);
    restored.look().await;
    assert_eq!(restored.list().await.len(), 5, "a second is missing");
    restored.clock.pass(1);
    restored.look().await;
    assert!(restored.list().await.is_empty(), "{:?}", restored.list().await);
    for id in [restored.volume, restored.unused, restored.data] {
        assert!(!restored.has_volume(id));
    }
    assert!(!restored.has_sandbox(restored.sandbox) && !restored.has_sandbox(restored.database));
    assert!(restored.has_sandbox(restored.known.parse().unwrap()), "what the database knows stays");
    for id in [restored.sandbox.to_string(), restored.database.to_string(), restored.volume.to_string()] {
        assert_eq!(restored.audited(id, "default").await, 1);
    }
    let sql = "SELECT COUNT(*) FROM forgotten_archive WHERE database_id = ?";
    let left: i64 = query_scalar(sql).bind(restored.database.to_string()).fetch_one(&database).await.unwrap();
    database.close().await;
    assert_eq!(left, 1, "its backups go as soon as there is an archive");
}

#[tokio::test]
async fn an_operator_removes_something_at_once() {
    let restored = Restored::start().await;
    restored.look().await;
    let orphans = restored.orphans().await;
    let asked = orphans.delete(&restored.data.to_string()).await.unwrap();
    assert_eq!(asked.state, "removing");
    restored.look().await;
    let kept = restored.find(restored.data).await.unwrap();
    assert!(kept.waits && kept.error.unwrap().contains("attached"), "its database still uses it");
    assert!(restored.has_volume(restored.data));
    orphans.delete(&restored.database.to_string()).await.unwrap();
    restored.look().await;
    assert!(!restored.has_volume(restored.data) && !restored.has_sandbox(restored.database));
    assert!(restored.find(restored.data).await.is_none());
    orphans.delete(&restored.unused.to_string()).await.unwrap();
    restored.look().await;
    assert!(!restored.has_volume(restored.unused));
    assert_eq!(restored.list().await.len(), 2, "the others stay");
    let missing = orphans.delete(&restored.unused.to_string()).await.unwrap_err();
    assert!(matches!(missing, OrphanFault::Missing(_)), "{missing}");
    orphans.close().await;
}

#[tokio::test]
async fn a_removal_that_is_cut_off_anywhere_goes_on() {
    for verb in ["remove", "remove_volume"] {
        let restored = Restored::start().await;
        restored.look().await;
        restored.rig.host.fail_always(verb, broken());
        restored.clock.pass(WEEK_S);
        restored.look().await;
        let left = restored.list().await;
        assert!(left.iter().any(|orphan| orphan.state == "removing"), "{verb}: {left:?}");
        // The next server finds it half done, on a host that works.
        let restored = restored.again().await;
        restored.look().await;
        assert!(restored.list().await.is_empty(), "{verb}: {:?}", restored.list().await);
        assert_eq!(restored.rig.host.count(), 1, "{verb}");
        assert!(restored.rig.host.volumes.lock().unwrap().is_empty(), "{verb}");
        for id in restored.ids().into_iter().filter(|id| *id != restored.data.to_string()) {
            assert_eq!(restored.audited(&id, "default").await, 1, "{verb} {id}");
        }
    }
}

#[tokio::test]
async fn an_adoption_that_is_cut_off_anywhere_goes_on() {
    for cut in ["asked", "observed", "set_lifecycle"] {
        let restored = Restored::start().await;
        restored.look().await;
        match cut {
            // The rows are not written.
            "asked" => restored.rig.host.fail_always("recorded", broken()),
            // They are, and the rest is missing.
            "set_lifecycle" => restored.rig.host.fail_always("set_lifecycle", broken()),
            _ => {}
        }
        let orphans = restored.orphans().await;
        for id in [restored.sandbox, restored.database] {
            orphans.adopt(&id.to_string(), "default", None).await.unwrap();
        }
        orphans.close().await;
        if cut != "observed" {
            restored.look().await;
        }
        let state = restored.find(restored.sandbox).await.map(|orphan| orphan.state);
        match cut {
            "asked" => assert_eq!(state, Some("adopting")),
            "set_lifecycle" => assert_eq!(state, Some("adopted")),
            _ => {}
        }
        let restored = restored.again().await;
        restored.look().await;
        restored.clock.pass(RETRY_S);
        restored.look().await;
        assert_eq!(restored.list().await.len(), 1, "{cut}: the unused volume, {:?}", restored.list().await);
        let rig = &restored.rig;
        assert_eq!(rig.get(&format!("/v1/sandboxes/{}", restored.sandbox)).await.1["ttl_seconds"], 60, "{cut}");
        let lifecycle = rig.host.lifecycles.lock().unwrap()[&restored.sandbox];
        assert_eq!(lifecycle, IdlePolicy { ttl_seconds: 60, persistent: false }, "{cut}");
        let path = format!("/v1/databases/{}", restored.database);
        wait_for("the database runs", || async { rig.get(&path).await.1["status"] == "running" }).await;
        for id in [restored.sandbox, restored.database] {
            assert_eq!(restored.audited(id, "default").await, 1, "{cut}");
        }
        assert_eq!(rig.get("/v1/volumes").await.1.as_array().unwrap().len(), 2, "{cut}");
    }
}

#[tokio::test]
async fn what_cannot_be_adopted_stays_with_the_reason() {
    let restored = Restored::start().await;
    restored.look().await;
    let nowhere = restored.refused(restored.sandbox, "nowhere", None).await;
    assert!(matches!(nowhere, OrphanFault::NoWorkspace(_)) && nowhere.to_string().contains("admin quota list"));
    let no_name = restored.refused(restored.sandbox, "default", Some("x")).await;
    assert!(matches!(no_name, OrphanFault::NoName(_)), "{no_name}");
    let bad = restored.refused(restored.unused, "default", Some("a/b")).await;
    assert!(matches!(bad, OrphanFault::BadName(..)), "{bad}");
    let unknown = restored.refused(SandboxId::random(), "default", None).await;
    assert!(matches!(unknown, OrphanFault::Missing(_)), "{unknown}");

    // The volume belongs to a database that was put aside too.
    restored.adopt(restored.data).await;
    let error = restored.find(restored.data).await.unwrap().error.unwrap();
    assert!(error.contains(&restored.database.to_string()), "{error}");
    let volume = json!({"name": "mine", "size_mb": 64});
    assert_eq!(restored.rig.send(Method::POST, "/v1/volumes", volume).await.0, 201);
    let orphans = restored.orphans().await;
    orphans.adopt(&restored.unused.to_string(), "default", Some("mine")).await.unwrap();
    restored.look().await;
    let kept = restored.find(restored.unused).await.unwrap();
    assert!(kept.waits && kept.error.unwrap().contains("--name"), "another volume has the name");
    orphans.adopt(&restored.unused.to_string(), "default", Some("yours")).await.unwrap();
    restored.look().await;
    orphans.close().await;
    assert!(restored.find(restored.unused).await.is_none());
    assert_eq!(restored.rig.get("/v1/volumes/yours").await.0, 200);
}

#[tokio::test]
async fn a_machine_that_cannot_sleep_is_paused_until_it_can() {
    let restored = Restored::start().await;
    restored.look().await;
    // As it was when it was found, on a host that cannot seal.
    restored.rig.host.fail_always("sleep", broken());
    restored.rig.host.sandboxes.lock().unwrap().get_mut(&restored.sandbox).unwrap().state = SandboxState::Running;
    let database = restored.rig.database().await;
    let found = query("UPDATE orphan SET state = 'found' WHERE id = ?").bind(restored.sandbox.to_string());
    found.execute(&database).await.unwrap();
    database.close().await;
    restored.look().await;
    assert_eq!(restored.state(restored.sandbox), SandboxState::Paused, "it takes no CPU");
    assert_eq!(restored.find(restored.sandbox).await.unwrap().state, "found");
    let restored = restored.again().await;
    restored.look().await;
    assert_eq!(restored.state(restored.sandbox), SandboxState::Asleep);
    assert_eq!(restored.find(restored.sandbox).await.unwrap().state, "kept");
}

#[tokio::test]
async fn leftovers_of_our_own_are_removed_as_ever() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    assert_eq!(rig.delete(&format!("/v1/sandboxes/{id}")).await, 204);
    // The host was cut off and still has it.
    let deleted: SandboxId = id.parse().unwrap();
    rig.host.add(deleted);
    let (maker, volume) = (SandboxId::random(), VolumeId::random());
    rig.host.add(maker);
    rig.host.volumes.lock().unwrap().insert(volume, pandastack_model::ByteSize::gib(1));
    let database = rig.database().await;
    query("INSERT INTO build_holding (id, kind, build) VALUES (?, 'sandbox', NULL), (?, 'volume', NULL)")
        .bind(maker.to_string())
        .bind(volume.to_string())
        .execute(&database)
        .await
        .unwrap();
    database.close().await;
    let rig = rig.restart_control().await;
    assert_eq!(rig.host.count(), 0);
    assert!(rig.host.volumes.lock().unwrap().is_empty());
    let orphans = Orphans::open(&backend::place(rig.folder.path()).await.database, 1).await.unwrap();
    assert!(orphans.list().await.unwrap().is_empty());
    orphans.close().await;
}

/// At the time of the backup a volume was being made and one deleted, and a request was running.
#[tokio::test]
async fn what_was_in_progress_at_the_backup_is_not_taken_back() {
    for marked in [true, false] {
        let rig = Rig::start().await;
        let id = rig.created().await;
        for name in ["made", "deleted"] {
            let made = rig.send(Method::POST, "/v1/volumes", json!({"name": name, "size_mb": 64})).await;
            assert_eq!(made.0, 201);
        }
        let database = rig.database().await;
        for sql in [
            "UPDATE volume SET status = 'making' WHERE name = 'made'",
            "UPDATE volume SET status = 'deleting' WHERE name = 'deleted'",
            "INSERT INTO attempt (workspace, key, digest, created_at, server) VALUES ('default', 'k', 'd', 5, '')",
        ] {
            query(sql).execute(&database).await.unwrap();
        }
        query("INSERT INTO attempt_made (workspace, key, kind, id) VALUES ('default', 'k', 'sandbox', ?)")
            .bind(id.clone())
            .execute(&database)
            .await
            .unwrap();
        database.close().await;
        if marked {
            let place = backend::place(rig.folder.path()).await;
            mark_restored(&place.database, "old.db", 10).await.unwrap();
        }
        let rig = rig.restart_control().await;
        // Without a mark these are what a crash leaves, and are undone.
        let (sandboxes, volumes) = if marked { (1, 2) } else { (0, 0) };
        assert_eq!(rig.host.count(), sandboxes, "marked: {marked}");
        assert_eq!(rig.host.volumes.lock().unwrap().len(), volumes, "marked: {marked}");
        assert_eq!(rig.get("/v1/volumes").await.1.as_array().unwrap().len(), volumes);
        assert_eq!(rig.get("/v1/sandboxes").await.1.as_array().unwrap().len(), sandboxes);
        // The mark counts once.
        let rig = rig.restart_control().await;
        assert_eq!(rig.host.volumes.lock().unwrap().len(), volumes);
    }
}

/// Since the backup the database got another volume, for example by a restore of its own backups.
#[tokio::test]
async fn a_known_database_keeps_the_volume_that_it_has_now() {
    let rig = Rig::start().await;
    let _tool = PlayedTool::start(&rig);
    let database = becomes(&rig, &create(&rig, json!({})).await, "running").await;
    let id = id_of(&database);
    let old = rig.host.ensured.lock().unwrap()[&id].spec.volumes[0].volume;
    let new = VolumeId::random();
    rig.host.volumes.lock().unwrap().insert(new, pandastack_model::ByteSize::gib(5));
    rig.host.ensured.lock().unwrap().get_mut(&id).unwrap().spec.volumes[0].volume = new;
    let rows = rig.database().await;
    // At the time of the backup, the old one was being replaced by a third one.
    query("UPDATE managed_database SET repair = 'restore', kept_volume = ? WHERE id = ?")
        .bind(old.to_string())
        .bind(id.to_string())
        .execute(&rows)
        .await
        .unwrap();
    rows.close().await;
    mark_restored(&backend::place(rig.folder.path()).await.database, "old.db", 10).await.unwrap();
    let rig = rig.restart_control().await;
    rig.control.look_after_orphans().await.unwrap();
    {
        let volumes = rig.host.volumes.lock().unwrap();
        assert!(volumes.contains_key(&old) && volumes.contains_key(&new), "{volumes:?}");
    }
    let path = format!("/v1/databases/{id}");
    assert_eq!(rig.get(&path).await.1["status"], "running", "no repair begins");
    let orphans = Orphans::open(&backend::place(rig.folder.path()).await.database, 1).await.unwrap();
    let list = orphans.list().await.unwrap();
    orphans.close().await;
    let kept: Vec<_> = list.iter().map(|orphan| orphan.id.clone()).collect();
    assert_eq!(kept, [old.to_string()], "only the volume that it no longer has was put aside");
    assert_eq!(list[0].workspace.as_deref(), Some("default"));
    // It is deleted with the volume that it has.
    assert_eq!(rig.delete(&path).await, 204);
    let volumes = rig.host.volumes.lock().unwrap();
    assert_eq!(volumes.keys().copied().collect::<Vec<_>>(), [old]);
}
