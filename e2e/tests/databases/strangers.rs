//! What another tenant can reach of a database: no route, no port, no log of another machine. And
//! where its secrets must not be.

use std::{fs, net::Ipv4Addr, path::Path};

use pandastack_host::net::{GATEWAY, GUEST};
use pandastack_sys::netns::Netns;
use pandastack_testbed::{PATIENCE, outside::ip, wait_for};
use reqwest::Method;
use serde_json::{Value, json};

use super::{DatabaseBed, path};
use crate::webhooks::Receiver;

const DOCUMENT: &str = include_str!("../../../docs/openapi.json");
/// Where machines of databases reach the archive.
const ARCHIVE: &str = "http://172.16.0.1:7071";
/// Start of what PostgreSQL stores of a password.
const VERIFIER: &str = "SCRAM-SHA-256$";
/// Where PostgreSQL and its pooler listen in a machine.
const PORTS: [u16; 2] = [5432, 6432];
/// Connects to all places at once, and prints those that answer. The first one is its own.
const CONNECT: &str = "import socket,sys,threading
own=socket.create_server(('127.0.0.1',0))
def call(host,port):
  try: socket.create_connection((host,int(port)),120 if host=='127.0.0.1' else 5); print('open',host,flush=True)
  except OSError: pass
places=['127.0.0.1:%d' % own.getsockname()[1]]+sys.argv[1:]
calls=[threading.Thread(target=call,args=place.split(':')) for place in places]
[c.start() for c in calls]
[c.join() for c in calls]";

/// Another organisation with a key of its own.
pub async fn other_tenant(bed: &DatabaseBed) -> String {
    let account = json!({"email": "eve@example.com", "password": "correct horse battery"});
    let person = made(bed, &bed.server.key, "/v1/auth/setup", account).await["token"].clone();
    let person = person.as_str().unwrap();
    let org = made(bed, person, "/v1/orgs", json!({"name": "Others"})).await["id"].clone();
    made(bed, person, "/v1/me/current-org", json!({"org_id": org})).await;
    let key = made(bed, person, "/v1/api-keys", json!({"label": "eve"})).await["token"].clone();
    key.as_str().unwrap().to_owned()
}

async fn made(bed: &DatabaseBed, token: &str, path: &str, body: Value) -> Value {
    let (status, answer) = bed.ask(Method::POST, path, token, body).await;
    assert!((200..300).contains(&status), "{path}: {status} {answer}");
    answer
}

/// Every documented route of a database and of its machine answers a stranger as if there were
/// nothing.
pub async fn no_route_leads_to_it(bed: &DatabaseBed, database: &Value, branch: &Value, stranger: &str) {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let (id, nobody) = (database["id"].as_str().unwrap(), pandastack_model::SandboxId::random().to_string());
    let mut tried = 0;
    for (route, methods) in document["paths"].as_object().unwrap() {
        let of_database = route.starts_with("/v1/databases/{id}");
        if !of_database && !route.starts_with("/v1/sandboxes/{id}") {
            continue;
        }
        let is_broker = route == "/v1/databases/{id}/proxy/{path}";
        let rest = [("{path}", "v1/query"), ("{port}", "5432"), ("{process}", "prc_1"), ("{session}", "none")];
        let route = rest.iter().fold(route.clone(), |route, (name, value)| route.replace(name, value));
        for method in
            methods.as_object().unwrap().keys().filter(|method| !["head", "options"].contains(&method.as_str()))
        {
            let (method, what) = (method.to_uppercase().parse::<Method>().unwrap(), format!("{method} {route}"));
            let ask = async |id: &str| {
                let (status, mut said) = bed.ask(method.clone(), &route.replace("{id}", id), stranger, json!({})).await;
                said["request_id"] = Value::Null;
                (status, said.to_string().replace(id, "ID"))
            };
            let (found, missing) = (ask(id).await, ask(&nobody).await);
            if is_broker {
                assert!(found.0 == 401 && found.1.contains("database.bad_token"), "{what}: {found:?}");
                let token = branch["broker_token"].as_str().unwrap();
                let (status, said) = bed.ask(method, &route.replace("{id}", id), token, json!({})).await;
                assert_eq!((status, &said["code"]), (401, &json!("database.bad_token")), "{what}: {said}");
            } else {
                assert_eq!(found, missing, "{what} tells one from the other");
                let is_right = if of_database { found.0 == 404 } else { (400..=404).contains(&found.0) };
                assert!(is_right, "{what}: {found:?}");
            }
            tried += 1;
        }
    }
    assert!(tried > 70, "only {tried} routes were tried");
    assert_eq!(bed.ask(Method::GET, "/v1/databases", stranger, json!({})).await.1["count"], 0);
    // By the name of a preview.
    for port in PORTS {
        let request = bed.http.get(&bed.server.url).header("host", format!("{port}-{id}.localhost"));
        let status = request.bearer_auth(stranger).send().await.unwrap().status().as_u16();
        assert!((401..=404).contains(&status), "port {port}: {status}");
    }
    assert_eq!(bed.get(&path(database)).await.1["status"], "running", "nothing has changed");
}

