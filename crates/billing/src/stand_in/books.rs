//! The rules of the stand-in, without HTTP: what a request changes and what it is answered.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use serde_json::{Value, json};

use crate::limits::{
    METER_EVENT_AGE_MAX, METER_EVENT_AHEAD_MAX, METER_EVENT_NAME_BYTES_MAX, METER_IDENTIFIER_BYTES_MAX,
    STRIPE_ID_BYTES_MAX, STRIPE_REMEMBERS,
};

/// How the next request fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StripeFault {
    /// 429 before any work, with or without `Retry-After`.
    RateLimited { retry_after_s: Option<u64> },
    /// 429 because another request holds the customer's meter.
    LockTimeout,
    /// A server error before anything was counted. It is stored for the idempotency key.
    ServerError(u16),
    /// The event is counted, and then the answer is a server error.
    ServerErrorAfterCounting(u16),
    /// The connection closes before anything was counted.
    LostRequest,
    /// The event is counted, and then the connection closes without an answer.
    LostAnswer,
    /// The event is counted, and the answer takes this long.
    Slow(Duration),
    /// A refusal with this status and error.
    Refuse { status: u16, error: Value },
}

/// An event that was counted: it will be on an invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedEvent {
    pub event_name: String,
    pub customer: String,
    pub value: u64,
    pub identifier: String,
    pub timestamp_s: u64,
    pub counted_at_s: u64,
}

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    pub path: String,
    pub idempotency_key: Option<String>,
    pub version: Option<String>,
    pub authorization: Option<String>,
    pub fields: Vec<(String, String)>,
}

impl ReceivedRequest {
    /// Returns a field of the form.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// An answer, and what happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BookAnswer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Value,
    pub delivery: AnswerDelivery,
    /// What other requests must not use until the answer is gone.
    pub held: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerDelivery {
    AtOnce,
    After(Duration),
    Never,
}

struct StoredAnswer {
    path: String,
    fields: Vec<(String, String)>,
    status: u16,
    body: Value,
    stored_at_s: u64,
}

/// Everything the stand-in knows.
pub(super) struct Books {
    secret_key: String,
    pub faults: VecDeque<StripeFault>,
    pub counted: Vec<CountedEvent>,
    pub requests: Vec<ReceivedRequest>,
    answers: HashMap<String, StoredAnswer>,
    held: HashSet<String>,
    created: u64,
}

impl Books {
    pub fn new(secret_key: &str) -> Self {
        Self {
            secret_key: secret_key.to_owned(),
            faults: VecDeque::new(),
            counted: Vec::new(),
            requests: Vec::new(),
            answers: HashMap::new(),
            held: HashSet::new(),
            created: 0,
        }
    }

    /// Handles a request.
    pub fn answer(&mut self, request: ReceivedRequest, now_s: u64) -> BookAnswer {
        self.requests.push(request.clone());
        let mut answer = self.decide(&request, now_s);
        answer.headers.push(("Request-Id", format!("req_{}", self.requests.len())));
        self.held.extend(answer.held.iter().cloned());
        answer
    }

    /// Ends a request whose answer was delivered or lost.
    pub fn release(&mut self, held: &[String]) {
        for key in held {
            self.held.remove(key);
        }
    }

    fn decide(&mut self, request: &ReceivedRequest, now_s: u64) -> BookAnswer {
        if let Some(refused) = self.check_key(request) {
            return refused;
        }
        let fault = self.faults.pop_front();
        if let Some(StripeFault::RateLimited { retry_after_s }) = fault {
            let headers = retry_after_s.map(|seconds| ("Retry-After", seconds.to_string())).into_iter().collect();
            let text =
                "Request rate limit exceeded. Learn more about rate limits here https://stripe.com/docs/rate-limits.";
            return BookAnswer { headers, ..refuse(429, json!({ "code": "rate_limit", "message": text })) };
        }
        if let Some(StripeFault::Refuse { status, error }) = fault {
            return refuse(status, error);
        }
        if fault == Some(StripeFault::LostRequest) {
            return BookAnswer { delivery: AnswerDelivery::Never, ..success(json!({})) };
        }
        if fault == Some(StripeFault::LockTimeout) || meter_of(request).is_some_and(|meter| self.held.contains(&meter))
        {
            let text = "This object cannot be accessed right now because another API request or Stripe process is \
                        currently accessing it.";
            return refuse(429, json!({ "code": "lock_timeout", "message": text }));
        }
        if let Some(stored) = self.stored(request, now_s) {
            return stored;
        }
        self.work(request, fault, now_s)
    }

