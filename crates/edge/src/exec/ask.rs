//! Turns a public exec request into a request to the host.

use axum::body::Body;
use pandastack_door::http::{RequestTrace, json_body};
use pandastack_model::Fault;
use pandastack_wire_fleet::{ExecParams, Program};
use pandastack_wire_public::{ExecCommand, ExecRequest, ExecSpec};

/// A command to start, and its standard input.
pub struct CommandStart {
    pub ask: ExecParams,
    pub stdin: Option<String>,
}

/// Reads and checks the request. Adds the trace to the command's environment.
pub async fn parse(body: Body, traced: RequestTrace) -> Result<CommandStart, Fault> {
    let mut start = CommandStart::try_from(json_body::<ExecRequest>(body).await?)?;
    traced.tell(&mut start.ask.env);
    Ok(start)
}

impl TryFrom<ExecRequest> for CommandStart {
    type Error = Fault;

    fn try_from(request: ExecRequest) -> Result<Self, Fault> {
        let ExecSpec { command, cwd, env, user, stdin, timeout } = ExecSpec::try_from(request)?;
        let program = match command {
            ExecCommand::Shell(line) => Program::Shell(line),
            ExecCommand::Argv(argv) => Program::Argv(argv),
        };
        let ask = ExecParams { program, cwd, env, user, stdin: stdin.is_some(), deadline: timeout, terminal: None };
        Ok(Self { ask, stdin })
    }
}