/// The log of a database is read by its own machine only: a branch does not get that of its source,
/// and a plain sandbox finds nobody at that port. Neither of them reaches the database by network.
pub async fn its_log_is_its_own(bed: &DatabaseBed, database: &Value, branch: &Value, stranger: &str) {
    // Beyond what the branch has a log of.
    let switch = "/usr/lib/postgresql/16/bin/psql -X -A -t -q -h /run/postgresql -U postgres -c 'CREATE TABLE IF NOT EXISTS logged ()' \
                  -c 'SELECT pg_walfile_name(pg_switch_wal())' -c 'DROP TABLE logged'";
    let mut name = String::new();
    for _ in 0..4 {
        name = said_in(bed, database, switch).await;
    }
    let ask = |place: &str| format!("curl -s --path-as-is -o /dev/null -w '%{{http_code}}' {ARCHIVE}/{place}");
    let own = ask(&format!("wal/{name}"));
    let archived = async || (said_in(bed, database, &own).await == "200").then_some(());
    wait_for("the log is archived", PATIENCE, archived).await;
    let (id, backups) = (database["id"].as_str().unwrap(), bed.get(&format!("{}/backups", path(database))).await.1);
    let base = backups["items"][0]["name"].as_str().unwrap();
    for place in [
        format!("wal/{name}"),
        format!("base/{base}"),
        format!("wal/../{id}/wal/{name}"),
        format!("wal/..%2f{id}%2fwal%2f{name}"),
        format!("{id}/wal/{name}"),
        format!("db/{id}/wal/{name}"),
    ] {
        let status = said_in(bed, branch, &ask(&place)).await;
        assert!(["400", "404"].contains(&status.as_str()), "{place}: {status}");
    }

    let plain = made(bed, stranger, "/v1/sandboxes", json!({"template": "mini"})).await;
    let sandbox = format!("/v1/sandboxes/{}", plain["id"].as_str().unwrap());
    let mut places = places_of(bed, database).await;
    let by_branch: Vec<String> = places.iter().map(|place| connect_time(place, 2)).collect();
    let seconds =
        said_in(bed, branch, &format!("{}{}", connect_time("127.0.0.1:5432", PATIENCE.as_secs()), by_branch.concat()))
            .await;
    let seconds: Vec<f64> = seconds.lines().map(|line| line.parse().unwrap()).collect();
    assert!(seconds.len() == places.len() + 1 && seconds[0] > 0.0, "the probe itself works: {seconds:?}");
    assert!(seconds[1..].iter().all(|seconds| *seconds == 0.0), "{places:?} from a branch: {seconds:?}");
    // Every machine has this address, so a stranger finds itself there.
    places.extend(PORTS.map(|port| format!("{GUEST}:{port}")));
    places.extend([format!("{GATEWAY}:7071")]);
    let argv: Vec<&str> = ["python3", "-c", CONNECT].into_iter().chain(places.iter().map(String::as_str)).collect();
    let (status, done) = bed.ask(Method::POST, &format!("{sandbox}/exec"), stranger, json!({"argv": argv})).await;
    assert_eq!((status, &done["stdout"]), (200, &json!("open 127.0.0.1\n")), "{places:?}: {done}");
    assert_eq!(bed.ask(Method::DELETE, &sandbox, stranger, json!({})).await.0, 204);
}

