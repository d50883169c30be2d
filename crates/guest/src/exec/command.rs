//! Turns a `StartProcess` into spawn arguments: program candidates, arguments, environment, folder
//! and user. Every invalid request is rejected here or by the kernel, with an error of its own.

use std::{
    collections::BTreeMap,
    ffi::{CString, NulError},
    path::Path,
};

use pandastack_sys::process::{self, ChildSpec, SpawnError, SpawnStep, Stdio};
use pandastack_wire_guest::{CommandLine, EnvVariable, ErrorKind, StartProcess};

use super::{
    account::{self, Account, AccountError},
    environment,
};
use crate::session::{GuestFault, kind_of};

const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const ROOT_HOME: &str = "/root";

/// A process that did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessStartError {
    #[error("the command is empty")]
    Empty,
    #[error("{what} contains a NUL byte")]
    ZeroByte { what: &'static str },
    #[error("{name:?} is not a valid variable name")]
    Variable { name: String },
    #[error("working directory {cwd} is not absolute")]
    RelativeCwd { cwd: String },
    #[error(transparent)]
    Account(#[from] AccountError),
    #[error("change to directory {cwd}")]
    Cwd {
        cwd: String,
        #[source]
        cause: std::io::Error,
    },
    #[error("run {program}")]
    Program {
        program: String,
        #[source]
        cause: std::io::Error,
    },
    #[error("switch to user {user}")]
    User {
        user: String,
        #[source]
        cause: std::io::Error,
    },
    #[error("start a process")]
    System(#[source] std::io::Error),
}

impl ProcessStartError {
    /// Returns the kind of error reported to the host.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            ProcessStartError::Empty
            | ProcessStartError::ZeroByte { .. }
            | ProcessStartError::Variable { .. }
            | ProcessStartError::RelativeCwd { .. } => ErrorKind::Invalid,
            ProcessStartError::Account(AccountError::Unknown { .. }) => ErrorKind::Missing,
            ProcessStartError::Account(AccountError::Read { cause, .. })
            | ProcessStartError::Cwd { cause, .. }
            | ProcessStartError::Program { cause, .. }
            | ProcessStartError::User { cause, .. }
            | ProcessStartError::System(cause) => kind_of(cause),
        }
    }
}

impl From<ProcessStartError> for GuestFault {
    fn from(error: ProcessStartError) -> Self {
        GuestFault::describe(error.kind(), &error)
    }
}

/// A validated request.
#[derive(Debug)]
pub(crate) struct ProcessCommand {
    programs: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    account: Option<Account>,
}

impl ProcessCommand {
    /// Validates a request and fills in defaults. The environment comes from these sources, later
    /// ones override: ours, the user's, the machine's, the sandbox's, the request's.
    pub(crate) fn resolve(start: &StartProcess, sandbox_env: &[EnvVariable]) -> Result<Self, ProcessStartError> {
        let account = start.user.as_deref().map(account::find).transpose()?;
        let (name, home) = match &account {
            Some(account) => (account.name.as_str(), account.home.as_str()),
            None => ("root", ROOT_HOME),
        };
        let mut env = BTreeMap::from([
            ("PATH", DEFAULT_PATH),
            ("HOME", home),
            ("USER", name),
            ("LOGNAME", name),
            ("LANG", "C.UTF-8"),
        ]);
        if start.terminal.is_some() {
            env.insert("TERM", "xterm-256color");
        }
        let machine_wide = environment::read();
        env.extend(machine_wide.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        for EnvVariable { name, value } in sandbox_env.iter().chain(&start.env) {
            if name.is_empty() || name.contains('=') {
                return Err(ProcessStartError::Variable { name: name.clone() });
            }
            env.insert(name, value);
        }
        let (programs, argv) = match &start.program {
            CommandLine::Shell(text) => (
                vec![c"/bin/sh".to_owned()],
                vec![c"sh".to_owned(), c"-c".to_owned(), zero_ended("the command", text)?],
            ),
            CommandLine::Argv(argv) => {
                let program = argv.first().filter(|program| !program.is_empty()).ok_or(ProcessStartError::Empty)?;
                let argv = argv.iter().map(|argument| zero_ended("an argument", argument)).collect::<Result<_, _>>()?;
                (candidates(program, env["PATH"])?, argv)
            }
        };
        let cwd = match &start.cwd {
            Some(cwd) if cwd.starts_with('/') => zero_ended("the working directory", cwd)?,
            Some(cwd) => return Err(ProcessStartError::RelativeCwd { cwd: cwd.clone() }),
            None if Path::new(home).is_dir() => zero_ended("the home directory", home)?,
            None => c"/".to_owned(),
        };
        let env = env.iter().map(|(name, value)| zero_ended("a variable", &format!("{name}={value}")));
        Ok(Self { programs, argv, env: env.collect::<Result<_, _>>()?, cwd, account })
    }

    /// Returns the environment, as `NAME=value`.
    pub(crate) fn env(&self) -> &[CString] {
        &self.env
    }

    /// Returns the working directory.
    pub(crate) fn cwd(&self) -> &CString {
        &self.cwd
    }

    /// Starts the process and returns its id.
    pub(crate) fn spawn(&self, stdio: Stdio<'_>) -> Result<i32, ProcessStartError> {
        let spawn = ChildSpec {
            programs: &self.programs,
            argv: &self.argv,
            env: &self.env,
            cwd: Some(&self.cwd),
            credentials: self.account.as_ref().map(|account| &account.credentials),
            stdio,
        };
        process::spawn(&spawn).map_err(|error| match error {
            SpawnError::Clone(cause) => ProcessStartError::System(cause),
            SpawnError::Child { step: SpawnStep::Cwd, cause } => {
                ProcessStartError::Cwd { cwd: self.cwd.to_string_lossy().into_owned(), cause }
            }
            SpawnError::Child { step: SpawnStep::Program, cause } => {
                let program =
                    self.argv.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
                ProcessStartError::Program { program, cause }
            }
            SpawnError::Child { step: SpawnStep::Credentials, cause } => {
                let user = self.account.as_ref().map(|account| account.name.clone()).unwrap_or_default();
                ProcessStartError::User { user, cause }
            }
            SpawnError::Child { step: SpawnStep::Session | SpawnStep::Streams | SpawnStep::Terminal, cause } => {
                ProcessStartError::System(cause)
            }
        })
    }
}

/// Lists the candidate files of a program name, in the order of PATH.
fn candidates(program: &str, path: &str) -> Result<Vec<CString>, ProcessStartError> {
    if program.contains('/') {
        return Ok(vec![zero_ended("the program", program)?]);
    }
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders.map(|folder| zero_ended("the program", &format!("{folder}/{program}"))).collect()
}

fn zero_ended(what: &'static str, text: &str) -> Result<CString, ProcessStartError> {
    CString::new(text).map_err(|_: NulError| ProcessStartError::ZeroByte { what })
}
