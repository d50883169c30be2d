//! Runs a command while a PostgreSQL server for tests runs: `with-postgres cargo nextest run …`.
//! The command finds its URL in an environment variable.

use std::{
    env,
    process::{Command, ExitCode},
};

use pandastack_database::server::{PostgresServer, SHARED};

fn main() -> ExitCode {
    let mut words = env::args_os().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: with-postgres COMMAND [ARGUMENTS]");
        return ExitCode::FAILURE;
    };
    let server = match PostgresServer::start() {
        Ok(server) => server,
        Err(error) => {
            eprintln!("with-postgres: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ran = Command::new(&program).args(words).env(SHARED, server.url("postgres").expose()).status();
    match ran {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => {
            eprintln!("with-postgres: run {}: {error}", program.display());
            ExitCode::FAILURE
        }
    }
}