/// Every address outside of the machine that could lead to a database: those of its network
/// namespace and of the host's end of it. Its ports answer inside of the namespace.
async fn places_of(bed: &DatabaseBed, database: &Value) -> Vec<String> {
    let pid = crate::server::machine_of(&bed.data_dir, database["id"].as_str().unwrap()).await;
    let netns = Netns::open(Path::new(&format!("/proc/{pid}/ns/net"))).unwrap();
    for port in PORTS {
        netns.connect((GUEST, port).into(), PATIENCE).expect("the database listens");
    }
    let look = || (ip(&["-4", "-o", "addr", "show", "dev", "up0"], ""), ip(&["-4", "route", "show", "default"], ""));
    let (own, route) = netns.run(look).unwrap();
    let after = |text: &str, word: &str| -> Ipv4Addr {
        let address = text.split_whitespace().skip_while(|found| *found != word).nth(1).unwrap();
        address.split('/').next().unwrap().parse().unwrap()
    };
    let addresses = [after(&own.unwrap(), "inet"), after(&route.unwrap(), "via")];
    addresses.iter().flat_map(|address| PORTS.map(|port| format!("{address}:{port}"))).collect()
}

/// A command that prints how many seconds a connection took, and 0 if there was none in this time.
fn connect_time(place: &str, seconds_max: u64) -> String {
    format!("curl -s -m {seconds_max} -o /dev/null -w '%{{time_connect}}\\n' http://{place}/; true; ")
}

/// Runs a command in the machine of a database. It must succeed.
async fn said_in(bed: &DatabaseBed, database: &Value, command: &str) -> String {
    let done = bed.exec(database, command).await;
    assert_eq!(done["exit_code"], 0, "{command}: {done}");
    done["stdout"].as_str().unwrap().trim().to_owned()
}

/// Subscribes to all events.
pub async fn listen_to_events(bed: &DatabaseBed) -> Receiver {
    let receiver = Receiver::start();
    let hook = json!({"url": receiver.url, "events": ["*"]});
    assert_eq!(bed.send(Method::POST, "/v1/webhooks", hook).await.0, 201);
    receiver
}

/// Looks for credentials wherever the server writes or tells something.
pub async fn secrets_stay_inside(bed: &DatabaseBed, databases: &[&Value], receiver: &Receiver) {
    let mut secrets = vec![VERIFIER.to_owned()];
    let mut places = vec![
        ("the log".to_owned(), bed.server.said()),
        ("webhooks".to_owned(), receiver.bodies().join("\n")),
        ("arguments of processes".to_owned(), command_lines()),
    ];
    for path in ["/v1/audit?limit=500", "/v1/audit/export", "/v1/events?limit=500&kind=all", "/v1/databases"] {
        places.push((path.to_owned(), bed.text(path).await));
    }
    for database in databases {
        secrets.extend(["password", "broker_token"].map(|field| database[field].as_str().unwrap().to_owned()));
        let id = database["id"].as_str().unwrap();
        for path in [format!("/v1/sandboxes/{id}/events"), format!("{}/logs?lines=1000", path(database))] {
            places.push((path.clone(), bed.text(&path).await));
        }
    }
    for (place, text) in &places {
        let found = secrets.iter().find(|secret| text.contains(secret.as_str()));
        assert_eq!(found, None, "a secret is in {place}");
    }
    // The search finds what is there.
    for (at, part) in [(0, "pandastack_"), (1, "sandbox.running"), (2, "qemu"), (4, "/v1/databases"), (5, "sandbox.")] {
        assert!(places[at].1.contains(part), "{}: {}", places[at].0, places[at].1);
    }
}

fn command_lines() -> String {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .fold(String::new(), |all, line| all + &String::from_utf8_lossy(&line).replace('\0', " ") + "\n")
}
