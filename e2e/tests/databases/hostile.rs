//! Clients that do a database harm: wrong ones, half-open ones, too many of them, large and slow
//! ones. Each gets a clear error or is cut off, and nothing of it stays.

use std::time::{Duration, Instant};

use pandastack_model::SandboxId;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    DatabaseBed,
    wire::{ServerNaming, TLS_REQUEST, WireDoor, refusal, startup, wrong_proof},
};

/// Time limit for a client that does not finish its handshake. It is cut off after ten seconds, or
/// a little later by a busy computer.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(60);

/// What a client that logs in says first.
const LOGIN: &[(&str, &str)] = &[("user", "pandastack"), ("database", "pandastack")];

/// Clients that stopped before their startup message was complete.
struct HalfOpenClients {
    began: Instant,
    clients: Vec<(&'static str, Box<dyn AsyncRead + Unpin>)>,
}

impl HalfOpenClients {
    async fn start(door: &WireDoor, host: &str) -> Self {
        let began = Instant::now();
        let mut clients: Vec<(&'static str, Box<dyn AsyncRead + Unpin>)> = Vec::new();
        // The begin of a ClientHello: a record of 512 bytes, of which few come.
        let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
        for (what, bytes) in [
            ("silence", vec![]),
            ("half a request for TLS", TLS_REQUEST[..5].to_vec()),
            ("no handshake", TLS_REQUEST.to_vec()),
            ("half a handshake", [&TLS_REQUEST[..], &hello].concat()),
            ("half a direct handshake", hello.to_vec()),
        ] {
            let mut tcp = door.tcp().await;
            tcp.write_all(&bytes).await.unwrap();
            clients.push((what, Box::new(tcp)));
        }
        let startup = startup(LOGIN);
        for (what, bytes) in [("no startup message", &[][..]), ("half a startup message", &startup[..20])] {
            let mut tls = door.tls(host, ServerNaming::Sent).await.unwrap();
            tls.write_all(bytes).await.unwrap();
            clients.push((what, Box::new(tls)));
        }
        Self { began, clients }
    }

    /// Waits until all are closed. The answer to the request for TLS may come before.
    async fn are_cut_off(self) {
        for (what, mut client) in self.clients {
            let mut said = Vec::new();
            let end = tokio::time::timeout(HANDSHAKE_PATIENCE, client.read_to_end(&mut said)).await;
            assert!(end.is_ok() && said.len() <= 1, "{what}: {said:?}, open after {:?}", self.began.elapsed());
        }
    }
}

/// Others get in while half-open clients wait for nothing.
pub async fn clients_that_are_wrong_are_told(bed: &DatabaseBed, database: &Value) {
    let (door, host) = (WireDoor::of(bed, database), database["host"].as_str().unwrap());
    let half_open = HalfOpenClients::start(&door, host).await;
    assert_eq!(bed.answer(database, "SELECT 1"), "1");
    // Through the pooler, which has a code of its own, and past it.
    for (more, state) in [(None, "08P01"), (Some(("options", "-cpandastack.session=on")), "28P01")] {
        let parameters: Vec<_> = LOGIN.iter().copied().chain(more).collect();
        let client = door.started(host, ServerNaming::Sent, &parameters).await;
        let (found, text) = wrong_proof(client).await;
        assert!(found == state && text.contains("authentication failed"), "{more:?}: {found} {text}");
    }
    let (unknown, nothing) = (format!("{}.db.localhost", SandboxId::random()), "nothing.db.localhost");
    let other = format!("database={}", SandboxId::random());
    for (host, naming, options, state, part) in [
        (unknown.as_str(), ServerNaming::Sent, "", "3D000", "does not exist"),
        (nothing, ServerNaming::Sent, "", "08004", "no database was named; connect to the host"),
        (host, ServerNaming::Hidden, "", "08004", "no database was named; connect to the host"),
        (host, ServerNaming::Hidden, &other, "3D000", "does not exist"),
        (host, ServerNaming::Hidden, "database=orders", "3D000", "is no database id"),
        (host, ServerNaming::Sent, &other, "08004", "two different databases"),
    ] {
        let parameters: Vec<_> = LOGIN.iter().copied().chain([("options", options)]).collect();
        let mut client = door.started(host, naming, &parameters).await;
        let (found, text) = refusal(&mut client).await;
        assert!(found == state && text.contains(part), "{host} {options}: {found} {text}");
    }
    half_open.are_cut_off().await;
    assert_eq!(bed.answer(database, "SELECT 1"), "1");
}

/// What takes minutes without KVM.
mod deep {
    use std::{
        fs,
        io::{Read as _, Write as _},
        process::{Child, Command, Stdio},
    };

