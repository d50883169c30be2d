//! The message envelope: JSON-RPC 2.0.

use serde_json::{Value, json};

pub const PARSE_ERROR: i32 = -32700;
pub const INVALID_REQUEST: i32 = -32600;
pub const METHOD_NOT_FOUND: i32 = -32601;
pub const INVALID_PARAMS: i32 = -32602;

/// A request that needs an answer.
#[derive(Debug, PartialEq)]
pub struct RpcRequest {
    /// A string or a number.
    pub id: Value,
    pub method: String,
    /// An object, or nothing.
    pub params: Value,
}

/// A JSON-RPC error.
#[derive(Debug, PartialEq, Eq)]
pub struct RpcError {
    code: i32,
    text: String,
}

impl RpcError {
    pub fn new(code: i32, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Writes the error as a JSON-RPC response.
    pub fn answer(&self, id: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": self.code, "message": self.text}})
    }
}

impl RpcRequest {
    /// Parses a message. `None` for messages that need no answer: notifications, and responses,
    /// because this server sends no requests.
    pub fn parse(message: Value) -> Result<Option<Self>, (Value, RpcError)> {
        let bad = |id: Value, text: &str| Err((id, RpcError::new(INVALID_REQUEST, text)));
        let Value::Object(mut message) = message else { return bad(Value::Null, "a message must be an object") };
        let id = match message.remove("id") {
            id @ (None | Some(Value::String(_) | Value::Number(_))) => id,
            Some(_) => return bad(Value::Null, "id must be a string or a number"),
        };
        let known = id.clone().unwrap_or(Value::Null);
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return bad(known, "jsonrpc must be \"2.0\"");
        }
        let method = match message.remove("method") {
            Some(Value::String(method)) => method,
            None if message.contains_key("result") || message.contains_key("error") => return Ok(None),
            _ => return bad(known, "method required"),
        };
        let Some(id) = id else { return Ok(None) };
        match message.remove("params") {
            params @ (None | Some(Value::Object(_) | Value::Null)) => {
                Ok(Some(Self { id, method, params: params.unwrap_or(Value::Null) }))
            }
            Some(_) => Err((id, RpcError::new(INVALID_PARAMS, "params must be an object"))),
        }
    }
}

/// Shortens a caller's text for use in an error.
pub fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: Value, expected: Result<Option<(&str, Value)>, i32>) {
        let got = RpcRequest::parse(message.clone()).map_err(|(_, problem)| problem.code);
        let got = got.map(|request| request.map(|request| (request.method, request.id)));
        assert_eq!(got, expected.map(|known| known.map(|(method, id)| (method.to_owned(), id))), "{message}");
    }

    #[test]
    fn messages_are_sorted() {
        check(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), Ok(Some(("ping", json!(1)))));
        check(json!({"jsonrpc": "2.0", "id": "a", "method": "ping", "params": {}}), Ok(Some(("ping", json!("a")))));
        check(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), Ok(None));
        check(json!({"jsonrpc": "2.0", "id": 1, "result": {}}), Ok(None));
        for bad in [
            json!(1),
            json!({"id": 1, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": [1], "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1}),
            json!({"jsonrpc": "2.0", "id": 1, "method": 5}),
        ] {
            check(bad, Err(INVALID_REQUEST));
        }
        check(json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}), Err(INVALID_PARAMS));
    }
}
