//! The broker on a real PostgreSQL: the server that the tests of one run share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use axum::{body::Body, http::Method, response::Response};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use pandastack_kit::{Scope, Secret};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::{Broker, BrokerTarget, Connect, ConnectRefused, DatabaseStream, Login, limits};

const MACHINE: &str = "machine";
/// Timeout of what should happen by itself, also on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);
const TARGET: BrokerTarget<'_> = BrokerTarget { machine: MACHINE, owner: "owner" };
const GONE: BrokerTarget<'_> = BrokerTarget { machine: "gone", owner: "owner" };

/// Dials the shared server and counts.
struct Dial {
    address: String,
    dialed: AtomicUsize,
}

#[async_trait]
impl Connect for Dial {
    async fn connect(&self, machine: &str) -> Result<Box<dyn DatabaseStream>, ConnectRefused> {
        self.dialed.fetch_add(1, Ordering::SeqCst);
        if machine != MACHINE {
            return Err(ConnectRefused { reason: "the machine is gone".into() });
        }
        let stream = TcpStream::connect(&self.address).await;
        stream.map(|stream| Box::new(stream) as _).map_err(|error| ConnectRefused { reason: error.to_string() })
    }
}

struct BrokerBed {
    broker: Broker,
    dial: Arc<Dial>,
    login: Login,
}

impl BrokerBed {
    fn new() -> Self {
        let shared = std::env::var("PANDASTACK_TEST_POSTGRES").expect("run the test with scripts/test");
        let address = shared.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
        let dial = Arc::new(Dial { address, dialed: AtomicUsize::new(0) });
        let broker = Broker::new(Arc::clone(&dial) as _, Scope::new());
        Self { broker, dial, login: login("postgres", "") }
    }

    async fn send(&self, method: Method, path: &str, body: impl Into<Body>) -> Response {
        self.broker.answer(TARGET, self.login.clone(), &method, path, body.into()).await
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        read(self.send(Method::POST, path, body.to_string()).await).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        read(self.send(Method::GET, path, "").await).await
    }

    async fn query(&self, sql: &str, params: Value) -> Value {
        let (status, body) =
            self.post("/v1/query", json!({ "database": "postgres", "sql": sql, "params": params })).await;
        assert_eq!(status, 200, "{sql}: {body}");
        body
    }

    /// Runs a query with one value.
    async fn one(&self, sql: &str) -> Value {
        self.query(sql, json!([])).await["rows"][0][0].clone()
    }

    async fn exec(&self, sql: &str) -> (u16, Value) {
        self.post("/v1/exec", json!({ "database": "postgres", "sql": sql })).await
    }

    /// Waits until no statement with the mark runs.
    async fn wait_until_quiet(&self, mark: &str) {
        let begun = Instant::now();
        let sql = "SELECT count(*)::int4 FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()
                   AND query LIKE '%' || $1 || '%'";
        while self.query(sql, json!([mark])).await["rows"][0][0] != json!(0) {
            assert!(begun.elapsed() < PATIENCE, "{mark} still runs");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn login(user: &str, password: &str) -> Login {
    Login { user: user.into(), password: Secret::new(password.into()), database: "postgres".into() }
}

async fn read(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() })
}

/// A name that no other test has.
fn unique(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst))
}

#[tokio::test]
async fn health_and_info() {
    let bed = BrokerBed::new();
    let (status, health) = bed.get("/v1/health").await;
    assert_eq!((status, &health["status"], &health["postgres"]), (200, &json!("ok"), &json!("ok")));
    assert!(health["ts"].as_str().unwrap().ends_with('Z'));
    let gone = bed.broker.answer(GONE, login("postgres", ""), &Method::GET, "v1/health", Body::empty()).await;
    let (status, health) = read(gone).await;
    assert_eq!((status, &health["postgres"]), (503, &json!("unavailable")));
    let (status, info) = bed.get("v1/info").await;
    assert_eq!((status, &info["broker_version"]), (200, &json!("1.0.0")));
    assert!(info["extensions"].as_array().unwrap().contains(&json!("plpgsql")), "{info}");
    let gone = bed.broker.answer(GONE, login("postgres", ""), &Method::GET, "v1/info", Body::empty()).await;
    assert_eq!(read(gone).await, (503, json!({ "error": "database unavailable: the machine is gone" })));
}

