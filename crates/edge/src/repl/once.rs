//! Runs code without a session, in a process of its own.

use std::collections::BTreeMap;

use axum::{Json, body::Body, extract::State};
use pandastack_door::http::{Answer, RequestTrace, json_body};
use pandastack_model::{CodeLanguage, Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::{ExecParams, Program};
use pandastack_wire_public::{RanOnce, RunOnce, RunOnceSpec};

use crate::{
    Edge,
    access::ReachableSandbox,
    exec::{CommandStart, collect},
};

/// Runs code and answers with its output. The code ends if the client disconnects.
pub async fn once(
    State(edge): State<Edge>,
    ReachableSandbox(id): ReachableSandbox,
    traced: RequestTrace,
    body: Body,
) -> Answer<Json<RanOnce>> {
    let spec = json_body::<RunOnce>(body).await?.try_into()?;
    Ok(Json(run_once(&edge, id, spec, traced).await?))
}

/// Runs code to its end.
async fn run_once(edge: &Edge, id: SandboxId, spec: RunOnceSpec, traced: RequestTrace) -> Result<RanOnce, Fault> {
    let RunOnceSpec { interpreter, code, timeout } = spec;
    let argv = vec![interpreter.program.to_owned(), interpreter.flag.to_owned(), code];
    let program = match CodeLanguage::find(interpreter.language) {
        Some(language) => Program::Code(language, argv),
        None => Program::Argv(argv),
    };
    let (cwd, mut env, user, deadline) = (None, BTreeMap::new(), None, Some(timeout));
    traced.tell(&mut env);
    let ask = ExecParams { program, cwd, env, user, stdin: false, deadline, terminal: None };
    let done = collect(edge, id, CommandStart { ask, stdin: None }).await.map_err(|fault| match fault {
        // The interpreter's path is the only path in the request.
        Fault { kind: FaultKind::Missing, code: "path.not_found", .. } => {
            let text = format!("{} is not installed in this sandbox", interpreter.program);
            Fault::new(FaultKind::Caller, "language.unavailable", text)
        }
        other => other,
    })?;
    Ok(RanOnce {
        language: interpreter.language.to_owned(),
        stdout: done.stdout,
        stderr: done.stderr,
        exit_code: done.exit_code,
        duration_ms: done.duration_ms,
        truncated: done.truncated,
    })
}
