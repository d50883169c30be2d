//! Stripe with the built server and a real machine. Stripe is a stand-in on loopback that follows
//! its documented rules; the server finds it through `STRIPE_API_BASE`.

use std::{path::Path, sync::Arc, time::Duration};

use pandastack_billing::stand_in::{StripeFault, StripeStandIn};
use pandastack_database::{Database, DatabaseAddress, PoolSettings, query};
use pandastack_e2e::PATIENCE;
use pandastack_kit::{Clock, Secret, SystemClock};
use pandastack_testbed::{DataFolder, TestServer, wait_for};
use reqwest::Method;
use serde_json::{Value, json};

use crate::people::{Home, PASSWORD, write_config};

const STRIPE_KEY: &str = "sk_test_stand_in";
const WEBHOOK_SECRET: &str = "whsec_of_tests";
const DAY_S: u64 = 24 * 3600;
const HOUR_S: u64 = 3600;

/// 30 dollars of CPU time, of which 20 are credit of the plan.
const PAST_VCPU_MS: i64 = 3_000_000_000;
const CHARGED_MICROS: u128 = 10_000_000;

/// A server with a customer, and the stand-in that it is connected to.
struct Shop {
    server: TestServer,
    stripe: StripeStandIn,
    ada: Home,
    http: reqwest::Client,
    customer: String,
}

impl Shop {
    async fn open(data: &Path) -> Self {
        let stripe = StripeStandIn::start(STRIPE_KEY, Arc::new(SystemClock)).await;
        let (server, ada) = (start(data, &stripe), Home::new());
        write_config(&ada, &server);
        ada.good(&[PASSWORD, PASSWORD], &["login", "--email", "ada@example.com"]);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { server, stripe, ada, http, customer: String::new() }
    }

    fn cli(&self, words: &[&str]) -> Value {
        self.ada.json(&[words, &["--api-url", &self.server.url]].concat())
    }