#[tokio::test]
async fn requests_outside_the_contract_are_refused() {
    let bed = BrokerBed::new();
    let db = "postgres";
    let long = "x".repeat(64);
    let cases = [
        ("/v1/query", json!({ "sql": "SELECT 1" }), "database required"),
        ("/v1/query", json!({ "database": db }), "sql required"),
        ("/v1/exec", json!({ "database": db, "sql": " " }), "sql required"),
        ("/v1/exec", json!({ "database": db, "sql": "-".repeat((1 << 20) + 1) }), "sql too large (max 1048576 bytes)"),
        ("/v1/query", json!({ "database": db, "sql": "x", "params": vec![1; 1001] }), "too many params (max 1000)"),
        ("/v1/transaction", json!({ "database": db }), "statements required"),
        (
            "/v1/transaction",
            json!({ "database": db, "statements": vec![json!({}); 101] }),
            "too many statements (max 100)",
        ),
        ("/v1/transaction", json!({ "database": db, "statements": [{ "sql": "" }] }), "sql required"),
        ("/v1/databases", json!({}), "name required"),
    ];
    for (path, body, error) in cases {
        let (status, answer) = bed.post(path, body).await;
        assert_eq!((status, answer["error"].as_str().unwrap()), (400, error), "{path}");
    }
    for name in [long.as_str(), "a b", "a\"; DROP TABLE x; --", "ä", "a/b"] {
        let (status, answer) = bed.post("/v1/query", json!({ "database": name, "sql": "SELECT 1" })).await;
        assert_eq!(status, 400, "{answer}");
        let (status, answer) = bed.post("/v1/databases", json!({ "name": name })).await;
        assert!(status == 400 && answer["error"].as_str().unwrap().starts_with("invalid database name"), "{answer}");
    }
    for body in ["", "{", "[]", "{\"database\":1}", "\u{0}"] {
        let (status, answer) = read(bed.send(Method::POST, "/v1/query", body).await).await;
        assert_eq!((status, answer["error"].as_str().unwrap()), (400, "invalid json"));
    }
    let (status, _) = read(bed.send(Method::POST, "/v1/query", vec![b' '; 17 << 20]).await).await;
    assert_eq!(status, 413);
    for (method, path, wanted) in [
        (Method::GET, "/v1/query", 405),
        (Method::PUT, "/v1/databases", 405),
        (Method::GET, "/v1/databases/x", 405),
        (Method::GET, "/", 404),
        (Method::POST, "/v2/query", 404),
        (Method::DELETE, "/v1/databases/", 404),
        (Method::DELETE, "/v1/databases/postgres", 403),
        (Method::DELETE, "/v1/databases/template%30", 403),
        (Method::DELETE, "/v1/databases/template1", 403),
    ] {
        let (status, answer) = read(bed.send(method, path, "").await).await;
        assert!(status == wanted && answer["error"].is_string(), "{path}: {status} {answer}");
    }
    assert_eq!(bed.dial.dialed.load(Ordering::SeqCst), 0, "nothing of this reaches the database");
}

