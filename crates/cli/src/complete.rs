//! Completes ids and names in a shell. Answers quickly and never complains: a shell asks while its
//! user types, so everything that fails gives no candidates.

use std::{ffi::OsStr, time::Duration};

use clap_complete::{CompletionCandidate, PathCompleter, engine::ValueCompleter};
use pandastack_client::{Client, Config, SavedConfig};

use crate::find::{Candidate, FoundKind};

/// How long a user waits for the server after a press of the tab key.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The variable by which a shell asks for completions.
pub const VARIABLE: &str = "PANDASTACK_COMPLETE";

/// Answers a shell and ends the program, if a shell asks.
pub fn answer_shell(root: fn() -> clap::Command) {
    clap_complete::CompleteEnv::with_factory(root).var(VARIABLE).complete();
}

/// Completes a sandbox.
pub fn sandboxes(typed: &OsStr) -> Vec<CompletionCandidate> {
    served(FoundKind::Sandbox, typed)
}

/// Completes a snapshot.
pub fn snapshots(typed: &OsStr) -> Vec<CompletionCandidate> {
    served(FoundKind::Snapshot, typed)
}

/// Completes a volume.
pub fn volumes(typed: &OsStr) -> Vec<CompletionCandidate> {
    served(FoundKind::Volume, typed)
}

/// Completes a database.
pub fn databases(typed: &OsStr) -> Vec<CompletionCandidate> {
    served(FoundKind::Database, typed)
}

/// Completes a template.
pub fn templates(typed: &OsStr) -> Vec<CompletionCandidate> {
    served(FoundKind::Template, typed)
}

/// Completes a build.
pub fn builds(typed: &OsStr) -> Vec<CompletionCandidate> {
    served(FoundKind::Build, typed)
}

/// Completes a webhook.
pub fn webhooks(typed: &OsStr) -> Vec<CompletionCandidate> {
    served(FoundKind::Webhook, typed)
}

/// Completes an API key.
pub fn keys(typed: &OsStr) -> Vec<CompletionCandidate> {
    served(FoundKind::Key, typed)
}

/// Completes `SANDBOX:PATH`: a path of this computer, or the sandbox in front of the colon.
pub fn copied(typed: &OsStr) -> Vec<CompletionCandidate> {
    let is_path = typed.to_str().is_none_or(|text| text.contains(['/', ':']));
    let mut found = if is_path { Vec::new() } else { served(FoundKind::Sandbox, typed) };
    found = found.into_iter().map(|candidate| with_colon(&candidate)).collect();
    found.extend(PathCompleter::any().complete(typed));
    found
}

/// Completes a context of the config file.
pub fn contexts(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(saved) = Config::path().and_then(|path| SavedConfig::open(path).ok()) else { return Vec::new() };
    let typed = typed.to_string_lossy();
    let known = saved.contexts().into_iter().filter(|context| context.name.starts_with(&*typed));
    known.map(|context| CompletionCandidate::new(context.name).help(Some(context.url.into()))).collect()
}

fn served(kind: FoundKind, typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    ask(kind).unwrap_or_default().into_iter().flat_map(|candidate| offered(candidate, &typed)).collect()
}

/// Offers the id, and names of one word.
fn offered(candidate: Candidate, typed: &str) -> Vec<CompletionCandidate> {
    let Candidate { id, names, about } = candidate;
    let names = names.into_iter().filter(|name| !name.is_empty() && !name.contains([' ', ':', '"', '\'', '$', '`']));
    let words = std::iter::once(id).chain(names).filter(|word| word.starts_with(typed));
    let help = (!about.is_empty()).then(|| about.into());
    words.map(|word: String| CompletionCandidate::new(word).help(help.clone())).collect()
}

fn ask(kind: FoundKind) -> Option<Vec<Candidate>> {
    let config =
        match option("--context").or_else(|| std::env::var("PANDASTACK_CONTEXT").ok()).filter(|c| !c.is_empty()) {
            Some(name) => Config::load_context(&name).ok()?,
            None => Config::load().ok()?,
        };
    let config = match option("--api-url") {
        Some(url) => config.with_url(&url).ok()?,
        None => config,
    };
    let client = Client::new(config).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { tokio::time::timeout(ANSWER_MAX, kind.candidates(&client)).await.ok()?.ok() })
}

/// Finds an option of the line that is being completed, behind the `--` of the shell's script.
fn option(name: &str) -> Option<String> {
    let words: Vec<_> = std::env::args().skip_while(|word| word != "--").skip(1).collect();
    value_of(name, &words)
}

/// Bash makes a word of an equals sign, other shells do not.
fn value_of(name: &str, words: &[String]) -> Option<String> {
    let with_equals = words.iter().find_map(|word| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned()));
    let mut behind = words.iter().skip_while(|word| *word != name).skip(1).skip_while(|word| *word == "=");
    with_equals.or_else(|| behind.next().cloned())
}

fn with_colon(candidate: &CompletionCandidate) -> CompletionCandidate {
    let mut text = candidate.get_value().to_owned();
    text.push(":/");
    CompletionCandidate::new(text).help(candidate.get_help().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_found_in_every_spelling() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in ["x --context prod ls", "x ls --context=prod", "x --context = prod ls"] {
            assert_eq!(value_of("--context", &words(line)).as_deref(), Some("prod"), "{line}");
        }
        assert_eq!(value_of("--context", &words("x ls --contextual=1")), None);
    }

    #[test]
    fn ids_and_names_are_offered_if_a_shell_can_take_them() {
        let candidate = || Candidate { id: "ab1".into(), names: vec!["abc".into(), "a b".into()], about: "x".into() };
        let offered = |typed: &str| {
            let found = super::offered(candidate(), typed).into_iter();
            found.map(|one| one.get_value().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(offered(""), ["ab1", "abc"]);
        assert_eq!(offered("abc"), ["abc"]);
        assert!(offered("z").is_empty());
    }
}