    use futures_util::{StreamExt as _, future::join_all, stream};
    use pandastack_kit::Secret;
    use pandastack_postgres_broker::{DirectSession, Login};
    use pandastack_testbed::{TestServer, wait_for};
    use reqwest::Method;
    use serde_json::json;

    use super::*;
    use crate::tls::peer::Authority;

    /// Tunnels that one database may have, and clients beyond that.
    const CLIENTS_MAX: usize = 500;
    const CLIENTS_BEYOND: usize = 20;
    /// Clients that log in at the same time: an emulated machine checks ten passwords a second.
    const LOGINS_AT_ONCE: usize = 10;
    /// Time limit for a client that does not prove its password. It is cut off after a minute.
    const LOGIN_PATIENCE: Duration = Duration::from_secs(180);
    /// Time limit for what ends after its client.
    const PATIENCE: Duration = Duration::from_secs(60);
    /// Bytes of a row, with its end.
    const ROW_BYTES: usize = 1000;
    /// Rows of the copy that measures.
    const SMALL_ROWS: usize = 16_000;
    /// Rows of the large copy: 1 GB, or what an emulated machine takes in this time.
    const LARGE_ROWS: usize = 1_000_000;
    const LARGE_COPY_MAX: Duration = Duration::from_secs(240);
    /// Rows that a slow reader asks for: more than the kernel's buffers between it and the database
    /// can hold.
    const READ_ROWS: usize = 64_000;
    const READ_PAUSE: Duration = Duration::from_secs(20);
    /// Memory that a server may take more for all this. A tunnel has two buffers of 128 KiB.
    const MEMORY_KIB_MAX: u64 = 96 * 1024;

    #[tokio::test(flavor = "multi_thread")]
    async fn clients_do_a_database_no_harm() {
        let bed = DatabaseBed::start();
        let (_, made) = bed.send(Method::POST, "/v1/databases", json!({})).await;
        let database = bed.running(made["id"].as_str().unwrap()).await;
        bed.answer(&database, "CREATE TABLE big (line text)");

        logins_that_stop_are_cut_off(&bed, &database).await;
        five_hundred_clients_are_served(&bed, &database).await;
        a_large_copy_goes_in(&bed, &database);
        readers_may_be_slow(&bed, &database).await;
        certificates_are_checked_and_replaced(bed, &database).await;
    }

    /// They hold a tunnel meanwhile, so this has an end too.
    async fn logins_that_stop_are_cut_off(bed: &DatabaseBed, database: &Value) {
        let (door, host) = (WireDoor::of(bed, database), database["host"].as_str().unwrap());
        let began = Instant::now();
        let mut clients = Vec::new();
        for more in [None, Some(("options", "-cpandastack.session=on"))] {
            let parameters: Vec<_> = LOGIN.iter().copied().chain(more).collect();
            clients.push((more, door.started(host, ServerNaming::Sent, &parameters).await));
        }
        assert_eq!(bed.answer(database, "SELECT 1"), "1");
        for (more, mut client) in clients {
            let ended = tokio::time::timeout(LOGIN_PATIENCE, client.read_to_end(&mut Vec::new())).await;
            assert!(ended.is_ok(), "{more:?}: open after {:?}", began.elapsed());
        }
        eprintln!("a login that stops is cut off after {:?}", began.elapsed());
    }

