//! The envelope of a message: JSON-RPC 2.0, and what the contract says about bad ones.

use serde_json::Value;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const INVALID_PARAMS: i32 = -32602;

/// A JSON-RPC error.
#[derive(Debug, PartialEq, Eq)]
pub struct RpcFault {
    pub code: i32,
    pub text: String,
}

impl RpcFault {
    pub fn new(code: i32, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// A message from a client.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// Needs an answer.
    Request { id: Value, method: String, params: Option<Value>, message: Value },
    /// A notification or a response, which need none.
    Silent,
}

impl Incoming {
    /// Reads a message.
    pub fn parse(bytes: &[u8]) -> Result<Self, RpcFault> {
        let bad = |text: &str| Err(RpcFault::new(INVALID_REQUEST, text));
        let message: Value = serde_json::from_slice(bytes)
            .map_err(|error| RpcFault::new(PARSE_ERROR, format!("the body is not JSON: {error}")))?;
        let fields = match &message {
            Value::Object(fields) => fields,
            Value::Array(_) => return bad("batches are not supported: send one message per request"),
            _ => return bad("a message must be an object"),
        };
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return bad("jsonrpc must be \"2.0\"");
        }
        let method = match fields.get("method") {
            Some(Value::String(method)) => method.clone(),
            None if fields.contains_key("result") || fields.contains_key("error") => return Ok(Self::Silent),
            _ => return bad("method must be a string"),
        };
        let id = match fields.get("id") {
            None => return Ok(Self::Silent),
            Some(id @ Value::String(_)) => id.clone(),
            Some(id) if id.is_i64() => id.clone(),
            Some(_) => return bad("id must be a string or a whole number"),
        };
        let params = fields.get("params").filter(|params| !params.is_null()).cloned();
        Ok(Self::Request { id, method, params, message })
    }
}

/// Checks parameters whose form the SDK would report as an unknown method.
pub fn check_params(method: &str, params: Option<&Value>) -> Result<(), RpcFault> {
    let bad = |text: &str| Err(RpcFault::new(INVALID_PARAMS, text));
    if params.is_some_and(|params| !params.is_object()) {
        return bad("params must be an object");
    }
    let field = |name| params.and_then(|params| params.get(name)).filter(|field| !field.is_null());
    if field("_meta").is_some_and(|meta| !meta.is_object()) {
        return bad("_meta must be an object");
    }
    if field("cursor").is_some_and(|cursor| !cursor.is_string()) {
        return bad("cursor must be a string");
    }
    match method {
        "tools/call" if !field("name").is_some_and(Value::is_string) => bad("name is required, as a string"),
        "tools/call" if field("arguments").is_some_and(|arguments| !arguments.is_object()) => {
            bad("arguments must be an object")
        }
        "resources/read" if !field("uri").is_some_and(Value::is_string) => bad("uri is required, as a string"),
        _ => Ok(()),
    }
}

/// Removes the request for progress notifications.
pub fn drop_progress(message: &mut Value) {
    if let Some(meta) = message.pointer_mut("/params/_meta").and_then(Value::as_object_mut) {
        meta.remove("progressToken");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(bytes: &[u8]) -> i32 {
        Incoming::parse(bytes).unwrap_err().code
    }

    #[test]
    fn bad_messages_have_their_codes() {
        for bytes in [&b""[..], b"{", b"hello", b"{\"a\":\"\xff\"}"] {
            assert_eq!(code(bytes), PARSE_ERROR);
        }
        for message in [
            json!([]),
            json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]),
            json!(5),
            json!({"id": 1, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1}),
            json!({"jsonrpc": "2.0", "id": 1, "method": 5}),
        ] {
            assert_eq!(code(message.to_string().as_bytes()), INVALID_REQUEST, "{message}");
        }
        for message in [json!({"jsonrpc": "2.0", "method": "notifications/x"}), json!({"jsonrpc": "2.0", "result": 1})]
        {
            assert_eq!(Incoming::parse(message.to_string().as_bytes()), Ok(Incoming::Silent));
        }
    }

    #[test]
    fn bad_params_are_named() {
        let bad = [
            ("ping", json!([1])),
            ("tools/list", json!({"cursor": 5})),
            ("tools/call", json!({})),
            ("tools/call", json!({"name": 5})),
            ("tools/call", json!({"name": "x", "arguments": []})),
            ("tools/call", json!({"name": "x", "_meta": 1})),
            ("resources/read", json!({"uri": null})),
        ];
        for (method, params) in bad {
            assert_eq!(check_params(method, Some(&params)).unwrap_err().code, INVALID_PARAMS, "{method} {params}");
        }
        assert_eq!(check_params("tools/call", Some(&json!({"name": "x", "arguments": null}))), Ok(()));
        assert!(check_params("tools/call", None).is_err());
    }

    #[test]
    fn progress_is_dropped_and_the_rest_stays() {
        let mut message = json!({"params": {"_meta": {"progressToken": 1, "x": 2}, "name": "n"}});
        drop_progress(&mut message);
        assert_eq!(message, json!({"params": {"_meta": {"x": 2}, "name": "n"}}));
    }
}
