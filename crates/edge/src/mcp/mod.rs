//! Tools for agents: the Model Context Protocol over its streamable HTTP transport, without
//! sessions. Every request gets a plain JSON answer; the server never pushes messages.
//! `rpc` holds the envelope, `tools` the list of tools, and `call` their execution.

mod call;
mod rpc;
mod tools;

use axum::{
    Json,
    body::Body,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use pandastack_door::http::{Answer, RequestTrace, whole_body};
use pandastack_model::SandboxId;
use serde_json::{Value, json};

use crate::{Edge, access::ReachableSandbox, limits::MCP_BATCH_MAX};
use rpc::{RpcError, RpcRequest};

/// Supported protocol versions, newest first.
const VERSIONS: &[&str] = &["2025-06-18", "2025-03-26", "2024-11-05"];
/// The version for clients that name none, as in the published API.
const VERSION_DEFAULT: &str = "2024-11-05";

const INSTRUCTIONS: &str = "A Linux machine for your own use. Commands run as root, each in a new shell; files and \
                            background processes persist. run_code keeps variables and imports between calls.";

/// The sandbox that the tools use, and the trace of the request.
#[derive(Clone, Copy)]
pub struct ToolTarget {
    id: SandboxId,
    traced: RequestTrace,
}

/// Answers a message, or a batch of messages.
pub async fn mcp(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    traced: RequestTrace,
    body: Body,
) -> Answer<Response> {
    let to = ToolTarget { id, traced };
    let bytes = whole_body(body).await?;
    let Ok(message) = serde_json::from_slice::<Value>(&bytes) else {
        let problem = RpcError::new(rpc::PARSE_ERROR, "the body is not JSON");
        return Ok((StatusCode::BAD_REQUEST, Json(problem.answer(&Value::Null))).into_response());
    };
    let answers = match message {
        Value::Array(messages) if messages.is_empty() || messages.len() > MCP_BATCH_MAX => {
            let problem =
                RpcError::new(rpc::INVALID_REQUEST, format!("a batch must have 1 to {MCP_BATCH_MAX} messages"));
            return Ok((StatusCode::BAD_REQUEST, Json(problem.answer(&Value::Null))).into_response());
        }
        Value::Array(messages) => {
            let mut answers = Vec::new();
            for message in messages {
                answers.extend(answer(&edge, to, message).await);
            }
            (!answers.is_empty()).then_some(Value::Array(answers))
        }
        message => answer(&edge, to, message).await,
    };
    Ok(match answers {
        Some(answers) => Json(answers).into_response(),
        // The body held only notifications or responses. The published API has this status here.
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Answers one message. Notifications and responses get no answer.
async fn answer(edge: &Edge, to: ToolTarget, message: Value) -> Option<Value> {
    let request = match RpcRequest::parse(message) {
        Ok(request) => request?,
        Err((asked, problem)) => return Some(problem.answer(&asked)),
    };
    let RpcRequest { id: asked, method, params } = request;
    let outcome = match method.as_str() {
        "initialize" => Ok(introduction(&params)),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": tools::list()})),
        "tools/call" => call::call(edge, to, params).await,
        other => Err(RpcError::new(rpc::METHOD_NOT_FOUND, format!("unknown method {:?}", rpc::short(other)))),
    };
    Some(match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": asked, "result": result}),
        Err(problem) => problem.answer(&asked),
    })
}

/// Describes this server, in the caller's protocol version if it is supported.
fn introduction(params: &Value) -> Value {
    let asked = params.get("protocolVersion").and_then(Value::as_str).or(Some(VERSION_DEFAULT));
    let version = VERSIONS.iter().find(|version| Some(**version) == asked).unwrap_or(&VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "pandastack-sandbox", "version": env!("CARGO_PKG_VERSION")},
        "instructions": INSTRUCTIONS,
    })
}