    async fn five_hundred_clients_are_served(bed: &DatabaseBed, database: &Value) {
        let (door, host) = (WireDoor::of(bed, database), database["host"].as_str().unwrap());
        let (before, memory) = (descriptors(bed), memory_kib(bed));
        let password = Secret::new(database["password"].as_str().unwrap().to_owned());
        let login = Login { user: "pandastack".into(), password, database: "pandastack".into() };
        let began = Instant::now();
        let opened = stream::iter(0..CLIENTS_MAX).map(async |at| {
            let client = door.tls(host, ServerNaming::Sent).await.unwrap();
            let session = DirectSession::open(Box::new(client), &login).await;
            session.unwrap_or_else(|error| panic!("client {at}: {error}"))
        });
        let mut sessions: Vec<_> = opened.buffer_unordered(LOGINS_AT_ONCE).collect().await;
        eprintln!("{CLIENTS_MAX} clients logged in after {:?}", began.elapsed());
        let beyond = (0..CLIENTS_BEYOND).map(async |_| {
            let mut client = door.started(host, ServerNaming::Sent, LOGIN).await;
            refusal(&mut client).await
        });
        for (state, text) in join_all(beyond).await {
            assert!(state == "53300" && text.contains("too many connections to this database"), "{state} {text}");
        }
        let began = Instant::now();
        for done in join_all(sessions.iter_mut().map(|session| session.run("SELECT 1"))).await {
            done.unwrap();
        }
        eprintln!("{CLIENTS_MAX} clients asked at once, and were answered after {:?}", began.elapsed());
        let most = descriptors(bed);
        assert!(most >= before + CLIENTS_MAX, "{before} descriptors, then {most}");
        join_all(sessions.into_iter().map(DirectSession::close)).await;
        let freed = async || (descriptors(bed) <= before + 8).then_some(());
        wait_for("the descriptors are free", PATIENCE, freed).await;
        let again = async || bed.psql(database, "", "SELECT 1").status.success().then_some(());
        wait_for("a place is free", PATIENCE, again).await;
        eprintln!("descriptors: {before}, {most}, {}; memory: {} KiB more", descriptors(bed), grown(bed, memory));
        assert!(grown(bed, memory) < MEMORY_KIB_MAX);
    }

    fn a_large_copy_goes_in(bed: &DatabaseBed, database: &Value) {
        let memory = memory_kib(bed);
        let copy = |rows: usize| {
            let began = Instant::now();
            let mut psql = bed.psql_command(database, "", "COPY big FROM STDIN");
            let mut psql = psql.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let mut input = std::io::BufWriter::new(psql.stdin.take().unwrap());
            for row in 0..rows {
                writeln!(input, "{row:0>width$}", width = ROW_BYTES - 1).unwrap();
            }
            drop(input);
            let output = psql.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            began.elapsed()
        };
        let rate = SMALL_ROWS as f64 / copy(SMALL_ROWS).as_secs_f64();
        let rows = LARGE_ROWS.min((rate * LARGE_COPY_MAX.as_secs_f64()) as usize);
        let took = copy(rows);
        eprintln!("a copy of {} MB took {took:?}; {rate:.0} rows of 1000 bytes a second at first", rows / 1000);
        let count = format!("SELECT count(*) = {} AND sum(line::bigint) IS NOT NULL FROM big", rows + SMALL_ROWS);
        assert_eq!(bed.answer(database, &count), "t");
        eprintln!("the server took {} KiB of memory more", grown(bed, memory));
        assert!(grown(bed, memory) < MEMORY_KIB_MAX);
        bed.answer(database, "TRUNCATE big");
    }

    async fn readers_may_be_slow(bed: &DatabaseBed, database: &Value) {
        let memory = memory_kib(bed);
        let mut reader = SlowReader::start(bed, database);
        let mut got = reader.read(ROW_BYTES * 100);
        std::thread::sleep(READ_PAUSE / 2);
        // Others do not wait for it, which goes on only afterwards.
        assert_eq!(bed.answer(database, "SELECT 1"), "1");
        assert_eq!(copies(bed, database), "1", "the database waits for the reader");
        std::thread::sleep(READ_PAUSE / 2);
        assert!(grown(bed, memory) < MEMORY_KIB_MAX, "{}", grown(bed, memory));
        got += reader.read_to_end();
        assert_eq!(got, READ_ROWS * ROW_BYTES);

        // One that reads no more holds its tunnel until it goes away.
        let before = descriptors(bed);
        let mut reader = SlowReader::start(bed, database);
        reader.read(ROW_BYTES * 100);
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(copies(bed, database), "1");
        reader.0.kill().unwrap();
        reader.0.wait().unwrap();
        let over = async || (copies(bed, database) == "0").then_some(());
        wait_for("the database is told", PATIENCE, over).await;
        wait_for("its descriptors are free", PATIENCE, async || (descriptors(bed) <= before).then_some(())).await;
        eprintln!("slow readers: {} KiB of memory more", grown(bed, memory));
    }

    /// psql whose output is read now and then.
    struct SlowReader(Child);

