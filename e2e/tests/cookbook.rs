//! The cookbook: every example runs against a real server and prints what its page shows.

use std::{collections::BTreeMap, fs, path::Path, process::Command, sync::Mutex};

use pandastack_e2e::{
    cookbook::{Cookbook, CookbookPage, masked},
    own_sdk::PythonSdk,
    project,
    templates::client,
};
use pandastack_testbed::{DataFolder, TestServer};

/// Runs in `deep::browser`, because its template is too large for this test.
const DEEP: &str = "browser";

/// How many examples run at once.
const AT_ONCE: usize = 3;

/// Makes the small template available by the names of larger ones.
fn add_aliases(data: &Path) {
    let templates = data.join("volume/templates");
    for name in ["base", "code-interpreter"] {
        fs::copy(templates.join("mini"), templates.join(name)).unwrap();
    }
}

/// Runs an example. Returns what is wrong with it.
pub(super) fn problem(cookbook: &Cookbook, name: &str, server: &TestServer) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let output = cookbook.run(name, server, folder.path());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, complaint) = (text(&output.stdout), text(&output.stderr));
    if !output.status.success() {
        return Some(format!("ended with {}\n{printed}{complaint}", output.status));
    }
    let page = CookbookPage::of(name);
    if masked(&printed) != page.output() {
        return Some(format!("does not print what {} shows:\n{printed}{complaint}", page.file));
    }
    let plot = folder.path().join(name).with_extension("svg");
    if plot.exists() && fs::read(plot).unwrap() != fs::read(project().join("docs/cookbook/fork-explore.svg")).unwrap() {
        return Some("draws another plot than docs/cookbook/fork-explore.svg".to_owned());
    }
    None
}

#[tokio::test]
async fn examples_print_what_their_pages_show_and_leave_nothing_behind() {
    let cookbook = Cookbook::installed();
    let data = DataFolder::with_templates().unwrap();
    add_aliases(data.path());
    let server = TestServer::start(data.path(), &["--standby", "1", "--blanks", "1"]).unwrap();
    let left = Mutex::new(Cookbook::names());
    let problems = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(name) = left.lock().unwrap().pop() else { break };
                    if let Some(problem) = (name != DEEP).then(|| problem(&cookbook, &name, &server)).flatten() {
                        problems.lock().unwrap().insert(name, problem);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(
        problems.is_empty(),
        "{}",
        problems.iter().map(|(name, text)| format!("\n{name} {text}\n")).collect::<String>()
    );
    let client = client(&server);
    assert_eq!(client.list().await.unwrap().len(), 0, "an example left a sandbox");
    let leaks = client.audit().await.unwrap().leaks;
    assert!(leaks.is_empty(), "{leaks:?}");
}

#[test]
fn every_example_has_a_header_and_a_page_that_quotes_it() {
    let index = fs::read_to_string(project().join("docs/cookbook/README.md")).unwrap();
    let mut pages = Vec::new();
    for name in Cookbook::names() {
        let page = CookbookPage::of(&name);
        pages.push(page.file.rsplit('/').next().unwrap().to_owned());
        assert!(index.contains(pages.last().unwrap()), "docs/cookbook/README.md does not list {}", page.file);
        let (file, language) = match name.as_str() {
            "vercel_ai" => ("vercel_ai/agent.ts".to_owned(), "ts"),
            _ => (format!("{name}.py"), "python"),
        };
        let source = fs::read_to_string(project().join("examples").join(&file)).unwrap();
        assert!(source.starts_with("\"\"\"") || source.starts_with("/**"), "{file} has no header");
        let run = if language == "ts" { "npx tsx agent.ts".to_owned() } else { format!("python examples/{file}") };
        assert!(source.lines().take(10).any(|line| line.contains(&run)), "the header of {file} lacks `{run}`");
        let quotes = page.blocks(language);
        assert!(!quotes.is_empty(), "{} quotes nothing of {file}", page.file);
        for quote in quotes {
            assert!(squeezed(&source).contains(&squeezed(&quote)), "{}: {file} has no\n{quote}", page.file);
        }
    }
    for entry in fs::read_dir(project().join("docs/cookbook")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let known = name == "README.md" || !name.ends_with(".md") || pages.contains(&name);
        assert!(known, "docs/cookbook/{name} belongs to no example");
    }
}

/// A text without indentation, so that a page can quote the body of a function.
fn squeezed(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n").trim().to_owned()
}

#[test]
fn the_style_of_the_examples_is_that_of_the_sdk() {
    let sdk = PythonSdk::installed();
    for words in [&["check"][..], &["format", "--check"]] {
        let output =
            sdk.command("ruff").args(words).arg("--no-cache").arg(project().join("examples")).output().unwrap();
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn the_recorded_model_refuses_what_was_not_recorded() {
    let play = |program: &str| {
        let mut command = Command::new("python3");
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(project().join("examples/_model/play.py")).args([
            "agent_turn",
            "--",
            "python3",
            "-c",
        ]);
        let output = command.arg(format!("import json, os, urllib.request\n{program}")).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let ask = |body: &str| {
        play(&format!(
            "url = os.environ['OPENAI_BASE_URL'] + '/chat/completions'\n\
             urllib.request.urlopen(url, json.dumps({body}).encode())"
        ))
    };
    let question = "{'role': 'user', 'content': 'Which month of /data/orders.csv is best?'}";
    let tools = "[{'function': {'name': 'run_python'}}]";
    let other = ask(&format!("{{'messages': [{{'role': 'user', 'content': 'Hello'}}], 'tools': {tools}}}"));
    assert!(other.contains("expected to hear 'Which month of /data/orders.csv'"), "{other}");
    let without_tools = ask(&format!("{{'messages': [{question}]}}"));
    assert!(without_tools.contains("expected the tools {'run_python'}"), "{without_tools}");
    let result = "{'role': 'tool', 'tool_call_id': 'call_9_0', 'content': ''}";
    let invented = ask(&format!("{{'messages': [{question}, {result}], 'tools': {tools}}}"));
    assert!(invented.contains("but got those of {'call_9_0'}"), "{invented}");
    let outside = play("urllib.request.urlopen('https://example.com')");
    assert!(outside.contains("CONNECT example.com:443: this request would leave the computer"), "{outside}");
    let silent = play("pass");
    assert!(silent.contains("played 0 of 4 turns"), "{silent}");
}
