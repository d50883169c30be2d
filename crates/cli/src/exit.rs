//! Exit codes. Scripts rely on them: `docs/cli.md` and the help of the program list them.

use std::{error::Error, fmt, process::ExitCode};

use pandastack_client::{ClientError, ConfigError};

/// Shown at the end of the program's help.
pub const EXIT_CODES_HELP: &str = "\
Exit codes:
  0    success
  1    failure
  2    wrong usage, or an id that several things begin with
  3    not found
  4    not logged in, or not allowed
  5    a limit of the plan, a budget, or no capacity
  6    the server does not answer
  124  timeout
  130  interrupted
  `exec`, `run`, `run-code`, `attach`, `shell` and `db psql` end with the exit code of the command.";

/// Why the program ends, as a script sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    Failure,
    Usage,
    NotFound,
    Denied,
    Full,
    NoAnswer,
    TimedOut,
}

/// A failure that is not the server's.
#[derive(Debug)]
pub struct CliError {
    pub reason: ExitReason,
    pub text: String,
}

/// A server's refusal, with the next step.
#[derive(Debug)]
pub struct AdvisedError {
    pub error: ClientError,
    pub step: &'static str,
}

impl ExitReason {
    /// Returns the exit code.
    pub fn code(self) -> ExitCode {
        ExitCode::from(match self {
            ExitReason::Failure => 1,
            ExitReason::Usage => 2,
            ExitReason::NotFound => 3,
            ExitReason::Denied => 4,
            ExitReason::Full => 5,
            ExitReason::NoAnswer => 6,
            ExitReason::TimedOut => 124,
        })
    }

    /// Makes an error that ends the program with this code.
    pub fn error(self, text: impl Into<String>) -> anyhow::Error {
        CliError { reason: self, text: text.into() }.into()
    }

    /// Finds the reason of a failed call.
    pub fn of(error: &ClientError) -> Self {
        if error.is_timeout() {
            return ExitReason::TimedOut;
        }
        let code = error.code().unwrap_or_default();
        match (error, error.status()) {
            (ClientError::Unreachable { .. } | ClientError::Broken { .. } | ClientError::Socket { .. }, _) => {
                ExitReason::NoAnswer
            }
            // A refusal because of money or a quota may have any status.
            _ if code.starts_with("quota.") || code.starts_with("billing.") || code.starts_with("capacity") => {
                ExitReason::Full
            }
            // The server has room, but this database or template cannot be used now.
            (_, Some(503)) if code.starts_with("database.") || code.starts_with("template.") => ExitReason::Failure,
            (_, Some(404 | 410)) => ExitReason::NotFound,
            (_, Some(401 | 403)) => ExitReason::Denied,
            (_, Some(402 | 429 | 503 | 507)) => ExitReason::Full,
            (_, Some(502)) => ExitReason::NoAnswer,
            (_, Some(408 | 504)) => ExitReason::TimedOut,
            _ => ExitReason::Failure,
        }
    }
}

/// Returns the exit code of a failed command.
pub fn exit_code_of(error: &anyhow::Error) -> ExitCode {
    let reason = error.chain().find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<CliError>() {
            return Some(error.reason);
        }
        if let Some(AdvisedError { error, .. }) = cause.downcast_ref::<AdvisedError>() {
            return Some(ExitReason::of(error));
        }
        match cause.downcast_ref::<ConfigError>() {
            Some(ConfigError::NoContext { .. }) => Some(ExitReason::NotFound),
            Some(_) => Some(ExitReason::Failure),
            None => cause.downcast_ref::<ClientError>().map(ExitReason::of),
        }
    });
    reason.unwrap_or(ExitReason::Failure).code()
}

impl fmt::Display for CliError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Error for CliError {}

impl fmt::Display for AdvisedError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.error, self.step)
    }
}

impl Error for AdvisedError {
    /// The text repeats the error itself, so the chain goes on behind it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;
    use crate::advice::advise;

    fn refused(status: u16, code: &str) -> ClientError {
        ClientError::Refused { status, code: code.into(), text: "no".into(), request_id: String::new() }
    }

    fn check(status: u16, code: &str, expected: ExitReason) {
        assert_eq!(ExitReason::of(&refused(status, code)), expected, "{status} {code}");
        let wrapped = Err::<(), _>(advise(refused(status, code))).context("create a sandbox").unwrap_err();
        assert_eq!(format!("{:?}", exit_code_of(&wrapped)), format!("{:?}", expected.code()), "{status} {code}");
    }

    #[test]
    fn a_script_can_tell_refusals_apart() {
        check(404, "sandbox.not_found", ExitReason::NotFound);
        check(404, "", ExitReason::NotFound);
        check(401, "", ExitReason::Denied);
        check(403, "org.forbidden", ExitReason::Denied);
        check(403, "quota.sandboxes", ExitReason::Full);
        check(402, "billing.unpaid", ExitReason::Full);
        check(429, "", ExitReason::Full);
        check(503, "capacity.memory", ExitReason::Full);
        check(503, "database.not_ready", ExitReason::Failure);
        check(503, "template.baking", ExitReason::Failure);
        check(504, "exec.timeout", ExitReason::TimedOut);
        check(400, "fs.bad_path", ExitReason::Failure);
        check(500, "", ExitReason::Failure);
    }

    #[test]
    fn our_own_refusals_have_their_code() {
        let error = ExitReason::Usage.error("no").context("around");
        assert_eq!(format!("{:?}", exit_code_of(&error)), format!("{:?}", ExitCode::from(2)));
        assert_eq!(format!("{:?}", exit_code_of(&anyhow::anyhow!("x"))), format!("{:?}", ExitCode::from(1)));
    }
}