#[tokio::test]
async fn sql_errors_say_what_the_server_said() {
    let bed = BrokerBed::new();
    let check = async |sql: &str, params: Value, wanted: u16, code: &str| {
        let body = json!({ "database": "postgres", "sql": sql, "params": params });
        let (status, answer) = bed.post("/v1/query", body).await;
        assert_eq!((status, answer["code"].as_str()), (wanted, Some(code)), "{sql}: {answer}");
        answer
    };
    check("SELEC 1", json!([]), 400, "42601").await;
    check("SELECT 1; SELECT 2", json!([]), 400, "42601").await;
    check("SELECT 1/0", json!([]), 400, "22012").await;
    check("SELECT $1::int4", json!(["x"]), 400, "22P02").await;
    check("SELECT $1::int4", json!([]), 400, "08P01").await;
    check("SELECT $1::int4[]", json!([[[[[[[[1]]]]]]]]), 400, "54000").await;
    check("SELECT '\u{0}'", json!([]), 400, "22021").await;
    check("SELECT $1", json!(["\u{0}"]), 400, "22021").await;
    check("COPY (SELECT 1) TO STDOUT", json!([]), 400, "0A000").await;
    check("COPY missing_table FROM STDIN", json!([]), 400, "42P01").await;
    let sql = "DO $$ BEGIN RAISE EXCEPTION 'no' USING DETAIL = 'd', HINT = 'h', ERRCODE = 'XX123'; END $$";
    let answer = check(sql, json!([]), 400, "XX123").await;
    assert_eq!((&answer["error"], &answer["detail"], &answer["hint"]), (&json!("no"), &json!("d"), &json!("h")));
    assert!(answer["where"].as_str().unwrap().contains("PL/pgSQL"));
    let (status, answer) = bed.post("/v1/query", json!({ "database": "missing", "sql": "SELECT 1" })).await;
    assert_eq!((status, answer["code"].as_str()), (400, Some("3D000")));
    let (status, answer) = bed.exec("CREATE TEMP TABLE fed (n int); COPY fed FROM STDIN").await;
    assert_eq!((status, answer["code"].as_str()), (400, Some("0A000")));
    assert_eq!(bed.one("SELECT 1").await, json!(1));
}

#[tokio::test]
async fn values_keep_their_meaning() {
    let bed = BrokerBed::new();
    let kind = unique("mood");
    bed.exec(&format!("CREATE TYPE {kind} AS ENUM ('sad', 'ok')")).await;
    let enumerated = format!("'ok'::{kind}");
    let enumerations = format!("ARRAY['ok','sad']::{kind}[]");
    let cases: Vec<(&str, &str, String)> = vec![
        ("1::int2", "INT2", "1".into()),
        ("9223372036854775807", "INT8", "9223372036854775807".into()),
        ("0.1::float8", "FLOAT8", "0.1".into()),
        ("'NaN'::float4", "FLOAT4", "\"NaN\"".into()),
        ("1.10::numeric(40,20)", "NUMERIC", "\"1.10000000000000000000\"".into()),
        ("true", "BOOL", "true".into()),
        ("'a'::char(3)", "BPCHAR", "\"a  \"".into()),
        ("'{\"b\": 1.50}'::json", "JSON", "{\"b\": 1.50}".into()),
        ("'{\"b\":[null]}'::jsonb", "JSONB", "{\"b\": [null]}".into()),
        ("'hi'::bytea", "BYTEA", "\"hi\"".into()),
        ("'\\xff'::bytea", "BYTEA", "\"\\\\xff\"".into()),
        ("'2024-01-02 03:04:05.000006'::timestamp", "TIMESTAMP", "\"2024-01-02T03:04:05.000006Z\"".into()),
        ("'infinity'::timestamptz", "TIMESTAMPTZ", "\"infinity\"".into()),
        ("'2024-01-02'::date", "DATE", "\"2024-01-02\"".into()),
        ("'1 day 2 hours'::interval", "INTERVAL", "\"1 day 02:00:00\"".into()),
        ("'::1/64'::inet", "INET", "\"::1/64\"".into()),
        ("int4range(1,3)", "INT4RANGE", "\"[1,3)\"".into()),
        ("ROW(1,'a b')", "RECORD", "\"(1,\\\"a b\\\")\"".into()),
        ("ARRAY[[1,NULL],[3,4]]", "_INT4", "[[1,null],[3,4]]".into()),
        ("ARRAY['a,b','\"',NULL]", "_TEXT", "[\"a,b\",\"\\\"\",null]".into()),
        ("ARRAY['(1,1),(0,0)'::box]", "_BOX", "[\"(1,1),(0,0)\"]".into()),
        ("ARRAY['{\"a\":1}'::jsonb]", "_JSONB", "[{\"a\": 1}]".into()),
        (&enumerated, "", "\"ok\"".into()),
        (&enumerations, "", "[\"ok\",\"sad\"]".into()),
    ];
    for (sql, name, wanted) in cases {
        let body = json!({ "database": "postgres", "sql": format!("SELECT {sql} AS v") }).to_string();
        let response = bed.send(Method::POST, "/v1/query", body).await;
        let text = String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let name = match name {
            "" if sql.starts_with("ARRAY") => format!("_{}", kind.to_uppercase()),
            "" => kind.to_uppercase(),
            known => known.to_owned(),
        };
        let start =
            format!("{{\"columns\":[{{\"name\":\"v\",\"type\":\"{name}\"}}],\"rows\":[[{wanted}]],\"count\":1,");
        assert!(text.starts_with(&start), "{sql}: {text}\n{start}");
    }
    bed.exec(&format!("DROP TYPE {kind}")).await;
}

