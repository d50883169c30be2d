//! Rows that a database has acknowledged are there afterwards: whatever is killed under load, when
//! the power is cut, when the store of its log is away, and when its volume is lost.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use pandastack_testbed::{TestServer, wait_for};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ARGUMENTS, DatabaseBed, backups::PATIENCE, path};

/// Goes past the pooler.
const SESSION: &str = "options=-cpandastack.session=on";
/// Rows that one writer has for one round: more than it can write.
const ROWS: usize = 20_000;

/// A psql that inserts the rows 1, 2, 3… and prints the number of each one that is committed.
struct Writer {
    psql: Child,
    acknowledged: PathBuf,
    _folder: TempDir,
}

impl Writer {
    fn start(bed: &DatabaseBed, database: &Value, options: &str, round: usize, number: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (script, acknowledged) = (folder.path().join("script"), folder.path().join("acknowledged"));
        let insert = |n| format!("INSERT INTO acked VALUES ({round}, {number}, {n}) RETURNING n;\n");
        std::fs::write(&script, (1..=ROWS).map(insert).collect::<String>()).unwrap();
        let mut psql = bed.psql_command(database, options, "SET synchronous_commit = on");
        psql.arg("-f").arg(&script).stdout(File::create(&acknowledged).unwrap()).stderr(Stdio::null());
        Self { psql: psql.spawn().unwrap(), acknowledged, _folder: folder }
    }

    /// The number of the last committed row. The last line may be half of one.
    fn last(&self) -> usize {
        let printed = std::fs::read_to_string(&self.acknowledged).unwrap();
        let whole = printed.rfind('\n').map_or("", |end| &printed[..end]);
        whole.lines().last().map_or(0, |line| line.parse().unwrap())
    }

    async fn writes(&self) {
        wait_for("a row is committed", PATIENCE, async || (self.last() > 0).then_some(())).await;
    }

    /// Ends the client and returns the number of its last committed row.
    fn end(mut self) -> usize {
        let _ = self.psql.kill();
        self.psql.wait().unwrap();
        self.last()
    }
}

/// Transactions on four tables whose sums must stay equal.
struct Transfers(Child);

impl Transfers {
    fn prepare(bed: &DatabaseBed, database: &Value) {
        let mut init = pgbench(bed, database);
        assert!(init.args(["-i", "-q", "-I", "dtgp"]).status().unwrap().success());
    }

    fn start(bed: &DatabaseBed, database: &Value) -> Self {
        let mut run = pgbench(bed, database);
        Self(run.args(["-n", "-c", "2", "-T", "600"]).spawn().unwrap())
    }