    impl SlowReader {
        fn start(bed: &DatabaseBed, database: &Value) -> Self {
            let last = ROW_BYTES - 1;
            let sql = format!("COPY (SELECT repeat('x', {last}) FROM generate_series(1, {READ_ROWS})) TO STDOUT");
            let mut psql = bed.psql_command(database, "application_name=slow", &sql);
            Self(psql.stdout(Stdio::piped()).spawn().unwrap())
        }

        fn read(&mut self, bytes: usize) -> usize {
            let mut rows = vec![0; bytes];
            self.0.stdout.as_mut().unwrap().read_exact(&mut rows).unwrap();
            bytes
        }

        fn read_to_end(mut self) -> usize {
            let mut rest = Vec::new();
            self.0.stdout.as_mut().unwrap().read_to_end(&mut rest).unwrap();
            assert!(self.0.wait().unwrap().success());
            rest.len()
        }
    }

    /// How many copies the database still has to send.
    fn copies(bed: &DatabaseBed, database: &Value) -> String {
        bed.answer(database, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY (%' AND state = 'active'")
    }

    /// The server starts with files whose certificate has expired. Each replacement is used without
    /// a restart, and psql refuses those that it must.
    async fn certificates_are_checked_and_replaced(bed: DatabaseBed, database: &Value) {
        let (folder, authority, other) = (tempfile::tempdir().unwrap(), Authority::new(), Authority::new());
        let [chain, key, ca] = ["db.crt", "db.key", "ca.pem"].map(|name| folder.path().join(name));
        fs::write(&ca, authority.pem()).unwrap();
        let put = |pair: (String, String)| {
            fs::write(&key, pair.1).unwrap();
            fs::write(&chain, pair.0).unwrap();
        };
        put(authority.issue_until("*.db.localhost", 2001));
        let DatabaseBed { server, http, data_dir, _folder, .. } = bed;
        // It removes its log, whose name the next one has.
        drop(server);
        let [chain, key] = [&chain, &key].map(|path| path.to_str().unwrap());
        let flags = ["--standby", "0", "--tls-cert", chain, "--tls-key", key];
        let server = TestServer::start(&data_dir, &flags).unwrap();
        assert!(server.said().contains("expired on"), "{}", server.said());
        let port = port_of(&server);
        let bed = DatabaseBed { server, http, authority: ca, data_dir, _folder };
        let mut database = database.clone();
        database["port"] = json!(port);

        let refused = async |reason: &str| {
            let told = async || verify_error(&bed, &database).contains(reason).then_some(());
            wait_for(reason, PATIENCE, told).await;
            let output = bed.psql(&database, "", "SELECT 1");
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && complaint.contains("certificate"), "{reason}: {complaint}");
        };
        refused("certificate has expired").await;
        put(other.issue("*.db.localhost"));
        refused("unable to get local issuer certificate").await;
        put(authority.issue("*.else.test"));
        refused("hostname mismatch").await;
        put(authority.issue("*.db.localhost"));
        let works = async || bed.psql(&database, "", "SELECT 1").status.success().then_some(());
        wait_for("the right certificate", PATIENCE, works).await;
        // An expired one is not taken at all.
        put(authority.issue_until("*.db.localhost", 2001));
        let kept = async || bed.server.said().contains("the old one is still served").then_some(());
        wait_for("the error", PATIENCE, kept).await;
        assert_eq!(bed.answer(&database, "SELECT 1"), "1");
    }

    /// What openssl finds wrong with the certificate. Older versions of libpq do not say.
    fn verify_error(bed: &DatabaseBed, database: &Value) -> String {
        let host = database["host"].as_str().unwrap();
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-starttls", "postgres", "-connect", &format!("127.0.0.1:{}", database["port"])]);
        openssl.args(["-servername", host, "-verify_hostname", host, "-verify_return_error", "-CAfile"]);
        let output = openssl.arg(&bed.authority).stdin(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Where a server listens for PostgreSQL clients.
    fn port_of(server: &TestServer) -> u16 {
        let said = server.said();
        let (_, rest) = said.split_once("ID.db.localhost:").unwrap();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    }

    fn descriptors(bed: &DatabaseBed) -> usize {
        fs::read_dir(format!("/proc/{}/fd", bed.server.pid())).unwrap().count()
    }

    /// The most memory that the server has had.
    fn memory_kib(bed: &DatabaseBed) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", bed.server.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    fn grown(bed: &DatabaseBed, before: u64) -> u64 {
        // The kernel counts in steps, so the peak may seem to fall a little.
        memory_kib(bed).saturating_sub(before)
    }
}
