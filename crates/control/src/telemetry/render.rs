//! Writes a batch of spans as OTLP in JSON. There 64-bit numbers are text and ids are hexadecimal.

use pandastack_kit::trace::{AttributeValue, Span, SpanKind};
use serde_json::{Value, json};

use crate::limits::SPAN_TEXT_CHARS_MAX;

const UNSET: u8 = 0;
const ERROR: u8 = 2;

/// Writes the body of a request to the collector.
pub fn render(service: &str, spans: &[Span]) -> Vec<u8> {
    let resource = [("service.name", service), ("service.version", env!("CARGO_PKG_VERSION"))];
    let attributes: Vec<Value> = resource.into_iter().map(|(name, value)| attribute(name, &value.into())).collect();
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let scope = json!({ "name": "pandastack", "version": env!("CARGO_PKG_VERSION") });
    let batch = json!({ "resourceSpans": [{
        "resource": { "attributes": attributes },
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] });
    batch.to_string().into_bytes()
}

fn span(span: &Span) -> Value {
    let Span { trace, name, kind, began_ns, ended_ns, notes, failure } = span;
    let kind = match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
    };
    let status = match failure {
        None => json!({ "code": UNSET }),
        Some(why) => json!({ "code": ERROR, "message": shorten(why) }),
    };
    json!({
        "traceId": trace.id(),
        "spanId": trace.span_id(),
        "parentSpanId": trace.parent_id().unwrap_or_default(),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": began_ns.to_string(),
        "endTimeUnixNano": ended_ns.to_string(),
        "attributes": notes.iter().map(|(name, note)| attribute(name, note)).collect::<Vec<_>>(),
        "status": status,
    })
}

fn attribute(name: &str, note: &AttributeValue) -> Value {
    let value = match note {
        AttributeValue::Text(text) => json!({ "stringValue": shorten(text) }),
        AttributeValue::Number(number) => json!({ "intValue": number.to_string() }),
    };
    json!({ "key": name, "value": value })
}

/// Limits text that comes from clients or guests.
fn shorten(text: &str) -> &str {
    text.char_indices().nth(SPAN_TEXT_CHARS_MAX).map_or(text, |(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use pandastack_kit::trace::Trace;

    use super::*;

    #[test]
    fn a_batch_is_written_as_otlp_has_it() {
        let theirs = Trace::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
        let trace = theirs.child();
        let notes = vec![
            ("http.response.status_code", AttributeValue::Number(503)),
            ("url.path", AttributeValue::Text("é".repeat(SPAN_TEXT_CHARS_MAX + 1))),
        ];
        let (began_ns, ended_ns) = (1_700_000_000_000_000_001, 1_700_000_000_000_000_002);
        let failure = Some("busy".to_owned());
        let one = Span { trace, name: "GET /x".into(), kind: SpanKind::Server, began_ns, ended_ns, notes, failure };
        let two = Span { trace: theirs, kind: SpanKind::Internal, notes: vec![], failure: None, ..one.clone() };
        let written: Value = serde_json::from_slice(&render("ours", &[one, two])).unwrap();
        let resource = &written["resourceSpans"][0];
        assert_eq!(
            resource["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "ours"}})
        );
        let spans = &resource["scopeSpans"][0]["spans"];
        assert_eq!(
            spans[0],
            json!({
                "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
                "spanId": trace.span_id(),
                "parentSpanId": "00f067aa0ba902b7",
                "name": "GET /x",
                "kind": 2,
                "startTimeUnixNano": "1700000000000000001",
                "endTimeUnixNano": "1700000000000000002",
                "attributes": [
                    {"key": "http.response.status_code", "value": {"intValue": "503"}},
                    {"key": "url.path", "value": {"stringValue": "é".repeat(SPAN_TEXT_CHARS_MAX)}},
                ],
                "status": {"code": 2, "message": "busy"},
            })
        );
        assert_eq!((&spans[1]["parentSpanId"], &spans[1]["kind"]), (&json!(""), &json!(1)));
        assert_eq!(spans[1]["status"], json!({"code": 0}));
    }
}