#[tokio::test]
async fn parameters_arrive_as_they_were() {
    let bed = BrokerBed::new();
    let raw = r#"{"database":"postgres","sql":"SELECT $1::numeric, $2::int8, $3::text, $4::bool, $5::int4[], $6::jsonb,
        $7::text[], $8::jsonb[], $9::json, $10::bytea, $11::text","params":[12345678901234567890.123456789012345678901,
        9223372036854775807,"ä'\"\\",false,[[1,null],[2,3]],{"a":[1.50]},["x",null,"{,}"],[{"a":1},[2]],"[1, 2]","\\xff00",null]}"#;
    let (status, answer) = read(bed.send(Method::POST, "/v1/query", raw.replace('\n', " ")).await).await;
    assert_eq!(status, 200, "{answer}");
    let wanted = json!([
        "12345678901234567890.123456789012345678901", 9_223_372_036_854_775_807_i64, "ä'\"\\", false,
        [[1, null], [2, 3]], { "a": [1.50] }, ["x", null, "{,}"], [{ "a": 1 }, [2]], [1, 2], "\\xff00", null
    ]);
    assert_eq!(answer["rows"], json!([wanted]));
}

#[test]
fn any_text_and_number_come_back() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bed = runtime.block_on(async { BrokerBed::new() });
    let texts = prop::collection::vec(any::<String>().prop_map(|text| text.replace('\0', "")), 0..4);
    proptest!(ProptestConfig::with_cases(64), |(text in texts, number in any::<i64>(), float in -1e300..1e300_f64)| {
        let sql = "SELECT $1::text[], $2::int8, $3::float8, $4::jsonb";
        let params = json!([text, number, float, { "k": text }]);
        let answer = runtime.block_on(bed.query(sql, params.clone()));
        let row = &answer["rows"][0];
        for index in [0, 1, 3] {
            prop_assert_eq!(&row[index], &params[index]);
        }
        // The parser of the test may be wrong in the last digit.
        prop_assert!((row[2].as_f64().unwrap() - float).abs() <= float.abs() * 1e-15);
    });
}

#[tokio::test]
async fn exec_counts_rows_and_takes_several_statements() {
    let bed = BrokerBed::new();
    let table = unique("t");
    let sql =
        format!("CREATE TABLE {table} (n int); INSERT INTO {table} VALUES (1), (2); INSERT INTO {table} VALUES (3)");
    let (status, answer) = bed.exec(&sql).await;
    assert_eq!((status, &answer["rows_affected"]), (200, &json!(3)), "{answer}");
    let body = json!({ "database": "postgres", "sql": format!("DELETE FROM {table} WHERE n >= $1"), "params": [2] });
    let (status, answer) = bed.post("/v1/exec", body).await;
    assert_eq!((status, &answer["rows_affected"]), (200, &json!(2)));
    assert!(answer["duration_ms"].is_u64());
    // An error undoes all statements of one exec.
    let (status, _) = bed.exec(&format!("INSERT INTO {table} VALUES (9); SELECT 1/0")).await;
    assert_eq!(status, 400);
    assert_eq!(bed.one(&format!("SELECT count(*)::int4 FROM {table}")).await, json!(1));
    let empty = bed.query(&format!("DELETE FROM {table}"), json!([])).await;
    assert_eq!((&empty["columns"], &empty["rows"], &empty["count"]), (&json!([]), &json!([]), &json!(0)));
    bed.exec(&format!("DROP TABLE {table}")).await;
}

