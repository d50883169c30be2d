//! `pandastack docs configuration`: writes the reference of flags and environment variables from
//! the definitions of the commands. A test compares it with `docs/configuration.md`.

use std::{fmt::Write as _, process::ExitCode};

use anyhow::Result;
use clap::{Arg, Command, Subcommand};

/// Variables that have no flag.
const VARIABLES: [(&str, &str); 8] = [
    (
        "PANDASTACK_API_URL",
        "Server that the client commands talk to; `PANDASTACK_API` means the same. A flag wins over it, the configuration file loses",
    ),
    ("PANDASTACK_API_KEY", "Key of the client commands; otherwise the one in the configuration file"),
    ("PANDASTACK_CACHE_DIR", "Where root file systems are kept between bakes; `~/.cache/pandastack` without it"),
    ("PANDASTACK_LOG", "What the server logs, as in `info` or `pandastack_host=debug`; `warn` without it"),
    ("PANDASTACK_REGISTRY_PASSWORD", "Password for the registry of `template build --image`"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "What `up` sends to the collector with every request, as `NAME=VALUE,…`"),
    ("OTEL_SERVICE_NAME", "The name of this server in the collector"),
    ("PANDASTACK_BOOTSTRAP_KEY", "The API key of the first start, instead of a random one"),
];

#[derive(Subcommand)]
pub enum Docs {
    /// Print docs/configuration.md
    Configuration,
}

impl Docs {
    pub fn run(self, root: Command) -> Result<ExitCode> {
        match self {
            Docs::Configuration => print!("{}", configuration(root)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the reference.
fn configuration(mut root: Command) -> String {
    root.build();
    let mut text = "# Configuration\n\n\
        Every flag and environment variable. A flag wins over its variable, a variable over the\n\
        default. Written by `pandastack docs configuration > docs/configuration.md`; a test fails if\n\
        this page is not what the program says.\n"
        .to_owned();
    text.push_str("\n## Variables without a flag\n\n| variable | meaning |\n|---|---|\n");
    for (name, meaning) in VARIABLES {
        let _ = writeln!(text, "| `{name}` | {meaning} |");
    }
    let global: Vec<&Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).collect();
    section(&mut text, "pandastack (every command)", None, &global);
    commands(&mut text, &root, "pandastack");
    text
}

/// Writes all subcommands of a command. Commands without subcommands get their arguments.
fn commands(text: &mut String, parent: &Command, path: &str) {
    for command in parent.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help") {
        let path = format!("{path} {}", command.get_name());
        if command.has_subcommands() {
            commands(text, command, &path);
            continue;
        }
        let shown = |arg: &&Arg| !arg.is_global_set() && !["help", "version"].contains(&arg.get_id().as_str());
        let about = command.get_about().map(ToString::to_string);
        let arguments: Vec<&Arg> = command.get_arguments().filter(shown).filter(|arg| !arg.is_hide_set()).collect();
        section(text, &path, about, &arguments);
    }
}

fn section(text: &mut String, title: &str, about: Option<String>, arguments: &[&Arg]) {
    let _ = writeln!(text, "\n## `{title}`");
    if let Some(about) = about {
        let _ = writeln!(text, "\n{about}.");
    }
    if arguments.is_empty() {
        return;
    }
    text.push_str("\n| argument | variable | default | meaning |\n|---|---|---|---|\n");
    for arg in arguments {
        let variable = arg.get_env().map(|name| code(&name.to_string_lossy())).unwrap_or_default();
        let takes_value = arg.get_action().takes_values();
        let defaults = arg.get_default_values().iter().map(|value| code(&value.to_string_lossy()));
        let default = if takes_value { defaults.collect::<Vec<_>>().join(", ") } else { String::new() };
        let meaning = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let meaning = meaning.replace('|', "\\|").replace('\n', " ");
        let _ = writeln!(text, "| {} | {variable} | {default} | {meaning} |", code(&usage(arg)));
    }
}

/// The argument as the user types it.
fn usage(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let value = if arg.get_action().takes_values() { names.collect::<Vec<_>>().join(" ") } else { String::new() };
    let Some(long) = arg.get_long() else { return value };
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    format!("{short}--{long} {value}").trim_end().to_owned()
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_page_is_what_the_program_says() {
        let page = include_str!("../../../docs/configuration.md");
        let said = configuration(crate::Options::command());
        let difference = page.lines().zip(said.lines()).find(|(page, said)| page != said);
        assert!(
            page == said,
            "docs/configuration.md is stale; write it with `pandastack docs configuration > docs/configuration.md`. First \
             difference: {difference:?}"
        );
    }
}
