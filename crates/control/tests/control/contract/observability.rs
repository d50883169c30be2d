//! Section 11 of the contract: audit and observability.

use std::time::Duration;

use pandastack_control::limits::AUDIT_AGE_MAX;
use pandastack_model::{Fault, FaultKind, SandboxState};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    billing::{NOON_S, StillClock, rig},
    people,
    rig::{KEY, Rig, answer, wait_for},
};

/// Lists entries of the audit trail, newest first.
async fn trail(rig: &Rig, query: &str) -> Vec<Value> {
    let (status, trail) = rig.get(&format!("/v1/audit{query}")).await;
    assert_eq!(status, 200, "{trail}");
    trail["entries"].as_array().unwrap().clone()
}

async fn wait_for_trail(rig: &Rig, query: &str, count: usize) -> Vec<Value> {
    wait_for(&format!("{count} entries"), || async { trail(rig, query).await.len() == count }).await;
    trail(rig, query).await
}

async fn text(rig: &Rig, path: &str) -> String {
    let response = rig.http.get(format!("{}{path}", rig.url)).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200, "{path}");
    response.text().await.unwrap()
}

/// Checks that a route needs a key.
async fn needs_key(rig: &Rig, path: &str) {
    assert_eq!(answer(rig.http.get(format!("{}{path}", rig.url))).await.0, 401, "{path}");
}

#[tokio::test]
async fn get_v1_audit_since_is_rfc_3339_or_unix_seconds_and_24_hours_by_default() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    rig.delete("/v1/sandboxes/first").await;
    wait_for_trail(&rig, "", 1).await;
    clock.pass(25 * 3600);
    assert!(trail(&rig, "").await.is_empty(), "older than a day");
    for since in [NOON_S.to_string(), "2026-03-10T12:00:00Z".to_owned()] {
        let (_, found) = rig.get(&format!("/v1/audit?since={since}")).await;
        assert_eq!(found["entries"].as_array().unwrap().len(), 1, "{found}");
        assert!(found["since"].as_str().unwrap().starts_with("2026-03-10T12:00:00"), "{found}");
    }
    assert_eq!(rig.get("/v1/audit?since=soon").await.0, 400);
    needs_key(&rig, "/v1/audit").await;
}

#[tokio::test]
async fn get_v1_audit_is_newest_first_and_limit_is_200_by_default_and_1000_at_most() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    for number in 0..1001 {
        clock.pass(1);
        assert_eq!(rig.delete(&format!("/v1/sandboxes/s{number}")).await, 404);
    }
    let newest = || async { trail(&rig, "?limit=1").await[0]["path"] == json!("/v1/sandboxes/s1000") };
    wait_for("all entries", newest).await;
    let found = trail(&rig, "").await;
    assert_eq!(found.len(), 200);
    for (place, entry) in found.iter().enumerate() {
        assert_eq!(entry["path"], json!(format!("/v1/sandboxes/s{}", 1000 - place)));
    }
    assert_eq!(trail(&rig, "?limit=5000").await.len(), 1000);
}

#[tokio::test]
async fn audit_has_every_mutating_call_also_failed_ones_and_skips_get_and_options() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    let path = format!("/v1/sandboxes/{id}");
    rig.get(&path).await;
    rig.call(Method::OPTIONS, &path).send().await.unwrap();
    assert_eq!(rig.send(Method::PATCH, &format!("{path}/lifecycle"), json!({"ttl_seconds": 60})).await.0, 200);
    assert_eq!(rig.delete("/v1/sandboxes/none").await, 404);
    let found = wait_for_trail(&rig, "", 3).await;
    let told: Vec<_> =
        found.iter().map(|entry| format!("{} {}", entry["method"].as_str().unwrap(), entry["status"])).collect();
    assert_eq!(told, ["DELETE 404", "PATCH 200", "POST 201"]);
    for entry in found {
        for name in ["ts", "workspace", "request_id", "method", "path"] {
            assert!(entry[name].is_string(), "{name} of {entry}");
        }
        assert!(entry["status"].is_u64(), "{entry}");
    }
    assert_eq!(AUDIT_AGE_MAX, Duration::from_secs(365 * 24 * 3600), "kept for 365 days");
}