#[tokio::test]
async fn a_transaction_is_all_or_nothing() {
    let bed = BrokerBed::new();
    let table = unique("t");
    bed.exec(&format!("CREATE TABLE {table} (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")).await;
    let run = async |statements: Value| {
        bed.post("/v1/transaction", json!({ "database": "postgres", "statements": statements })).await
    };
    let insert = json!({ "sql": format!("INSERT INTO {table} VALUES ($1)"), "params": [1] });
    let (status, answer) = run(json!([insert, { "sql": format!("SELECT n FROM {table}") }])).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["results"][0], json!({ "index": 0, "rows_affected": 1 }));
    let columns = json!([{ "name": "n", "type": "INT4" }]);
    assert_eq!(answer["results"][1], json!({ "index": 1, "columns": columns, "rows": [[1]], "count": 1 }));
    let other = json!({ "sql": format!("INSERT INTO {table} VALUES (2)") });
    let (status, answer) = run(json!([other, { "sql": "SELECT 1/0" }])).await;
    assert_eq!((status, &answer["code"], &answer["statement"]), (400, &json!("22012"), &json!(1)));
    // The deferred check fails at the commit.
    let (status, answer) = run(json!([other, insert])).await;
    assert_eq!((status, &answer["code"]), (400, &json!("23505")), "{answer}");
    let (status, answer) = run(json!([{ "sql": "COMMIT" }, other])).await;
    assert_eq!((status, &answer["code"]), (400, &json!("2D000")), "{answer}");
    assert_eq!(bed.one(&format!("SELECT count(*)::int4 FROM {table}")).await, json!(1));
    bed.exec(&format!("DROP TABLE {table}")).await;
}

#[tokio::test]
async fn databases_are_listed_created_and_dropped() {
    let bed = BrokerBed::new();
    let name = unique("Db-1");
    let (status, answer) = bed.post("/v1/databases", json!({ "name": name })).await;
    assert_eq!((status, answer), (201, json!({ "name": name, "owner": "postgres", "created": true })));
    let (status, answer) = bed.post("/v1/databases", json!({ "name": name })).await;
    assert_eq!((status, &answer["code"]), (400, &json!("42P04")));
    let (status, answer) = bed.post("/v1/databases", json!({ "name": unique("x"), "owner": "a\"b" })).await;
    assert_eq!((status, &answer["code"]), (400, &json!("42704")), "{answer}");
    // A pooled connection does not keep the database.
    let (status, _) = bed.post("/v1/query", json!({ "database": name, "sql": "SELECT 1" })).await;
    assert_eq!(status, 200);
    let (_, answer) = bed.get("/v1/databases").await;
    let listed = answer["databases"].as_array().unwrap().iter().find(|one| one["name"] == json!(name)).unwrap();
    assert!(listed["size_bytes"].as_u64().unwrap() > 0 && listed["encoding"] == json!("UTF8"), "{listed}");
    let response = bed.send(Method::DELETE, &format!("/v1/databases/{name}"), "").await;
    assert_eq!(read(response).await, (204, Value::Null));
    let (status, answer) = read(bed.send(Method::DELETE, &format!("/v1/databases/{name}"), "").await).await;
    assert_eq!((status, &answer["code"]), (400, &json!("3D000")));
}

#[tokio::test]
async fn rows_are_cut_and_large_results_stream() {
    let bed = BrokerBed::new();
    let count = async |max_rows: Value| {
        let sql = "SELECT generate_series(1, 20000)";
        let (_, answer) =
            bed.post("/v1/query", json!({ "database": "postgres", "sql": sql, "max_rows": max_rows })).await;
        assert_eq!(answer["rows"].as_array().unwrap().len(), answer["count"].as_u64().unwrap() as usize);
        answer["count"].clone()
    };
    assert_eq!(count(Value::Null).await, json!(10_000));
    assert_eq!(count(json!(7)).await, json!(7));
    assert_eq!(count(json!(0)).await, json!(10_000));
    assert_eq!(count(json!(i64::MAX)).await, json!(10_000));
    let large = bed.query("SELECT repeat('x', 4000) FROM generate_series(1, 5000)", json!([])).await;
    assert_eq!(large["count"], json!(5000));
    // An error after the first rows breaks the body off.
    let failing = "SELECT repeat('x', 1000), 1 / (9000 - n) FROM generate_series(1, 10000) n";
    for sql in [failing, "SELECT repeat('x', 100000) FROM generate_series(1, 1000)"] {
        let body = json!({ "database": "postgres", "sql": sql }).to_string();
        let response = bed.send(Method::POST, "/v1/query", body).await;
        assert!(response.into_body().collect().await.is_err(), "{sql}");
    }
    let body = json!({ "database": "postgres", "sql": "SELECT repeat('x', 70000000)" });
    let (status, answer) = bed.post("/v1/query", body).await;
    assert_eq!((status, &answer["code"]), (400, &json!("54000")), "{answer}");
    assert_eq!(bed.one("SELECT 1").await, json!(1));
}

