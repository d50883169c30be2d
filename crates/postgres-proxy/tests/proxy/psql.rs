//! With psql and a real server: login by SCRAM, queries, copies, both ways of cancelling.

use std::{
    process::{Output, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_postgres_proxy::{BackendPort, OpenPurpose, QueryState, RefusalReason};
use tokio::process::Command;

use crate::{
    server::{PASSWORD, PasswordServer},
    setup::{Behind, ID, OTHER_ID, PATIENCE, ProxySetup, host, wait_for},
};

fn psql(setup: &ProxySetup, host: &str, options: &str, query: &str) -> Command {
    let root = setup.folder.path().join("ca.pem");
    let target = format!(
        "host={host} hostaddr=127.0.0.1 port={} user=postgres dbname=postgres sslmode=verify-full sslrootcert={} \
         {options}",
        setup.address.port(),
        root.display()
    );
    let mut psql = Command::new("psql");
    psql.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &target, "-c", query]);
    psql.env("PGPASSWORD", PASSWORD).stdin(Stdio::null()).kill_on_drop(true);
    psql
}

async fn run(mut psql: Command) -> Output {
    tokio::time::timeout(Duration::from_secs(60), psql.output()).await.expect("psql ends").unwrap()
}

async fn answer(psql: Command) -> String {
    let output = run(psql).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn error(psql: Command) -> String {
    let output = run(psql).await;
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn psql_works_through_the_proxy() {
    let server = PasswordServer::start();
    let setup =
        ProxySetup::start(&[(ID, Behind::At(server.address)), (OTHER_ID, Behind::Failed("restore it first"))]).await;
    assert_eq!(answer(psql(&setup, &host(ID), "", "select 41 + 1")).await, "42");
    let states = setup.journal.states.lock().unwrap().clone();
    assert_eq!(states[..3], [QueryState::Idle, QueryState::Running, QueryState::Idle]);
    let upper = host(&ID.to_uppercase());
    assert_eq!(answer(psql(&setup, &upper, "gssencmode=prefer", "select 1")).await, "1");
    let long = "select sum(length(x)) from (select repeat('x', 1000) x from generate_series(1, 30000)) y";
    assert_eq!(answer(psql(&setup, &host(ID), "", long)).await, "30000000");
    let rows = "copy (select repeat('x', 999) from generate_series(1, 20000)) to stdout";
    assert_eq!(answer(psql(&setup, &host(ID), "", rows)).await.len(), 20_000 * 1000 - 1);
    let options = "options='-c pandastack.session=on -c work_mem=5MB'";
    assert_eq!(answer(psql(&setup, &host(ID), options, "show work_mem")).await, "5MB");
    assert_eq!(setup.journal.asked.lock().unwrap().last().unwrap().port, BackendPort::Session);
    // The host name is no database's, so the options name it.
    let named = format!("options='database={ID}'");
    assert_eq!(answer(psql(&setup, "localhost", &named, "show application_name")).await, "psql");

    let refused = |host: String, options: &'static str| error(psql(&setup, &host, options, "select 1"));
    assert!(refused("localhost".into(), "").await.contains("no database was named"));
    assert!(refused(host(OTHER_ID), "").await.contains("FATAL:  restore it first"));
    assert!(refused(host(&ID.replace('0', "7")), "").await.contains("does not exist"));
    assert!(refused(host(ID), "options='session=maybe'").await.contains("must be on or off"));
    assert!(refused(host(ID), "channel_binding=require").await.contains("channel binding"));
    assert!(refused(host(ID), "password=wrong").await.contains("password authentication failed"));
    let plain = error(psql(&setup, &host(ID), "sslmode=disable", "select 1")).await;
    assert!(plain.contains("sslmode=require"), "{plain}");
    setup.settled().await;
    let counts = setup.figures.counts();
    assert_eq!(counts.catalog_lookup_errors, 1);
    let refused: Vec<(&str, u64)> =
        RefusalReason::ALL.map(RefusalReason::as_str).into_iter().zip(counts.refused).filter(|(_, n)| *n > 0).collect();
    assert_eq!(refused, [("plain", 1), ("no_name", 2), ("unknown", 1), ("failed", 1)]);
    assert_eq!(counts.errors, 5 + counts.failed_handshakes);
    assert!(counts.bytes[0] > 100 && counts.bytes[1] > 20_000 * 1000, "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_psql_cancels_its_own_query() {
    let server = PasswordServer::start();
    let known = [(ID, Behind::At(server.address)), (OTHER_ID, Behind::At(server.address))];
    let setup = ProxySetup::start(&known).await;
    let query = "select pg_sleep(600)";
    let mut other = psql(&setup, &host(OTHER_ID), "", query).stderr(Stdio::piped()).spawn().unwrap();
    let child = psql(&setup, &host(ID), "", query).stderr(Stdio::piped()).spawn().unwrap();
    let running = || setup.journal.states.lock().unwrap().iter().filter(|state| **state == QueryState::Running).count();
    wait_for("both queries run", || running() == 2).await;
    let sleeping = "select count(*) from pg_stat_activity where query = 'select pg_sleep(600)' and state = 'active'";
    while answer(psql(&setup, &host(ID), "", sleeping)).await != "2" {}
    let pid = Pid::from_raw(child.id().unwrap().cast_signed());
    kill(pid, Signal::SIGINT).unwrap();
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("canceling statement due to user request"), "{said}");
    let asked = setup.journal.asked.lock().unwrap().clone();
    let cancels: Vec<_> = asked.iter().filter(|ask| ask.purpose == OpenPurpose::Cancel).collect();
    assert_eq!(cancels.len(), 1);
    assert_eq!(cancels[0].database.to_string(), ID);
    assert!(other.try_wait().unwrap().is_none(), "the other query still runs");

    // The stop reaches a client in the middle of its query.
    assert_eq!(setup.scope.close(PATIENCE).await, 0);
    let output = tokio::time::timeout(PATIENCE, other.wait_with_output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the proxy is stopping"), "{said}");
}