    fn sums_are_equal(bed: &DatabaseBed, database: &Value) {
        let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = coalesce(sum(delta), 0)
            AND (SELECT sum(bbalance) FROM pgbench_branches) = coalesce(sum(delta), 0)
            AND (SELECT sum(tbalance) FROM pgbench_tellers) = coalesce(sum(delta), 0) FROM pgbench_history";
        assert_eq!(bed.answer(database, sums), "t", "half of a transaction is there");
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pgbench(bed: &DatabaseBed, database: &Value) -> Command {
    let url = database["connection_url"].as_str().unwrap();
    let mut pgbench = Command::new("pgbench");
    pgbench.arg(format!("{url}?sslmode=verify-full&hostaddr=127.0.0.1&sslrootcert={}", bed.authority.display()));
    pgbench.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    pgbench
}

impl DatabaseBed {
    async fn made(&self) -> Value {
        let (status, made) = self.send(Method::POST, "/v1/databases", json!({"always_on": true})).await;
        assert_eq!(status, 202, "{made}");
        let database = self.running(made["id"].as_str().unwrap()).await;
        self.answer(&database, "CREATE TABLE acked (round int, writer int, n int, PRIMARY KEY (round, writer, n))");
        database
    }

    fn restart_server(&mut self) {
        self.server = TestServer::start(&self.data_dir, &ARGUMENTS).unwrap();
    }

    /// Waits until a database runs, and restarts it if it failed. Dead machines are restarted by
    /// themselves, but not more than a few times an hour.
    async fn running_again(&self, id: &str) -> Value {
        let path = format!("/v1/databases/{id}");
        let shown = wait_for("the database runs again", PATIENCE * 2, async || {
            let (_, shown) = self.get(&path).await;
            if shown["status"] == "failed" {
                self.send(Method::POST, &format!("{path}/restart"), json!({})).await;
            }
            (shown["status"] == "running").then_some(shown)
        })
        .await;
        self.answer_again(&shown, "SELECT 1").await;
        shown
    }

    fn rows_are_there(&self, database: &Value, round: usize, writer: usize, last: usize) {
        let count = format!("SELECT count(*) FROM acked WHERE (round, writer) = ({round}, {writer}) AND n <= {last}");
        assert_eq!(self.answer(database, &count), last.to_string(), "round {round}: committed rows are lost");
    }

    async fn event_told(&self, database: &Value, kind: &str) {
        let events = format!("/v1/sandboxes/{}/events", database["id"].as_str().unwrap());
        wait_for(kind, PATIENCE, async || {
            let (_, events) = self.get(&events).await;
            let mut events = events["events"].as_array().unwrap().iter();
            events.any(|event| event["type"] == kind).then_some(())
        })
        .await;
    }
}

mod deep {
    use pandastack_kit::random_bytes;

    use super::{
        super::backups::{kill_machine, text},
        *,
    };
    use crate::disk::Disk;

    /// Rounds of kills. `PANDASTACK_KILL_ROUNDS` takes another number.
    const ROUNDS: usize = 200;
    /// How long the store of the log is away.
    const OUTAGE: Duration = Duration::from_secs(600);
    const CUTS: usize = 3;

    /// What a round kills.
    #[derive(Clone, Copy, Debug)]
    enum Victim {
        /// Together with its proxy and with the relay of the log, which are parts of it.
        Server,
        /// The server, and again while it starts.
        StartingServer,
        Machine,
        /// As if the host had crashed.
        ServerAndMachine,
        Postgres,
        Pooler,
    }

    impl Victim {
        const ALL: [Self; 6] =
            [Self::Server, Self::StartingServer, Self::Machine, Self::ServerAndMachine, Self::Postgres, Self::Pooler];

        /// Kills it, and brings back what does not come back by itself.
        async fn kill(self, bed: &mut DatabaseBed, database: &Value) {
            match self {
                Self::Server => bed.server.kill().unwrap(),
                Self::StartingServer => {
                    bed.server.kill().unwrap();
                    bed.server = TestServer::begin(&bed.data_dir, &ARGUMENTS).unwrap();
                    bed.server.kill_after(short_time()).unwrap();
                }
                Self::Machine => return kill_machine(bed, database).await,
                Self::ServerAndMachine => {
                    let machine = crate::server::machine_of(&bed.data_dir, text(database, "id")).await;
                    bed.server.kill().unwrap();
                    nix::sys::signal::kill(nix::unistd::Pid::from_raw(machine), nix::sys::signal::SIGKILL).unwrap();
                }
                Self::Postgres => {
                    let killed = "kill -9 $(head -n 1 /var/lib/pandastack/pg/data/postmaster.pid)";
                    assert_eq!(bed.exec(database, killed).await["exit_code"], 0);
                    return;
                }
                Self::Pooler => {
                    let killed = "kill -9 $(cat /run/postgresql/pgbouncer.pid)";
                    assert_eq!(bed.exec(database, killed).await["exit_code"], 0);
                    return;
                }
            }
            bed.restart_server();
        }
    }

    fn short_time() -> Duration {
        Duration::from_millis(u64::from(u16::from_le_bytes(random_bytes::<2>())) % 700)
    }

    #[tokio::test]
    async fn no_acknowledged_row_is_lost_whatever_is_killed() {
        let mut bed = DatabaseBed::start();
        let made = bed.made().await;
        let id = text(&made, "id").to_owned();
        Transfers::prepare(&bed, &made);
        let rounds = std::env::var("PANDASTACK_KILL_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
        let mut committed = 0;
        for round in 0..rounds {
            let database = bed.running_again(&id).await;
            let transfers = Transfers::start(&bed, &database);
            let start = |(number, options)| Writer::start(&bed, &database, options, round, number);
            let writers: Vec<_> = ["", SESSION].into_iter().enumerate().map(start).collect();
            for writer in &writers {
                writer.writes().await;
            }
            tokio::time::sleep(short_time()).await;
            let victim = Victim::ALL[usize::from(random_bytes::<1>()[0]) % Victim::ALL.len()];
            victim.kill(&mut bed, &database).await;
            let last: Vec<_> = writers.into_iter().map(Writer::end).collect();
            drop(transfers);
            let database = bed.running_again(&id).await;
            for (writer, last) in last.iter().enumerate() {
                bed.rows_are_there(&database, round, writer, *last);
                committed += last;
            }
            Transfers::sums_are_equal(&bed, &database);
            println!("round {round}: {victim:?}, rows {last:?}");
        }
        println!("{committed} committed rows of {rounds} rounds are there");
        super::super::nothing_stays(&bed, &[&made]).await;
    }

    #[tokio::test]
    async fn committed_rows_survive_a_cut_of_the_power() {
        let disk = Disk::make("12G");
        disk.add_template("postgres-16");
        let mut bed = DatabaseBed::over(disk.data().to_owned(), None);
        let made = bed.made().await;
        for round in 0..CUTS {
            let database = bed.running_again(text(&made, "id")).await;
            let writer = Writer::start(&bed, &database, "", round, 0);
            writer.writes().await;
            tokio::time::sleep(short_time()).await;
            let last = writer.last();
            disk.cut_power(&mut bed.server);
            writer.end();
            bed.restart_server();
            let database = bed.running_again(text(&made, "id")).await;
            bed.rows_are_there(&database, round, 0, last);
        }
        super::super::nothing_stays(&bed, &[&made]).await;
    }

    /// Rows of the time without a store can be restored afterwards.
    #[tokio::test]
    async fn nothing_is_lost_while_the_store_is_away() {
        let bed = DatabaseBed::start();
        let database = bed.made().await;
        bed.answer(&database, "CREATE TABLE seconds (at timestamptz DEFAULT clock_timestamp())");
        let (store, aside) = (bed.data_dir.join("database-archive"), bed.data_dir.join("database-archive-aside"));
        std::fs::rename(&store, &aside).unwrap();
        std::fs::write(&store, "this is no folder").unwrap();
        let started = std::time::Instant::now();
        while started.elapsed() < OUTAGE {
            bed.answer(&database, "INSERT INTO seconds DEFAULT VALUES");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        bed.event_told(&database, "database.archive_failing").await;
        let backups = format!("{}/backups", path(&database));
        let (_, shown) = bed.get(&backups).await;
        assert_eq!(shown["archive"]["health"], "failing", "{shown}");
        assert!(shown["archive"]["pending_segments"].as_u64().unwrap() > 3, "{shown}");
        std::fs::remove_file(&store).unwrap();
        std::fs::rename(&aside, &store).unwrap();
        bed.event_told(&database, "database.archive_recovered").await;
        wait_for("nothing waits", PATIENCE, async || {
            let (_, shown) = bed.get(&backups).await;
            (shown["archive"]["pending_segments"] == 0).then_some(())
        })
        .await;
        let middle = "SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM seconds ORDER BY at
            OFFSET (SELECT count(*) / 2 FROM seconds) LIMIT 1";
        let target = bed.answer(&database, middle);
        let before = bed.answer(&database, &format!("SELECT count(*) FROM seconds WHERE at <= '{target}'"));
        let clone = bed.cloned(&database, json!({"target_time": target})).await;
        assert_eq!(bed.answer(&clone, "SELECT count(*) FROM seconds"), before);
        super::super::nothing_stays(&bed, &[&database, &clone]).await;
    }

    /// The volume is gone, as with the disk of a lost host. The archive has the rows.
    #[tokio::test]
    async fn a_lost_volume_is_rebuilt_from_the_archive() {
        let bed = DatabaseBed::start();
        let database = bed.made().await;
        bed.answer(&database, "INSERT INTO acked SELECT 0, 0, generate_series(1, 1000)");
        let written = bed.answer(&database, "SELECT clock_timestamp() AT TIME ZONE 'UTC'").replace(' ', "T");
        wait_for("the rows are archived", PATIENCE, async || {
            let (_, shown) = bed.get(&format!("{}/backups", path(&database))).await;
            (shown["window"]["latest"].as_str()? > written.as_str()).then_some(())
        })
        .await;
        let volume = volume_of(&bed.data_dir);
        kill_machine(&bed, &database).await;
        std::fs::remove_dir_all(&volume).unwrap();
        // Until then it is started again by itself, which cannot succeed.
        let rebuilding = wait_for("the rebuild begins", PATIENCE, async || {
            let (status, answer) = bed.send(Method::POST, &format!("{}/failover", path(&database)), json!({})).await;
            assert!(status == 200 || status == 409, "{status} {answer}");
            (status == 200).then_some(answer)
        })
        .await;
        assert_eq!((&rebuilding["status"], rebuilding.get("password")), (&json!("provisioning"), None), "{rebuilding}");
        let rebuilt = bed.running(text(&database, "id")).await;
        assert_eq!(rebuilt["host"], database["host"]);
        assert_ne!(rebuilt["password"], database["password"]);
        bed.rows_are_there(&rebuilt, 0, 0, 1000);
        super::super::nothing_stays(&bed, &[&rebuilt]).await;
    }

    /// The folder of the only volume.
    fn volume_of(data: &Path) -> PathBuf {
        let volumes = std::fs::read_dir(data.join("volume/volumes")).unwrap();
        let folders: Vec<_> = volumes.map(|entry| entry.unwrap().path()).collect();
        let [volume] = &folders[..] else { panic!("{folders:?}") };
        volume.clone()
    }

    #[tokio::test]
    async fn a_volume_grows_before_it_is_full() {
        let bed = DatabaseBed::start();
        let database = bed.made().await;
        let free = "df --output=size -m /var/lib/pandastack/pg | tail -n 1";
        let size = async |bed: &DatabaseBed| -> u64 {
            let printed = bed.exec(&database, free).await;
            printed["stdout"].as_str().unwrap().trim().parse().unwrap()
        };
        let before = size(&bed).await;
        let fill = format!("fallocate -l {}M /var/lib/pandastack/pg/filler", before * 85 / 100);
        assert_eq!(bed.exec(&database, &fill).await["exit_code"], 0);
        bed.event_told(&database, "database.grown").await;
        assert!(size(&bed).await >= before * 3 / 2, "it grows by half");
        bed.answer(&database, "INSERT INTO acked VALUES (0, 0, 1)");
        super::super::nothing_stays(&bed, &[&database]).await;
    }
}