#[tokio::test]
async fn large_bodies_and_rows_take_turns() {
    let bed = BrokerBed::new();
    let text = "x".repeat(15 << 20);
    let ask = || bed.query("SELECT $1::text", json!([text]));
    for answer in futures_util::future::join_all((0..6).map(|_| ask())).await {
        assert!(answer["rows"][0][0] == json!(text));
    }
    // Many empty values are counted, not kept.
    let body = format!("{{\"database\":\"postgres\",\"sql\":\"SELECT 1\",\"params\":[0{}]}}", ",0".repeat(8_000_000));
    let (status, answer) = read(bed.send(Method::POST, "/v1/query", body).await).await;
    assert_eq!((status, &answer["error"]), (400, &json!("too many params (max 1000)")));
    // Readers that stop after the first bytes hold up the other large rows, and not small ones.
    let slow = json!({ "database": "postgres", "sql": "SELECT repeat('x', 15000000) FROM generate_series(1, 4)" });
    let slow = || bed.send(Method::POST, "/v1/query", slow.to_string());
    let responses = (slow().await, slow().await);
    let mut waits = Box::pin(ask());
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut waits).await.is_err());
    assert_eq!(bed.one("SELECT 1").await, json!(1));
    drop(responses);
    assert!(waits.await["rows"][0][0] == json!(text));
}

#[tokio::test]
async fn a_long_error_is_cut() {
    let bed = BrokerBed::new();
    let long = json!({ "database": "postgres", "sql": "SELECT repeat('x', 15000000)::int" });
    let (status, refused) = bed.post("/v1/query", long).await;
    let error = refused["error"].as_str().unwrap();
    assert_eq!((status, &refused["code"], error.len()), (400, &json!("22P02"), limits::ERROR_FIELD_BYTES_MAX));
    assert!(error.starts_with("invalid input syntax for type integer: \"xxx"), "{}", &error[..80]);
    assert_eq!(bed.one("SELECT 1").await, json!(1));
    // Elements of arrays are read one by one, and what is wrong with one is told.
    let values = json!([["a", null, "b,\"c"]]);
    assert_eq!(bed.query("SELECT ($1::text[])[3]", values).await["rows"], json!([["b,\"c"]]));
}

#[tokio::test]
async fn what_takes_too_long_is_cancelled() {
    let bed = BrokerBed::new();
    let mark = unique("slow");
    let statements = [
        format!("SELECT pg_sleep(300) -- {mark}"),
        // The session may lift its own limit, but not the broker's.
        format!("SELECT set_config('statement_timeout', '0', false), '{mark}' FROM pg_sleep(300)"),
    ];
    for sql in &statements {
        for path in ["/v1/query", "/v1/exec"] {
            let (status, answer) =
                bed.post(path, json!({ "database": "postgres", "sql": sql, "timeout_ms": 100 })).await;
            assert_eq!((status, &answer["code"]), (408, &json!("57014")), "{answer}");
        }
    }
    let lifted = json!([{ "sql": "SET statement_timeout = 0" }, { "sql": statements[0] }]);
    let (status, answer) =
        bed.post("/v1/transaction", json!({ "database": "postgres", "statements": lifted, "timeout_ms": 100 })).await;
    assert_eq!((status, &answer["code"]), (408, &json!("57014")), "{answer}");
    bed.wait_until_quiet(&mark).await;
}

