//! What happens to a database when something dies, and what its archive is good for: restarts on
//! the same volume, clones as of a time, drills, rebuilds, branches that are reset.

use std::time::Duration;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_testbed::wait_for;
use reqwest::Method;
use serde_json::{Value, json};

use super::{DatabaseBed, path, with};

/// Time limit for a restart or a restore without KVM.
pub const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::test]
async fn a_database_survives_its_machine_and_is_cloned() {
    let bed = DatabaseBed::start();
    let (status, made) = bed.send(Method::POST, "/v1/databases", json!({"label": "orders"})).await;
    assert_eq!(status, 202, "{made}");
    let database = bed.running(made["id"].as_str().unwrap()).await;
    bed.answer(&database, "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 500)");
    let (status, backups) = bed.get(&format!("{}/backups", path(&database))).await;
    assert_eq!((status, &backups["count"], &backups["archive"]["health"]), (200, &json!(1), &json!("ok")), "{backups}");

    kill_machine(&bed, &database).await;
    assert_eq!(bed.answer_again(&database, "SELECT count(*) FROM t").await, "500");
    kill_server(&bed, &database).await;
    assert_eq!(bed.answer_again(&database, "SELECT count(*) FROM t").await, "500");

    bed.answer(&database, "INSERT INTO t SELECT generate_series(501, 600)");
    // At once: what it archives before it sleeps is all that a clone has.
    let hibernate = format!("/v1/sandboxes/{}/hibernate", text(&database, "id"));
    assert_eq!(bed.send(Method::POST, &hibernate, json!({})).await.0, 200);
    let clone = bed.cloned(&database, json!({})).await;
    assert_eq!(bed.get(&path(&database)).await.1["status"], "hibernated", "a clone does not wake its source");
    assert_eq!((&clone["cloned_from"], &clone["label"]), (&database["id"], &json!("orders (clone)")), "{clone}");
    assert_eq!(bed.answer(&clone, "SELECT count(*), max(n) FROM t"), "600|600");
    assert!(bed.refusal(&with(&clone, "password", text(&database, "password")), "SELECT 1").contains("failed"));
    bed.answer(&clone, "DELETE FROM t");
    assert_eq!(bed.answer(&database, "SELECT count(*) FROM t"), "600");

    for (body, code) in [
        (json!({"target_time": "2020-01-01T00:00:00Z"}), "database.bad_target_time"),
        (json!({"target_time": "2999-01-01T00:00:00Z"}), "database.bad_target_time"),
        (json!({"target_time": "soon"}), "database.bad_target_time"),
        (json!({"size": "3g"}), "database.bad_size"),
    ] {
        let (status, refused) = bed.send(Method::POST, &format!("{}/clone", path(&database)), body).await;
        assert_eq!((status, &refused["code"]), (400, &json!(code)), "{refused}");
    }
    let (status, refused) = bed.send(Method::POST, &format!("{}/failover", path(&database)), json!({})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("database.not_failed")));
    super::nothing_stays(&bed, &[&database, &clone]).await;
    let archive = bed.data_dir.join("database-archive/db").join(text(&database, "id"));
    wait_for("the backups are gone", PATIENCE, async || (!archive.exists()).then_some(())).await;
}

impl DatabaseBed {
    /// Asks until the database answers: connections are refused while it starts again.
    pub async fn answer_again(&self, database: &Value, sql: &str) -> String {
        wait_for("the database answers", PATIENCE, async || {
            let output = self.psql(database, "", sql);
            output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
        })
        .await
    }

    /// Clones a database and waits for the clone.
    pub async fn cloned(&self, database: &Value, body: Value) -> Value {
        let (status, clone) = self.send(Method::POST, &format!("{}/clone", path(database)), body).await;
        assert_eq!((status, &clone["status"]), (202, &json!("provisioning")), "{clone}");
        self.running(text(&clone, "id")).await
    }

    pub async fn exec(&self, database: &Value, command: &str) -> Value {
        let exec = format!("/v1/sandboxes/{}/exec", text(database, "id"));
        let (status, done) = self.send(Method::POST, &exec, json!({"cmd": command})).await;
        assert_eq!(status, 200, "{done}");
        done
    }
}

/// Kills the process of a database's machine.
pub async fn kill_machine(bed: &DatabaseBed, database: &Value) {
    let id = text(database, "id");
    let machine = crate::server::machine_of(&bed.data_dir, id).await;
    kill(Pid::from_raw(machine), Signal::SIGKILL).unwrap();
    wait_for("the death is noticed", PATIENCE, async || {
        let (_, shown) = bed.get(&format!("/v1/databases/{id}")).await;
        (shown["status"] != "running").then_some(())
    })
    .await;
}

/// Kills PostgreSQL and its pooler in the machine, as a lack of memory might.
async fn kill_server(bed: &DatabaseBed, database: &Value) {
    let command =
        "kill -9 $(head -n 1 /var/lib/pandastack/pg/data/postmaster.pid) $(cat /run/postgresql/pgbouncer.pid)";
    assert_eq!(bed.exec(database, command).await["exit_code"], 0);
}

pub fn text<'a>(database: &'a Value, field: &str) -> &'a str {
    database[field].as_str().unwrap()
}

/// What takes minutes without KVM.
mod deep {
    use super::*;