#[tokio::test]
async fn audit_names_the_user_or_the_key_prefix_and_shows_only_the_callers_workspace() {
    let rig = Rig::start().await;
    let root = people::operator(&rig).await;
    root.delete(&rig, "/v1/sandboxes/none").await;
    rig.delete("/v1/sandboxes/none").await;
    rig.stranger(Method::DELETE, "/v1/sandboxes/theirs").await;
    let found = wait_for_trail(&rig, "?method=DELETE", 2).await;
    let actors: Vec<_> = found.iter().map(|entry| entry["actor"].as_str().unwrap()).collect();
    assert_eq!(actors, [format!("key:{}", &KEY[..12]), format!("user:{}", root.id)]);
    assert!(found.iter().all(|entry| entry["workspace"] == "default"));
    let theirs = || async { rig.stranger(Method::GET, "/v1/audit").await.1["entries"].as_array().unwrap().len() == 1 };
    wait_for("their own entry, and no other", theirs).await;
}

#[tokio::test]
async fn audit_id_is_an_int() {
    let rig = Rig::start().await;
    for _ in 0..3 {
        rig.delete("/v1/sandboxes/none").await;
    }
    let found = wait_for_trail(&rig, "", 3).await;
    let ids: Vec<_> = found.iter().map(|entry| entry["id"].clone()).collect();
    assert_eq!(ids, [json!(3), json!(2), json!(1)]);
    let exported = rig.call(Method::GET, "/v1/audit/export").send().await.unwrap().text().await.unwrap();
    let first: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    assert_eq!((&first["id"], &first["number"]), (&found[2]["entry"], &json!(1)), "an export is as before: {first}");
}

#[tokio::test]
async fn get_v1_stats_boot_limit_is_1_to_500_and_bounds_recent() {
    let rig = Rig::start().await;
    for _ in 0..52 {
        rig.created().await;
    }
    for (query, count) in [("", 50), ("?limit=1", 1), ("?limit=0", 1), ("?limit=51", 51), ("?limit=9999", 52)] {
        let (status, stats) = rig.get(&format!("/v1/stats/boot{query}")).await;
        assert_eq!((status, stats["recent"].as_array().unwrap().len()), (200, count), "{query}");
        assert_eq!(stats["total_samples"], json!(52));
    }
    needs_key(&rig, "/v1/stats/boot").await;
}

#[tokio::test]
async fn get_v1_stats_boot_is_over_the_last_1000_boots() {
    let rig = Rig::start().await;
    let parent = rig.created().await;
    let fork = async |count: u64| {
        let (status, tree) =
            rig.send(Method::POST, &format!("/v1/sandboxes/{parent}/fork-tree"), json!({"count": count})).await;
        assert_eq!(status, 201, "{tree}");
    };
    for _ in 0..62 {
        fork(16).await;
    }
    fork(7).await;
    let stats = async || rig.get("/v1/stats/boot").await.1;
    assert_eq!(stats().await["total_samples"], json!(1000));
    wake(&rig, &parent, ("wake", 700)).await;
    wait_for("the boot", || async { stats().await["overall"]["max_ms"] == json!(700) }).await;
    let stats = stats().await;
    assert_eq!(stats["total_samples"], json!(1000));
    assert_eq!(stats["by_mode"].get("snapshot-natid"), None, "the first boot is forgotten: {stats}");
}