#[tokio::test]
async fn a_caller_who_goes_away_stops_the_query() {
    let bed = BrokerBed::new();
    let mark = unique("left");
    let sql = format!("SELECT pg_sleep(300) -- {mark}");
    let waiting = bed.post("/v1/query", json!({ "database": "postgres", "sql": sql }));
    assert!(tokio::time::timeout(Duration::from_millis(300), waiting).await.is_err());
    bed.wait_until_quiet(&mark).await;
    // The same while rows stream.
    let sql = format!("SELECT repeat('x', 10000), pg_sleep(n / 1000) FROM generate_series(1, 9999) n -- {mark}");
    let response = bed.send(Method::POST, "/v1/query", json!({ "database": "postgres", "sql": sql }).to_string()).await;
    assert!(bed.broker.has_running(MACHINE));
    drop(response);
    bed.wait_until_quiet(&mark).await;
    let begun = Instant::now();
    while bed.broker.has_running(MACHINE) {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn connections_are_reused_and_clean() {
    let bed = BrokerBed::new();
    let pid = bed.one("SELECT pg_backend_pid()").await;
    for dirt in ["SET work_mem = '1MB'", "CREATE TEMP TABLE dirt (n int)", "SELECT pg_advisory_lock(4711)", "BEGIN"] {
        assert_eq!(bed.exec(dirt).await.0, 200);
    }
    let clean = "SELECT current_setting('work_mem') || to_regclass('pg_temp.dirt') IS NULL
                 AND NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())";
    assert_eq!(bed.one(clean).await, json!(true));
    assert_eq!(bed.one("SELECT current_setting('work_mem')").await, json!("4MB"));
    assert_eq!(bed.one("SELECT pg_backend_pid()").await, pid);
    assert_eq!((bed.dial.dialed.load(Ordering::SeqCst), bed.broker.pool.idle(MACHINE)), (1, 1));
    // A connection that died while it was idle is replaced.
    let killer = BrokerBed::new();
    killer.query("SELECT pg_terminate_backend($1::int4)", json!([pid])).await;
    assert_ne!(bed.one("SELECT pg_backend_pid()").await, pid);
    bed.broker.forget(MACHINE);
    assert_eq!(bed.broker.pool.idle(MACHINE), 0);
    bed.one("SELECT 1").await;
    bed.broker.pool.expire(tokio::time::Instant::now() + Duration::from_secs(61));
    assert_eq!(bed.broker.pool.idle(MACHINE), 0);
}

#[tokio::test]
async fn many_at_once_stay_within_the_bounds() {
    let bed = BrokerBed::new();
    let body = json!({ "database": "postgres", "sql": "SELECT pg_sleep(0.5)" });
    let answers = futures_util::future::join_all((0..20).map(|_| bed.post("/v1/query", body.clone()))).await;
    let refused = answers.iter().filter(|(status, _)| *status == 503).count();
    assert_eq!(refused, 4);
    assert!(bed.broker.pool.idle(MACHINE) <= 4);
}

/// A machine that wakes for ever. Whoever does not wake it finds a server that lets everybody in.
#[derive(Default)]
struct Sleeper {
    looked: AtomicUsize,
}

#[async_trait]
impl Connect for Sleeper {
    async fn connect(&self, _: &str) -> Result<Box<dyn DatabaseStream>, ConnectRefused> {
        std::future::pending().await
    }

    async fn connect_awake(&self, _: &str) -> Result<Box<dyn DatabaseStream>, ConnectRefused> {
        self.looked.fetch_add(1, Ordering::SeqCst);
        let welcome = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I".to_vec();
        Ok(Box::new(tokio::io::join(std::io::Cursor::new(welcome), tokio::io::sink())))
    }
}

#[tokio::test]
async fn health_takes_no_place_of_a_query_and_queries_take_none_of_its() {
    let sleeper = Arc::new(Sleeper::default());
    let broker = Broker::new(Arc::clone(&sleeper) as _, Scope::new());
    let ask = async |method: Method, path: &str, body: &str| {
        read(broker.answer(TARGET, login("a", "b"), &method, path, body.to_owned().into()).await).await
    };
    let query = "{\"database\":\"a\",\"sql\":\"SELECT 1\"}";
    let mut queries: Vec<_> = (0..16).map(|_| Box::pin(ask(Method::POST, "v1/query", query))).collect();
    for waiting in &mut queries {
        assert!(waiting.now_or_never().is_none());
    }
    assert_eq!(ask(Method::POST, "v1/query", query).await.1["code"], "53300");
    let healths = (0..50).map(|_| ask(Method::GET, "v1/health", ""));
    for (status, health) in futures_util::future::join_all(healths).await {
        assert_eq!((status, &health["postgres"]), (200, &json!("ok")));
    }
    assert_eq!(sleeper.looked.load(Ordering::SeqCst), 1, "one look for all who ask");
    drop(queries);
}

#[tokio::test]
async fn a_role_logs_in_by_scram_and_a_new_password_drops_old_connections() {
    let mut bed = BrokerBed::new();
    let role = unique("tenant");
    bed.exec(&format!("CREATE ROLE {role} LOGIN PASSWORD 'first'")).await;
    let rules = format!("host all {role} 127.0.0.1/32 scram-sha-256");
    let sql = format!(
        "DO $$ BEGIN EXECUTE format('COPY (SELECT unnest(ARRAY[''{rules}'', ''host all all 127.0.0.1/32 trust'',
         ''local all all trust''])) TO %L', current_setting('hba_file')); END $$; SELECT pg_reload_conf()"
    );
    let (status, answer) = bed.exec(&sql).await;
    assert_eq!(status, 200, "{answer}");
    let run = async |bed: &BrokerBed| {
        bed.post("/v1/query", json!({ "database": "postgres", "sql": "SELECT current_user" })).await
    };
    let admin = std::mem::replace(&mut bed.login, login(&role, "first"));
    let begun = Instant::now();
    let (status, answer) = run(&bed).await;
    assert_eq!((status, &answer["rows"]), (200, &json!([[role]])), "{answer}");
    bed.login = login(&role, "wrong");
    // The server rereads its rules a moment later.
    while run(&bed).await.0 == 200 {
        assert!(begun.elapsed() < PATIENCE);
        bed.broker.forget(MACHINE);
    }
    let (status, answer) = run(&bed).await;
    assert_eq!((status, &answer["code"]), (503, &json!("28P01")), "{answer}");
    bed.login = login(&role, "first");
    assert_eq!(run(&bed).await.0, 200);
    assert_eq!(bed.broker.pool.idle(MACHINE), 1);
    bed.login = login(&role, "second");
    assert_eq!(run(&bed).await.0, 503);
    assert_eq!(bed.broker.pool.idle(MACHINE), 0);
    bed.login = admin;
    bed.exec(&format!("DROP ROLE {role}")).await;
}