    #[tokio::test]
    async fn archives_restore_rebuild_and_reset() {
        let bed = DatabaseBed::start();
        let (_, made) = bed.send(Method::POST, "/v1/databases", json!({})).await;
        let database = bed.running(text(&made, "id")).await;
        bed.answer(&database, "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 100)");

        a_branch_is_compared_and_reset(&bed, &database).await;
        a_backup_is_taken_and_verified(&bed, &database).await;
        a_restart_keeps_data_and_credentials(&bed, &database).await;
        a_second_can_be_chosen(&bed, &database).await;
        a_clone_outlives_its_source(&bed, &database).await;
    }

    async fn a_branch_is_compared_and_reset(bed: &DatabaseBed, database: &Value) {
        let (_, branch) = bed.send(Method::POST, &format!("{}/branches", path(database)), json!({})).await;
        let branch = bed.running(text(&branch, "id")).await;
        bed.answer(&branch, "ALTER TABLE t ADD COLUMN more int; DELETE FROM t WHERE n > 10");
        let (status, diff) = bed.get(&format!("{}/diff", path(&branch))).await;
        assert_eq!((status, &diff["same"], &diff["from"]), (200, &json!(false), &database["id"]), "{diff}");
        assert!(text(&diff, "diff").contains("+    more integer"), "{diff}");
        let (status, _) = bed.send(Method::POST, &format!("{}/reset", path(&branch)), json!({})).await;
        assert_eq!(status, 202);
        let reset = bed.running(text(&branch, "id")).await;
        assert_eq!(reset["connection_url"], branch["connection_url"]);
        assert_eq!(bed.answer(&branch, "SELECT count(*) FROM t"), "100");
        assert_eq!(bed.get(&format!("{}/diff", path(&branch))).await.1["same"], true);
        let (status, refused) = bed.send(Method::POST, &format!("{}/reset", path(database)), json!({})).await;
        assert_eq!((status, &refused["code"]), (409, &json!("database.no_parent")));
        assert_eq!(bed.send(Method::DELETE, &path(&branch), json!({})).await.0, 204);
    }

    async fn a_backup_is_taken_and_verified(bed: &DatabaseBed, database: &Value) {
        let backups = format!("{}/backups", path(database));
        let (status, taken) = bed.send(Method::POST, &backups, json!({})).await;
        assert_eq!(status, 201, "{taken}");
        assert_eq!(bed.get(&backups).await.1["items"][0]["name"], taken["name"]);
        let (status, drill) = bed.send(Method::POST, &format!("{}/verify-backup", path(database)), json!({})).await;
        assert_eq!((status, &drill["status"], &drill["backup"]), (202, &json!("running"), &taken["name"]), "{drill}");
        let drill = wait_for("the drill ends", PATIENCE, async || {
            let (_, shown) = bed.get(&backups).await;
            (shown["drill"]["status"] != "running").then(|| shown["drill"].clone())
        })
        .await;
        assert_eq!(drill["status"], "passed", "{drill}");
        assert!(drill["relations_checked"].as_u64().unwrap() > 50, "{drill}");
    }

    async fn a_restart_keeps_data_and_credentials(bed: &DatabaseBed, database: &Value) {
        let (status, restarted) = bed.send(Method::POST, &format!("{}/restart", path(database)), json!({})).await;
        assert_eq!((status, &restarted["status"]), (202, &json!("provisioning")), "{restarted}");
        let restarted = bed.running(text(database, "id")).await;
        assert_eq!(restarted["connection_url"], database["connection_url"]);
        assert_eq!(bed.answer(database, "SELECT count(*) FROM t"), "100");
    }

    /// The source is deleted as soon as the clone has begun. Its backups go when that is done.
    async fn a_clone_outlives_its_source(bed: &DatabaseBed, database: &Value) {
        bed.answer(database, "INSERT INTO t SELECT generate_series(101, 200)");
        let (status, clone) = bed.send(Method::POST, &format!("{}/clone", path(database)), json!({})).await;
        assert_eq!(status, 202, "{clone}");
        assert_eq!(bed.send(Method::DELETE, &path(database), json!({})).await.0, 204);
        let clone = bed.running(text(&clone, "id")).await;
        assert_eq!(bed.answer(&clone, "SELECT count(*) FROM t"), "200");
        let archive = bed.data_dir.join("database-archive/db").join(text(database, "id"));
        wait_for("the backups are gone", PATIENCE, async || (!archive.exists()).then_some(())).await;
    }

    /// A row is written every second; a clone as of a second has exactly the rows until then.
    async fn a_second_can_be_chosen(bed: &DatabaseBed, database: &Value) {
        bed.answer(database, "CREATE TABLE seconds (at timestamptz DEFAULT clock_timestamp())");
        for _ in 0..20 {
            bed.answer(database, "INSERT INTO seconds DEFAULT VALUES");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let middle = "SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM seconds ORDER BY at
            OFFSET 10 LIMIT 1";
        let target = bed.answer(database, middle);
        let before = bed.answer(database, &format!("SELECT count(*) FROM seconds WHERE at <= '{target}'"));
        // Times are refused until two minutes later.
        let clone = wait_for("the time is in the window", Duration::from_secs(300), async || {
            let body = json!({"target_time": target});
            let (status, clone) = bed.send(Method::POST, &format!("{}/clone", path(database)), body).await;
            (status == 202).then_some(clone)
        })
        .await;
        let clone = bed.running(text(&clone, "id")).await;
        assert_eq!(bed.answer(&clone, "SELECT count(*) FROM seconds"), before);
    }
}
