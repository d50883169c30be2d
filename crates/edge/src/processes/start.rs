//! Starts a process.

use axum::{Json, body::Body, extract::State, http::StatusCode};
use pandastack_door::http::{Answer, RequestTrace, json_body};
use pandastack_wire_fleet::{ExecParams, Program, SpawnParams};
use pandastack_wire_public::{ExecCommand, ExecSpec, Process, SpawnRequest, SpawnSpec};

use super::render;
use crate::{Edge, access::ReachableSandbox};

/// Starts a process and answers once it runs. The process does not end with the caller.
pub async fn start(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    traced: RequestTrace,
    body: Body,
) -> Answer<(StatusCode, Json<Process>)> {
    let SpawnSpec { exec, keeps_stdin, tag } = json_body::<SpawnRequest>(body).await?.try_into()?;
    let ExecSpec { command, cwd, mut env, user, stdin: _, timeout } = exec;
    traced.tell(&mut env);
    let program = match command {
        ExecCommand::Shell(line) => Program::Shell(line),
        ExecCommand::Argv(argv) => Program::Argv(argv),
    };
    let exec = ExecParams { program, cwd, env, user, stdin: keeps_stdin, deadline: timeout, terminal: None };
    let view = edge.host.spawn(id, SpawnParams { exec, tag }).await?;
    Ok((StatusCode::CREATED, Json(render(view))))
}