    fn check_key(&self, request: &ReceivedRequest) -> Option<BookAnswer> {
        let given = request.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
        let text = match given {
            Some(key) if key == self.secret_key => return None,
            Some(_) => "Invalid API Key provided: sk_test_****",
            None => "You did not provide an API key. You need to provide your API key in the Authorization header.",
        };
        Some(refuse(401, json!({ "message": text })))
    }

    /// Returns what is stored for an idempotency key, or why the key cannot be used.
    fn stored(&mut self, request: &ReceivedRequest, now_s: u64) -> Option<BookAnswer> {
        let key = request.idempotency_key.as_ref()?;
        if self.held.contains(key) {
            let text = format!("There is currently another in-progress request using this Idempotent Key: {key}.");
            return Some(refuse(
                409,
                json!({ "type": "idempotency_error", "code": "idempotency_key_in_use", "message": text }),
            ));
        }
        self.answers.retain(|_, stored| now_s < stored.stored_at_s.saturating_add(STRIPE_REMEMBERS.as_secs()));
        let stored = self.answers.get(key)?;
        if (&stored.path, &stored.fields) != (&request.path, &request.fields) {
            let text = format!(
                "Keys for idempotent requests can only be used with the same parameters they were first used with. \
                 Try using a key other than '{key}' if you meant to execute a different request."
            );
            return Some(refuse(400, json!({ "type": "idempotency_error", "message": text })));
        }
        let headers = vec![("Idempotent-Replayed", "true".to_owned()), ("Original-Request", "req_first".to_owned())];
        Some(BookAnswer { status: stored.status, headers, ..success(stored.body.clone()) })
    }

    fn work(&mut self, request: &ReceivedRequest, fault: Option<StripeFault>, now_s: u64) -> BookAnswer {
        if let Some(refused) = check_fields(request, now_s) {
            return refused;
        }
        let mut answer = match &fault {
            Some(StripeFault::ServerError(status)) => broken(*status),
            _ => self.create(request, now_s),
        };
        if let Some(StripeFault::ServerErrorAfterCounting(status)) = fault {
            answer = broken(status);
        }
        if let Some(key) = &request.idempotency_key {
            let BookAnswer { status, body, .. } = answer.clone();
            let (path, fields) = (request.path.clone(), request.fields.clone());
            self.answers.insert(key.clone(), StoredAnswer { path, fields, status, body, stored_at_s: now_s });
        }
        match fault {
            Some(StripeFault::LostAnswer) => answer.delivery = AnswerDelivery::Never,
            Some(StripeFault::Slow(pause)) => {
                answer.delivery = AnswerDelivery::After(pause);
                answer.held = request.idempotency_key.iter().cloned().chain(meter_of(request)).collect();
            }
            _ => {}
        }
        answer
    }

    /// Makes the object that the request asks for.
    fn create(&mut self, request: &ReceivedRequest, now_s: u64) -> BookAnswer {
        self.created += 1;
        let number = self.created;
        match request.path.as_str() {
            "/v1/billing/meter_events" => self.count(request, now_s),
            "/v1/customers" => success(json!({ "id": format!("cus_{number}"), "object": "customer" })),
            "/v1/checkout/sessions" => success(json!({
                "id": format!("cs_test_{number}"), "object": "checkout.session", "mode": request.field("mode"),
                "url": format!("https://checkout.stripe.com/c/pay/cs_test_{number}"),
            })),
            "/v1/billing_portal/sessions" => success(json!({
                "id": format!("bps_{number}"), "object": "billing_portal.session",
                "url": format!("https://billing.stripe.com/p/session/test_{number}"),
            })),
            path => refuse(404, json!({ "message": format!("Unrecognized request URL (POST: {path}).") })),
        }
    }

