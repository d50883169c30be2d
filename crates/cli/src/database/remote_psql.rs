//! psql of a database's own machine, for computers that have none: in a terminal, or for a script.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Read, Write},
    process::ExitCode,
};

use anyhow::Context;
use pandastack_client::{
    Client, TerminalEvent, TerminalInput, TerminalOutput,
    wire::{ExecRequest, ManagedDatabase},
};
use pandastack_kit::Secret;

use super::psql::no_credentials;
use crate::{
    GlobalArgs,
    advice::advise,
    exit::ExitReason,
    follow::{exit_code, follow},
    interrupt::StopSignals,
    raw::RawTerminal,
    terminal::LocalTerminal,
};

const PROGRAM: &str = "/usr/lib/postgresql/16/bin/psql";
/// The pooler in the machine, which clients from outside reach too.
const ADDRESS: [(&str, &str); 2] = [("PGHOST", "127.0.0.1"), ("PGPORT", "6432")];
/// The machine's disk keeps no history: branches would get a copy of it.
const SETTINGS: [(&str, &str); 3] = [("PGSSLMODE", "disable"), ("LC_ALL", "C.UTF-8"), ("PSQL_HISTORY", "/dev/null")];
/// Longest script. It is sent in one request.
const SCRIPT_BYTES_MAX: u64 = 1024 * 1024;
/// Sent by the machine when it is ready to read the password without showing it.
const ENQUIRY: u8 = 5;
/// Options of psql that name files. They would be files of the machine.
const FILE_OPTIONS: [&str; 6] = ["-f", "--file", "-o", "--output", "-L", "--log-file"];

/// A psql that runs in the machine of a database.
pub(super) struct RemotePsql {
    sandbox: String,
    arguments: Vec<String>,
    user: String,
    name: String,
    password: Secret<String>,
}

impl RemotePsql {
    /// Prepares psql for a database that has credentials.
    pub fn new(database: &ManagedDatabase, arguments: Vec<String>) -> anyhow::Result<Self> {
        let ManagedDatabase { id, sandbox_id, username, password, database: name, .. } = database;
        let (Some(user), Some(password), Some(name)) = (username, password, name) else {
            return Err(no_credentials(id));
        };
        if let Some(option) = arguments.iter().find(|argument| names_file(argument)) {
            let text = format!(
                "{option} would be a file of the database's machine; use standard input and output, as in: pandastack \
                 db psql ID < FILE"
            );
            return Err(ExitReason::Usage.error(text));
        }
        Ok(Self {
            sandbox: sandbox_id.as_ref().unwrap_or(id).clone(),
            arguments,
            user: user.clone(),
            name: name.clone(),
            password: Secret::new(password.clone()),
        })
    }

    /// Runs psql and returns its exit code.
    pub async fn run(self, client: &Client, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
        if self.has_command() {
            return self.run_script(client, global, None).await;
        }
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            return self.open(client).await;
        }
        let script = script(&mut io::stdin().lock())?;
        self.run_script(client, global, Some(script)).await
    }

    fn has_command(&self) -> bool {
        self.arguments
            .iter()
            .any(|argument| ["-c", "-l", "--list"].contains(&argument.as_str()) || argument.starts_with("--command"))
    }

    /// Opens psql in this terminal.
    async fn open(self, client: &Client) -> anyhow::Result<ExitCode> {
        let terminal = LocalTerminal::listen()?;
        let opened = client.run_in_terminal(&self.sandbox, &self.terminal_line(), RawTerminal::size()).await;
        let (mut keyboard, mut screen) = opened.map_err(advise)?;
        match hand_over(&self.password, &mut keyboard, &mut screen).await? {
            Some(code) => Ok(exit_code(code)),
            None => terminal.connect(keyboard, screen).await,
        }
    }

    /// Runs psql without a terminal. A script is its standard input.
    async fn run_script(
        self,
        client: &Client,
        global: &GlobalArgs,
        script: Option<String>,
    ) -> anyhow::Result<ExitCode> {
        follow(client, &self.sandbox, &self.request(script), &mut StopSignals::listen()?, global).await
    }

    /// A request that runs psql without a terminal.
    pub(super) fn request(&self, script: Option<String>) -> ExecRequest {
        let mut env: BTreeMap<String, String> =
            self.variables().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        env.insert("PGPASSWORD".to_owned(), self.password.reveal().clone());
        let argv = std::iter::once(PROGRAM.to_owned()).chain(self.arguments.iter().cloned()).collect();
        ExecRequest { argv: Some(argv), env: Some(env), stdin: script, ..ExecRequest::default() }
    }

    /// The shell line that reads the password and becomes psql. The address of the terminal has it,
    /// so the password is not in it.
    pub(super) fn terminal_line(&self) -> String {
        let variables = self.variables().map(|(name, value)| format!(" {name}={}", quoted(value))).concat();
        let arguments: String = self.arguments.iter().map(|argument| format!(" {}", quoted(argument))).collect();
        format!(
            "stty -echo; printf '\\005'; IFS= read -r PGPASSWORD; stty echo; export PGPASSWORD; exec env{variables} \
             {PROGRAM}{arguments}"
        )
    }

    fn variables(&self) -> [(&str, &str); 7] {
        let [host, port] = ADDRESS;
        let [tls, locale, history] = SETTINGS;
        [host, port, ("PGUSER", &self.user), ("PGDATABASE", &self.name), tls, locale, history]
    }
}