/// A server that says the same bytes to everybody.
struct Parrot(Vec<u8>);

#[async_trait]
impl Connect for Parrot {
    async fn connect(&self, _: &str) -> Result<Box<dyn DatabaseStream>, ConnectRefused> {
        let reader = std::io::Cursor::new(self.0.clone());
        Ok(Box::new(tokio::io::join(reader, tokio::io::sink())))
    }
}

#[tokio::test]
async fn a_server_that_breaks_the_protocol_gets_no_further() {
    let message = |tag: u8, body: &[u8]| {
        let mut bytes = vec![tag];
        bytes.extend_from_slice(&u32::try_from(body.len() + 4).unwrap().to_be_bytes());
        bytes.extend_from_slice(body);
        bytes
    };
    let sasl = message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    let rounds = [sasl.clone(), message(b'R', b"\0\0\0\x0br=x,s=AAAA,i=4000000000")].concat();
    let ready = [message(b'R', &[0; 4]), message(b'Z', b"I"), message(b'Z', b"I"), message(b'Z', b"I")].concat();
    let (clear, endless) = (message(b'R', &[0, 0, 0, 3]), vec![b'E', 0x7f, 0xff, 0xff, 0xff]);
    let cases = [vec![], b"HTTP/1.1 400 Bad Request".to_vec(), vec![0; 64], sasl, rounds, ready, clear, endless];
    for bytes in cases {
        let broker = Broker::new(Arc::new(Parrot(bytes.clone())), Scope::new());
        let body = json!({ "database": "postgres", "sql": "SELECT 1" }).to_string();
        let begun = Instant::now();
        let response = broker.answer(TARGET, login("a", "b"), &Method::POST, "/v1/query", body.into()).await;
        assert!(response.status().as_u16() >= 400, "{bytes:?}");
        assert!(begun.elapsed() < PATIENCE);
    }
}