    fn count(&mut self, request: &ReceivedRequest, now_s: u64) -> BookAnswer {
        let field = |name: &str| request.field(name).unwrap_or_default().to_owned();
        let generated = format!("generated-{}", self.created);
        let identifier = request.field("identifier").map_or(generated, str::to_owned);
        let remembered = |event: &&CountedEvent| now_s < event.counted_at_s.saturating_add(STRIPE_REMEMBERS.as_secs());
        if self.counted.iter().filter(remembered).any(|event| event.identifier == identifier) {
            let text = format!("An event already exists with identifier {identifier}.");
            return BookAnswer {
                headers: vec![("Stripe-Should-Retry", "false".to_owned())],
                ..refuse(400, json!({ "message": text }))
            };
        }
        let timestamp_s = request.field("timestamp").and_then(|time| time.parse().ok()).unwrap_or(now_s);
        let event = CountedEvent {
            event_name: field("event_name"),
            customer: field("payload[stripe_customer_id]"),
            value: field("payload[value]").parse().unwrap_or(0),
            identifier: identifier.clone(),
            timestamp_s,
            counted_at_s: now_s,
        };
        let body = json!({
            "object": "billing.meter_event", "created": now_s, "event_name": event.event_name, "livemode": false,
            "identifier": identifier, "timestamp": timestamp_s,
            "payload": { "stripe_customer_id": event.customer, "value": event.value.to_string() },
        });
        self.counted.push(event);
        success(body)
    }
}

/// Returns the meter of a customer, which one request at a time may use.
fn meter_of(request: &ReceivedRequest) -> Option<String> {
    Some(format!("{} {}", request.field("event_name")?, request.field("payload[stripe_customer_id]")?))
}

/// Checks the parameters of a meter event. Other requests are checked for their required fields.
fn check_fields(request: &ReceivedRequest, now_s: u64) -> Option<BookAnswer> {
    const METER: [&str; 5] = ["event_name", "payload[stripe_customer_id]", "payload[value]", "identifier", "timestamp"];
    let required: &[&str] = match request.path.as_str() {
        "/v1/billing/meter_events" => &METER[..3],
        "/v1/checkout/sessions" => &["mode", "success_url", "line_items[0][price]"],
        "/v1/billing_portal/sessions" => &["customer"],
        _ => &[],
    };
    if let Some(missing) = required.iter().find(|name| request.field(name).is_none_or(str::is_empty)) {
        let text = format!("Missing required param: {missing}.");
        return Some(refuse(400, json!({ "code": "parameter_missing", "param": missing, "message": text })));
    }
    if request.path != "/v1/billing/meter_events" {
        return None;
    }
    if let Some((name, _)) = request.fields.iter().find(|(name, _)| !METER.contains(&name.as_str())) {
        let text = format!("Received unknown parameter: {name}");
        return Some(refuse(400, json!({ "code": "parameter_unknown", "param": name, "message": text })));
    }
    let lengths =
        [METER_EVENT_NAME_BYTES_MAX, STRIPE_ID_BYTES_MAX, STRIPE_ID_BYTES_MAX, METER_IDENTIFIER_BYTES_MAX, 20];
    let long = |(name, most): &(&str, usize)| request.field(name).is_some_and(|value| value.chars().count() > *most);
    if let Some((name, most)) = METER.into_iter().zip(lengths).find(long) {
        let text = format!("Invalid string: the maximum length of {name} is {most} characters.");
        return Some(refuse(400, json!({ "code": "parameter_invalid_string_length", "param": name, "message": text })));
    }
    if request.field("payload[value]").is_none_or(|value| value.parse::<u64>().is_err()) {
        let text = "The meter event value must be a whole number.";
        return Some(refuse(
            400,
            json!({ "code": "meter_event_invalid_value", "param": "payload[value]", "message": text }),
        ));
    }
    check_time(request.field("timestamp")?, now_s)
}

fn check_time(timestamp: &str, now_s: u64) -> Option<BookAnswer> {
    let error = |text: String| Some(refuse(400, json!({ "param": "timestamp", "message": text })));
    let Ok(timestamp_s) = timestamp.parse::<u64>() else { return error(format!("Invalid integer: {timestamp}")) };
    let oldest_s = now_s.saturating_sub(METER_EVENT_AGE_MAX.as_secs());
    if timestamp_s < oldest_s {
        let text = "The event timestamp cannot be more than 35 days in past.";
        return error(format!("{text} Expected a timestamp greater than or equal to {oldest_s}."));
    }
    if timestamp_s > now_s.saturating_add(METER_EVENT_AHEAD_MAX.as_secs()) {
        return error("The event timestamp cannot be more than 5 minutes in the future.".to_owned());
    }
    None
}

fn success(body: Value) -> BookAnswer {
    BookAnswer { status: 200, headers: Vec::new(), body, delivery: AnswerDelivery::AtOnce, held: Vec::new() }
}

fn refuse(status: u16, mut error: Value) -> BookAnswer {
    if error["type"].is_null() {
        error["type"] = json!("invalid_request_error");
    }
    BookAnswer { status, ..success(json!({ "error": error })) }
}

fn broken(status: u16) -> BookAnswer {
    refuse(status, json!({ "type": "api_error", "message": "An unknown error occurred." }))
}