/// Sends the password when the machine asks for it. Returns the exit code if the line ended first.
async fn hand_over(
    password: &Secret<String>,
    keyboard: &mut TerminalInput,
    screen: &mut TerminalOutput,
) -> anyhow::Result<Option<i32>> {
    loop {
        match screen.next().await.map_err(advise)? {
            TerminalEvent::Exit(code) => return Ok(Some(code)),
            TerminalEvent::Bytes(bytes) => match bytes.iter().position(|byte| *byte == ENQUIRY) {
                Some(_) => {
                    keyboard.send(format!("{}\n", password.reveal()).into_bytes().into()).await?;
                    return Ok(None);
                }
                // A complaint of the shell.
                None => io::stdout().lock().write_all(&bytes).context("write to standard output")?,
            },
        }
    }
}

fn script(input: &mut dyn Read) -> anyhow::Result<String> {
    let mut text = String::new();
    input.take(SCRIPT_BYTES_MAX + 1).read_to_string(&mut text).context("read standard input")?;
    if text.len() as u64 > SCRIPT_BYTES_MAX {
        let text = "the script is larger than 1 MiB; install psql on this computer (Debian and Ubuntu: apt install \
                    postgresql-client; macOS: brew install libpq)";
        return Err(ExitReason::Usage.error(text));
    }
    Ok(text)
}

fn names_file(argument: &str) -> bool {
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    FILE_OPTIONS.contains(&name)
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(arguments: &[&str]) -> anyhow::Result<RemotePsql> {
        let database = ManagedDatabase {
            id: "ab".into(),
            username: Some("panda".into()),
            password: Some("s3cret".into()),
            database: Some("pandastack".into()),
            ..ManagedDatabase::default()
        };
        RemotePsql::new(&database, arguments.iter().map(|&word| word.to_owned()).collect())
    }

    #[test]
    fn the_password_is_a_variable_or_typed_but_never_an_argument() {
        let remote = remote(&["-v", "x=it's"]).unwrap();
        let ask = remote.request(Some("SELECT 1".into()));
        assert_eq!(ask.argv.unwrap(), [PROGRAM, "-v", "x=it's"]);
        let env = ask.env.unwrap();
        assert_eq!(
            (env["PGPASSWORD"].as_str(), env["PGUSER"].as_str(), env["PGPORT"].as_str()),
            ("s3cret", "panda", "6432")
        );
        assert_eq!(ask.stdin.as_deref(), Some("SELECT 1"));
        let line = remote.terminal_line();
        assert!(!line.contains("s3cret"), "{line}");
        assert!(line.ends_with(r"/usr/lib/postgresql/16/bin/psql '-v' 'x=it'\''s'"), "{line}");
        assert!(line.contains("PGHOST='127.0.0.1' PGPORT='6432' PGUSER='panda' PGDATABASE='pandastack'"), "{line}");
    }

    #[test]
    fn a_statement_needs_no_terminal() {
        assert!(remote(&["-c", "SELECT 1"]).unwrap().has_command());
        assert!(remote(&["--command=SELECT 1"]).unwrap().has_command());
        assert!(!remote(&["--csv"]).unwrap().has_command());
    }

    #[test]
    fn files_of_this_computer_are_not_there() {
        for option in ["-f", "--file=a.sql", "-o"] {
            let error = remote(&[option]).err().unwrap().to_string();
            assert!(error.contains("pandastack db psql ID < FILE"), "{error}");
        }
        let bare = ManagedDatabase { id: "ab".into(), ..ManagedDatabase::default() };
        let error = RemotePsql::new(&bare, Vec::new()).err().unwrap().to_string();
        assert!(error.contains("pandastack db get ab"), "{error}");
    }

    #[test]
    fn a_script_has_a_limit() {
        assert_eq!(script(&mut "SELECT 1".as_bytes()).unwrap(), "SELECT 1");
        let long = vec![b' '; SCRIPT_BYTES_MAX as usize + 1];
        assert!(script(&mut long.as_slice()).unwrap_err().to_string().contains("apt install postgresql-client"));
    }
}