    /// Sends a request with the API key of the same workspace.
    async fn call(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let request = self.http.request(method, format!("{}{path}", self.server.url)).bearer_auth(&self.server.key);
        let answer = request.json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    async fn create(&self) -> (u16, Value) {
        self.call(Method::POST, "/v1/sandboxes", json!({"template": "mini", "persistent": true})).await
    }

    /// Tells the server about something that happened so long ago, as Stripe does.
    async fn tell(&self, (id, kind): (&str, &str), object: Value, (ago_s, secret): (u64, &str)) -> u16 {
        let event = self.stripe.event(id, kind, object);
        let mut event: Value = serde_json::from_str(&event).unwrap();
        event["created"] = json!(now_s() - ago_s);
        let to = self.server.url.strip_prefix("http://").unwrap().parse().unwrap();
        let secret = Secret::new(secret.to_owned());
        self.stripe.send_webhook(to, "/v1/webhooks/stripe", &event.to_string(), &[&secret]).await
    }

    fn subscription(&self, status: &str) -> Value {
        json!({
            "id": "sub_1", "object": "subscription", "customer": self.customer, "status": status,
            "created": now_s() - 20 * DAY_S, "cancel_at_period_end": false,
            "items": {"data": [{"price": {"id": "price_pro"}, "current_period_end": now_s() + 10 * DAY_S}]},
        })
    }
}

fn start(data: &Path, stripe: &StripeStandIn) -> TestServer {
    let variables = [
        ("STRIPE_SECRET_KEY", STRIPE_KEY),
        ("STRIPE_METER_EVENT_NAME", "usage"),
        ("STRIPE_PRICE_PRO_MONTHLY", "price_pro"),
        ("STRIPE_PRICE_OVERAGE", "price_overage"),
        ("STRIPE_WEBHOOK_SECRET", WEBHOOK_SECRET),
        ("STRIPE_API_BASE", &stripe.base_url()),
    ];
    let flags = ["--no-config", "--standby", "0", "--blanks", "0", "--default-plan", "free"];
    let started = TestServer::start_with(data, |command| {
        command.args(flags).envs(variables);
    });
    started.unwrap()
}

fn now_s() -> u64 {
    SystemClock.now_ns() / 1_000_000_000
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_bought_used_unpaid_and_paid_again() {
    let data = DataFolder::with_templates().unwrap();
    let mut shop = Shop::open(data.path()).await;
    assert_eq!(shop.cli(&["billing"])["plan"], json!("free"));
    let page = shop.ada.good(&[], &["billing", "buy", "pro"]);
    assert!(page.starts_with("https://checkout.stripe.com/"), "{page}");
    let [made, checkout] = &shop.stripe.requests()[..] else { panic!("a customer and a checkout are asked for") };
    assert_eq!((made.path.as_str(), checkout.path.as_str()), ("/v1/customers", "/v1/checkout/sessions"));
    assert_eq!(made.field("email"), Some("ada@example.com"));
    assert_eq!(checkout.field("line_items[0][price]"), Some("price_pro"));
    shop.customer = checkout.field("customer").unwrap().to_owned();

    // Nothing counts but the word of Stripe itself.
    let bought = ("evt_1", "customer.subscription.created");
    let wrong = shop.tell(bought, shop.subscription("active"), (20 * DAY_S, "whsec_wrong")).await;
    assert_eq!((wrong, &shop.cli(&["billing"])["plan"]), (400, &json!("free")));
    assert_eq!(shop.tell(bought, shop.subscription("active"), (20 * DAY_S, WEBHOOK_SECRET)).await, 200);
    let bill = shop.cli(&["billing"]);
    assert_eq!((&bill["plan"], &bill["subscription"]["status"]), (&json!("pro"), &json!("active")), "{bill}");
    // The same event again changes nothing, whatever it says.
    assert_eq!(shop.tell(bought, shop.subscription("canceled"), (0, WEBHOOK_SECRET)).await, 200);
    assert_eq!(shop.cli(&["billing"])["plan"], json!("pro"));
    let (status, made) = shop.create().await;
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().unwrap();

    // Unpaid for longer than the grace period, which also a restart knows.
    let unpaid = ("evt_2", "customer.subscription.updated");
    assert_eq!(shop.tell(unpaid, shop.subscription("past_due"), (15 * DAY_S, WEBHOOK_SECRET)).await, 200);
    let read_only = async |shop: &Shop| {
        let (path, wake) = (format!("/v1/sandboxes/{id}"), format!("/v1/sandboxes/{id}/wake"));
        wait_for("the sandbox sleeps", PATIENCE, async || {
            let (status, view) = shop.call(Method::GET, &path, Value::Null).await;
            assert_eq!(status, 200, "{view}");
            (view["status"] == json!("hibernated")).then_some(())
        })
        .await;
        let (status, refused) = shop.call(Method::POST, &wake, json!({})).await;
        assert_eq!((status, &refused["code"]), (402, &json!("billing.unpaid")), "{refused}");
        let (status, refused) = shop.create().await;
        assert_eq!((status, &refused["code"]), (402, &json!("billing.unpaid")), "{refused}");
        assert_eq!(shop.cli(&["billing"])["hold"], json!("billing.unpaid"));
    };
    read_only(&shop).await;
    shop.server.stop().unwrap();
    shop.server = start(data.path(), &shop.stripe);
    read_only(&shop).await;

    let page = shop.cli(&["billing", "portal"]);
    assert!(page["url"].as_str().unwrap().starts_with("https://billing.stripe.com/"), "{page}");
    assert_eq!(shop.stripe.requests().pop().unwrap().field("customer"), Some(shop.customer.as_str()));
    let invoice = json!({"id": "in_1", "object": "invoice", "customer": shop.customer, "subscription": "sub_1"});
    assert_eq!(shop.tell(("evt_3", "invoice.paid"), invoice, (0, WEBHOOK_SECRET)).await, 200);
    let (status, view) = shop.call(Method::POST, &format!("/v1/sandboxes/{id}/wake"), json!({})).await;
    assert_eq!(status, 200, "{view}");
    assert_eq!(shop.call(Method::DELETE, &format!("/v1/sandboxes/{id}"), Value::Null).await.0, 204);
    past_usage_is_posted_once(&shop, data.path()).await;
}

/// Hours are posted when they are complete. A test cannot wait for one, so it writes one into the
/// server's database.
async fn past_usage_is_posted_once(shop: &Shop, data: &Path) {
    assert_eq!(shop.cli(&["billing", "sync"]), json!({"posted": 0, "pending": 0}), "this hour is not over");
    let long = Duration::from_secs(30);
    let settings = PoolSettings { connections_max: 1, busy_max: long, statement_max: long };
    let database = Database::open(&DatabaseAddress::File(data.join("control.db")), settings).await.unwrap();
    let before = "UPDATE billing_account SET enqueued_hour = enqueued_hour - 10";
    query(before).execute(&database).await.unwrap();
    let used = "INSERT INTO usage_total (workspace, hour, vcpu_ms, memory_mib_ms, storage_mib_ms)
                VALUES ('default', ?, ?, 0, 0)";
    let hour = (now_s() / HOUR_S - 3) as i64;
    query(used).bind(hour).bind(PAST_VCPU_MS).execute(&database).await.unwrap();
    database.close().await;

    // Stripe counts the event, but its answer is lost.
    shop.stripe.fail_next(StripeFault::LostAnswer);
    assert_eq!(shop.cli(&["billing", "sync"]), json!({"posted": 0, "pending": 1}));
    // By this request or by the server's own worker.
    let posted = async || (shop.cli(&["billing", "sync"])["pending"] == json!(0)).then_some(());
    wait_for("the event is posted again", PATIENCE, posted).await;
    assert_eq!(shop.cli(&["billing", "sync"]), json!({"posted": 0, "pending": 0}));
    assert_eq!(shop.stripe.billed(&shop.customer, "usage"), CHARGED_MICROS);
    assert_eq!(shop.stripe.counted().len(), 1, "it was counted once");
    let sent = shop.stripe.requests();
    let events: Vec<_> = sent.iter().filter(|request| request.path == "/v1/billing/meter_events").collect();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0].idempotency_key, events[1].idempotency_key);
}

#[test]
fn a_server_with_half_a_setting_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let started = TestServer::start_with(&data, |command| {
        command.arg("--no-config").env("STRIPE_SECRET_KEY", STRIPE_KEY);
    });
    let said = format!("{:#}", started.err().expect("it does not start"));
    assert!(said.contains("STRIPE_METER_EVENT_NAME is not set"), "{said}");
    assert!(!said.contains(STRIPE_KEY), "{said}");
}