/// Puts a sandbox to sleep and wakes it, as the host does on its own.
async fn wake(rig: &Rig, id: &str, (boot_mode, boot_ms): (&'static str, u64)) {
    assert_eq!(rig.post(&format!("/v1/sandboxes/{id}/hibernate")).await.0, 200);
    rig.host.change(id.parse().unwrap(), |view| {
        (view.state, view.boot_mode) = (SandboxState::Running, boot_mode);
        view.boot = Duration::from_millis(boot_ms);
    });
}

/// Wakes a sandbox in a given time, and waits until that is counted.
async fn boot_in(rig: &Rig, id: &str, boot: (&'static str, u64)) {
    let samples = async || rig.get("/v1/stats/boot").await.1["total_samples"].as_u64().unwrap();
    let before = samples().await;
    wake(rig, id, boot).await;
    wait_for("the boot", || async { samples().await == before + 1 }).await;
}

#[tokio::test]
async fn boot_stats_of_10_values_100_to_1000_have_p50_500_and_p90_900() {
    let rig = Rig::start().await;
    let id = rig.created().await;
    for hundreds in [7, 1, 10, 3, 2, 9, 4, 8, 6, 5] {
        boot_in(&rig, &id, ("wake", hundreds * 100)).await;
    }
    let (_, stats) = rig.get("/v1/stats/boot").await;
    let bucket = json!({"count": 10, "min_ms": 100, "max_ms": 1000, "mean_ms": 550.0,
                        "p50_ms": 500, "p90_ms": 900, "p99_ms": 1000});
    assert_eq!(stats["by_mode"]["wake"], bucket);
    assert_eq!((&stats["overall"]["count"], &stats["by_template"]["mini"]["count"]), (&json!(11), &json!(11)));
    assert!(stats["window_seconds"].is_u64(), "{stats}");
    let newest = &stats["recent"][0];
    let told = [&newest["sandbox_id"], &newest["template"], &newest["boot_mode"], &newest["boot_ms"]];
    assert_eq!(told, [&json!(id), &json!("mini"), &json!("wake"), &json!(500)]);
    assert!(newest["ts"].is_string(), "{newest}");
}

#[tokio::test]
async fn get_v1_metrics_overview_gives_from_to_step_and_series_of_bucket_and_value() {
    let rig = Rig::start().await;
    rig.created().await;
    rig.control.sample().await;
    let (status, found) = rig.get("/v1/metrics/overview").await;
    assert_eq!((status, &found["step"]), (200, &json!("1m")), "the last hour at 1m: {found}");
    assert!(found["from"].is_string() && found["to"].is_string(), "{found}");
    let points = found["series"]["sandboxes"].as_array().unwrap();
    assert_eq!((points.len(), &points[0][1]), (1, &json!(1.0)), "{found}");
    // Such as 2026-03-10 12:00:00.
    let bucket = points[0][0].as_str().unwrap();
    let pattern: String = bucket.chars().map(|sign| if sign.is_ascii_digit() { '0' } else { sign }).collect();
    assert_eq!(pattern, "0000-00-00 00:00:00", "{bucket}");
    needs_key(&rig, "/v1/metrics/overview").await;
}

#[tokio::test]
async fn overview_series_are_http_rps_p50_p95_errors_sb_creates_boot_p50_p95_and_warm_pct() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    let id = rig.created().await;
    for boot in [("cold", 900), ("wake", 40), ("wake", 40)] {
        boot_in(&rig, &id, boot).await;
    }
    clock.pass(60);
    rig.host.fail_next("ensure", Fault::new(FaultKind::Busy, "host.full", "no room"));
    assert_eq!(rig.create(json!({"template": "mini"})).await.0, 503);
    rig.get("/v1/me").await;
    assert_eq!(rig.get("/v1/sandboxes/none").await.0, 404);
    clock.pass(60);
    let (status, found) = rig.get("/v1/metrics/overview").await;
    assert_eq!(status, 200, "{found}");
    let value = |name: &str, minute: u64| {
        let at = json!(format!("2026-03-10 12:0{minute}:00"));
        let points = found["series"][name].as_array().unwrap_or_else(|| panic!("{name} is not in {found}"));
        points.iter().find(|point| point[0] == at).map(|point| point[1].as_f64().unwrap())
    };
    assert!(value("http_rps", 0).unwrap() >= 7.0, "{found}");
    assert_eq!((value("http_rps", 1), value("http_errors", 1)), (Some(3.0), Some(1.0)), "a count per bucket: {found}");
    assert_eq!(value("http_errors", 0), Some(0.0));
    assert!(value("http_p50", 1) > Some(0.0) && value("http_p95", 1) >= value("http_p50", 1), "{found}");
    assert_eq!((value("sb_creates", 0), value("sb_creates", 1)), (Some(1.0), None), "{found}");
    let (median, high) = (value("boot_p50", 0).unwrap(), value("boot_p95", 0).unwrap());
    assert!((20.0..=50.0).contains(&median) && (500.0..=900.0).contains(&high), "{found}");
    assert_eq!((value("boot_warm_pct", 0), value("boot_warm_pct", 1)), (Some(75.0), None), "{found}");
    let (_, theirs) = rig.stranger(Method::GET, "/v1/metrics/overview").await;
    assert_eq!((&theirs["series"]["http_rps"], &theirs["series"]["boot_p50"]), (&json!([]), &json!([])));
}

#[tokio::test]
async fn overview_steps_are_15s_1m_5m_1h_and_a_bad_step_range_or_time_is_400() {
    let rig = Rig::start().await;
    for step in ["15s", "1m", "5m", "1h"] {
        let (status, found) = rig.get(&format!("/v1/metrics/overview?step={step}")).await;
        assert_eq!((status, &found["step"]), (200, &json!(step)));
    }
    for query in ["range=24h", "range=30d&step=1h", "from=2026-03-10T11:00:00Z&to=2026-03-10T12:00:00Z"] {
        assert_eq!(rig.get(&format!("/v1/metrics/overview?{query}")).await.0, 200, "{query}");
    }
    for query in
        ["step=2m", "range=31d", "range=long", "from=soon", "from=2026-03-10T12:00:00Z&to=2026-03-10T11:00:00Z"]
    {
        assert_eq!(rig.get(&format!("/v1/metrics/overview?{query}")).await.0, 400, "{query}");
    }
}

#[tokio::test]
async fn get_v1_metrics_sandbox_id_gives_cpu_pct_and_mem_bytes() {
    let clock = StillClock::at(NOON_S);
    let rig = rig(&clock).await;
    let id = rig.created().await;
    for _ in 0..2 {
        rig.control.sample().await;
        clock.pass(15);
    }
    let path = format!("/v1/metrics/sandbox/{id}");
    let (status, found) = rig.get(&path).await;
    assert_eq!(status, 200, "{found}");
    let series = &found["series"];
    assert_eq!(series["mem_bytes"], json!([["2026-03-10 12:00:00", f64::from(10 << 20)]]), "{found}");
    assert_eq!(series["cpu_pct"][0][0], json!("2026-03-10 12:00:00"), "{found}");
    assert_eq!(rig.stranger(Method::GET, &path).await.0, 404);
    needs_key(&rig, &path).await;
}

#[tokio::test]
async fn get_v1_metrics_is_prometheus_text_with_pandastack_http_requests_total() {
    let rig = Rig::start().await;
    rig.get("/v1/me").await;
    let response = rig.call(Method::GET, "/v1/metrics").send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    assert!(response.text().await.unwrap().contains("pandastack_http_requests_total"));
}

#[tokio::test]
async fn get_metrics_is_public_prometheus_text() {
    let rig = Rig::start().await;
    let said = text(&rig, "/metrics").await;
    assert!(said.contains("# TYPE pandastack_machines gauge") && said.ends_with("# EOF\n"), "{said}");
}

#[tokio::test]
async fn prometheus_names_are_http_requests_request_duration_sandboxes_creates_and_boot_duration() {
    let rig = Rig::start().await;
    rig.created().await;
    rig.host.fail_next("ensure", Fault::new(FaultKind::Busy, "host.full", "no room"));
    assert_eq!(rig.create(json!({"template": "mini"})).await.0, 503);
    let said = text(&rig, "/metrics").await;
    let line = |start: &str, label: &str| said.lines().any(|line| line.starts_with(start) && line.contains(label));
    for (start, label) in [
        ("pandastack_http_requests_total{method=\"POST\"", "status=\"201\""),
        ("pandastack_http_request_duration_seconds_bucket{", "le="),
        ("pandastack_sandboxes{", "state=\"running\""),
        ("pandastack_sandbox_creates_total{result=\"ok\"", "boot_mode="),
        ("pandastack_sandbox_creates_total{result=\"error\"", "boot_mode="),
        ("pandastack_sandbox_boot_duration_seconds_count{", "boot_mode="),
    ] {
        assert!(line(start, label), "{start} with {label} is not in:\n{said}");
    }
}

#[tokio::test]
async fn prometheus_hibernation_total_has_a_result() {
    let rig = Rig::start().await;
    let (asked, idle, failed) = (rig.created().await, rig.created().await, rig.created().await);
    assert_eq!(rig.post(&format!("/v1/sandboxes/{asked}/hibernate")).await.0, 200);
    assert_eq!(rig.post(&format!("/v1/sandboxes/{asked}/hibernate")).await.0, 200, "it sleeps already");
    rig.host.change(idle.parse().unwrap(), |view| view.state = SandboxState::Asleep);
    rig.host.fail_next("sleep", Fault::new(FaultKind::Busy, "disk.full", "no room"));
    assert_eq!(rig.post(&format!("/v1/sandboxes/{failed}/hibernate")).await.0, 503);
    let counted = async |rig: &Rig, result: &str, count: u64| {
        let line = format!("pandastack_hibernation_total{{result=\"{result}\"}} {count}");
        text(rig, "/metrics").await.lines().any(|said| said == line)
    };
    wait_for("both hibernations", || counted(&rig, "ok", 2)).await;
    assert!(counted(&rig, "error", 1).await);
    // The host puts the last one to sleep while the server is down.
    rig.host.sandboxes.lock().unwrap().get_mut(&failed.parse().unwrap()).unwrap().state = SandboxState::Asleep;
    let rig = rig.restart_control().await;
    assert!(counted(&rig, "ok", 1).await, "only what was not counted before");
}

#[tokio::test]
async fn get_v1_version_says_service_pandastack_agent() {
    let rig = Rig::start().await;
    let (status, version) = rig.get("/v1/version").await;
    assert_eq!((status, &version["service"]), (200, &json!("pandastack-agent")), "{version}");
}

#[tokio::test]
async fn get_version_is_public_and_says_service_pandastack_api_semver_commit_build_time_go_os_arch() {
    let rig = Rig::start().await;
    let version: Value = serde_json::from_str(&text(&rig, "/version").await).unwrap();
    assert_eq!(version["service"], "pandastack-api");
    for name in ["semver", "commit", "build_time", "go", "os", "arch"] {
        assert!(version[name].as_str().is_some_and(|text| !text.is_empty()), "{name} of {version}");
    }
}

#[tokio::test]
async fn get_healthz_is_public_ok_with_checks_and_503_unhealthy_without_a_database() {
    let rig = Rig::start().await;
    let health = || answer(rig.http.get(format!("{}/healthz", rig.url)));
    let (status, well) = health().await;
    assert_eq!((status, &well["status"]), (200, &json!("ok")), "{well}");
    assert!(well["checks"].is_object(), "{well}");
    rig.control.close().await;
    let (status, sick) = health().await;
    assert_eq!((status, &sick["status"]), (503, &json!("unhealthy")), "{sick}");
}
