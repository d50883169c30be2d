//! The command line as people and scripts use it: contexts, forms of output, names and starts of
//! ids, copies that go on, watching, exit codes, completion and measuring. One server for all.

mod files;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pandastack_client::Client;
use pandastack_e2e::{
    PATIENCE,
    templates::{clean, client, run},
};
use pandastack_testbed::{DataFolder, TestServer, built, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// Nothing listens here.
const NOBODY: &str = "http://127.0.0.1:1";
const MIB: usize = 1024 * 1024;

/// A user with a home of their own.
struct Person {
    home: TempDir,
}

struct Said {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Person {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(built("pandastack"));
        for name in ["API_URL", "API", "API_KEY", "ORG", "CONTEXT"] {
            command.env_remove(format!("PANDASTACK_{name}"));
        }
        command.args(words).env("HOME", self.home.path()).stdin(Stdio::null());
        command
    }

    fn says(&self, command: &mut Command, input: &str) -> Said {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that does not read its input may have ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
    }

    /// Runs a command that may fail.
    fn tries(&self, words: &[&str]) -> Said {
        self.says(&mut self.command(words), "")
    }

    /// Runs a command that must succeed, and returns its output.
    fn runs(&self, words: &[&str]) -> String {
        let said = self.tries(words);
        assert_eq!(said.code, Some(0), "{words:?}: {}{}", said.out, said.err);
        said.out
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.runs(&[words, &["--json"]].concat())).unwrap()
    }

    /// Copies a tree, and returns how many files were copied and how many were skipped.
    fn copies(&self, words: &[&str]) -> (u64, u64) {
        let copied = self.json(&[&["cp", "-r"], words].concat());
        (copied["files"].as_u64().unwrap(), copied["skipped"].as_u64().unwrap())
    }

    /// Adds a server with a key, and returns what the command printed.
    fn knows(&self, name: &str, url: &str, key: &str) -> String {
        let said = self.says(&mut self.command(&["context", "add", name, url, "--key-stdin"]), &format!("{key}\n"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        said.out
    }

    fn fails(&self, words: &[&str], code: i32, part: &str) {
        let said = self.tries(words);
        assert_eq!(said.code, Some(code), "{words:?}: {}{}", said.out, said.err);
        assert!(said.err.contains(part), "{words:?}: {}", said.err);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn the_command_line_from_contexts_to_measuring() {
    let data = DataFolder::with_templates().unwrap();
    let server = TestServer::start(data.path(), &["--standby", "0", "--blanks", "0"]).unwrap();
    let (client, person) = (client(&server), Person::new());
    contexts(&person, &server);
    let id = person.runs(&["sandbox", "create", "--template", "mini", "--name", "web", "-q"]).trim().to_owned();
    forms(&person, &id);
    names_and_watching(&person, &id);
    exit_codes(&person, &server, &id);
    trees(&person, &client, &id).await;
    large_files(&person, &client, &id).await;
    files::contents_are_compared_and_pages_are_found(&server, &client, &id).await;
    completion(&person, &id);
    let tree = person.runs(&["tree", "web"]);
    assert!(tree.contains(&format!("● {id}  web  running  1 CPU, ")) && tree.contains("/h  ← this one"), "{tree}");
    assert_eq!(person.runs(&["open", "docs", "--print"]), format!("{}/docs\n", server.url));
    let preview = person.json(&["open", "web", "--port", "8000"]);
    assert!(preview["url"].as_str().unwrap().starts_with("http"), "{preview}");
    measuring(&person, &client).await;
    person.runs(&["docs", "man", &person.text("man")]);
    let page = fs::read_to_string(person.path("man/pandastack-sandbox-create.1")).unwrap();
    assert!(page.contains(".SH SYNOPSIS"), "{page}");
    assert_eq!(person.runs(&["rm", &id[..8]]), format!("deleted {id}\n"));
    clean(&client).await;
}

fn contexts(person: &Person, server: &TestServer) {
    person.fails(&["ls"], 4, "no API key");
    assert_eq!(person.knows("here", &server.url, &server.key), "added here, the current context\n");
    person.runs(&["context", "add", "gone", NOBODY]);
    assert_eq!(person.runs(&["context", "list", "-o", "name"]), "gone\nhere\n");
    assert_eq!(person.runs(&["ls", "-o", "name"]), "");
    person.fails(&["ls", "--context", "gone"], 4, "no API key");
    let said = person.says(person.command(&["ls"]).env("PANDASTACK_CONTEXT", "nowhere"), "");
    assert!(said.code == Some(3) && said.err.contains("known are: gone, here"), "{}", said.err);

    // What clients without contexts read is always the current server, and nobody else's key.
    person.runs(&["context", "use", "gone"]);
    let path = person.path(".config/pandastack/config.json");
    let file = || serde_json::from_slice::<Value>(&fs::read(&path).unwrap()).unwrap();
    let config = file();
    assert_eq!((&config["api_url"], config.get("token")), (&Value::from(NOBODY), None), "{config}");
    assert_eq!(person.json(&["context", "show"])["name"], "gone");
    person.runs(&["--context", "here", "ls"]);
    person.fails(&["context", "remove", "gone"], 1, "current context");
    person.runs(&["context", "use", "here"]);
    let config = file();
    assert_eq!((config["api_url"].as_str(), config["token"].as_str()), (Some(&*server.url), Some(&*server.key)));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

fn forms(person: &Person, id: &str) {
    assert_eq!(person.json(&["sandbox", "list"])[0]["id"], id);
    assert_eq!(person.runs(&["sandbox", "list", "-o", "name"]), format!("{id}\n"));
    let yaml = person.runs(&["-o", "yaml", "sandbox", "get", "web"]);
    assert!(yaml.contains("\nmetadata:\n  name: web\n") && yaml.contains("\nstatus: running\n"), "{yaml}");
    assert_eq!(person.runs(&["sandbox", "get", "web", "-o", "name"]), format!("{id}\n"));
    let table = person.runs(&["ls"]);
    let [head, row] = table.lines().collect::<Vec<_>>()[..] else { panic!("{table}") };
    assert!(head.starts_with("ID ") && head.contains("NAME  TEMPLATE"), "{table}");
    assert!(row.starts_with(id) && row.contains("web   mini") && !row.contains('\u{1b}'), "{table}");
    let said: Value = serde_json::from_str(&person.tries(&["exec", "web", "--json", "echo hi; exit 3"]).out).unwrap();
    assert_eq!((said["stdout"].as_str(), said["exit_code"].as_i64()), (Some("hi\n"), Some(3)));
    person.fails(&["quota", "-o", "name"], 2, "no ids");
    person.fails(&["ls", "-o", "xml"], 2, "possible values");
    person.fails(&["ls", "--json", "-o", "yaml"], 2, "cannot be used with");
}

fn names_and_watching(person: &Person, id: &str) {
    let (mut watching, mut lines) = watched(person, &["ls", "--watch=0.1", "-o", "name"]);
    assert_eq!(lines.next().unwrap().unwrap(), id);
    let second = person.runs(&["sandbox", "create", "-t", "mi", "--name", "web", "-o", "name"]).trim().to_owned();
    // The whole list is printed again, newest first, but only because it has changed.
    assert_eq!([lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap()], [second.as_str(), id]);
    let said = person.tries(&["sandbox", "get", "web"]);
    assert!(said.code == Some(2) && said.err.contains(id) && said.err.contains(&second), "{}", said.err);
    let shared = id.bytes().zip(second.bytes()).take_while(|(one, other)| one == other).count();
    let start = &second[..shared + 1];
    assert_eq!(person.runs(&["sandbox", "get", start, "-o", "name"]).trim(), second);
    assert_eq!(person.runs(&["sandbox", "delete", start]), format!("deleted {second}\n"));
    assert_eq!(lines.next().unwrap().unwrap(), id);
    kill(Pid::from_raw(watching.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(watching.wait().unwrap().code(), Some(130));
}

fn watched(person: &Person, words: &[&str]) -> (Child, std::io::Lines<BufReader<ChildStdout>>) {
    let mut child = person.command(words).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines)
}

fn exit_codes(person: &Person, server: &TestServer, id: &str) {
    let nobody = "00000000-0000-4000-8000-000000000000";
    assert_eq!(person.tries(&["exec", &id[..30], "exit 7"]).code, Some(7));
    person.fails(&["sandbox", "get", nobody], 3, "pandastack sandbox list");
    person.fails(&["sandbox", "get", "nothing-like-it"], 3, "no sandbox");
    person.fails(&["sandbox", "delete", nobody], 3, "not found");
    person.fails(&["volume", "get", "nothing"], 3, "pandastack volume list");
    person.fails(&["exec", "web", "--timeout", "1", "sleep 600"], 124, "timeout");
    person.fails(&["ls", "--api-url", NOBODY], 6, "is the server running?");
    person.fails(&["frobnicate"], 2, "Usage");
    let mut stranger = person.command(&["ls", "--api-url", &server.url]);
    assert_eq!(person.says(stranger.env("PANDASTACK_API_KEY", "pds_wrong"), "").code, Some(4));
    assert!(person.runs(&["--help"]).contains("124  timeout"));
}

/// Every file below a folder with its contents, by name.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && !path.is_symlink() {
            found.extend(contents(&path).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)));
            found.push((name, Vec::new()));
        } else if path.is_symlink() {
            found.push((name, fs::read_link(&path).unwrap().to_str().unwrap().as_bytes().to_vec()));
        } else {
            found.push((name, fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

async fn trees(person: &Person, client: &Client, id: &str) {
    let (local, back) = (person.path("tree"), person.path("back"));
    fs::create_dir_all(local.join("sub/empty")).unwrap();
    for (name, bytes) in [("-a b.txt", b"one".to_vec()), ("sub/b.bin", vec![7; 100_000]), ("sub/c", b"three".to_vec())]
    {
        fs::write(local.join(name), bytes).unwrap();
    }
    std::os::unix::fs::symlink("sub/c", local.join("link")).unwrap();
    let (there, here, returned) = ("web:/srv/t".to_owned(), person.text("tree"), person.text("back"));
    assert_eq!(person.copies(&[&here, &there]), (3, 0));
    assert_eq!(person.copies(&["--resume", &here, &there]), (0, 3));
    run(client, id, "rm /srv/t/sub/b.bin; printf changed > /srv/t/sub/c").await;
    assert_eq!(person.copies(&["--resume", &here, &there]), (2, 1));
    assert_eq!(
        run(client, id, "cat '/srv/t/-a b.txt' /srv/t/link; stat -c %s /srv/t/sub/b.bin").await,
        "onethree100000\n"
    );

    assert_eq!(person.copies(&[&there, &returned]), (3, 0));
    assert_eq!(contents(&back), contents(&local));
    fs::remove_file(back.join("link")).unwrap();
    fs::remove_dir_all(back.join("sub/empty")).unwrap();
    fs::write(back.join("sub/b.bin"), "cut off").unwrap();
    assert_eq!(person.copies(&["--resume", &there, &returned]), (1, 2));
    assert_eq!(contents(&back), contents(&local));
    person.fails(&["cp", "-r", "web:/srv/nothing", &returned], 3, "there is no /srv/nothing");
    person.fails(&["cp", &here, "web:/srv/x"], 1, "with -r");
}

/// An interrupted copy has left a beginning. It is recognised by a letter that the file does not
/// have, which shows that the beginning is not copied again.
async fn large_files(person: &Person, client: &Client, id: &str) {
    let (size, begun) = (2 * MIB + 4321, MIB + 99);
    let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
    let mut expected = bytes.clone();
    expected[0] = b'X';
    fs::write(person.path("large"), &bytes).unwrap();
    let modified = fs::metadata(person.path("large")).unwrap().mtime();
    let draft = format!("/srv/large.{size:x}-{modified:x}.part");
    client.write(id, &draft, expected[..begun].to_vec()).await.unwrap();
    let up = ["cp", "--resume", "--piece", "1", &person.text("large"), "web:/srv/large"];
    assert_eq!(person.runs(&up), format!("{size} bytes to /srv/large\n"));
    assert_eq!(run(client, id, "ls /srv | grep large").await, "large\n");
    person.runs(&["cp", "web:/srv/large", &person.text("whole")]);
    assert!(fs::read(person.path("whole")).unwrap() == expected, "the upload did not go on where it was");

    // The other way round, with another letter.
    let entry = client.stat(id, "/srv/large").await.unwrap();
    expected[0] = b'Y';
    fs::write(person.path(&format!("part.{size:x}-{:x}.part", entry.mtime)), &expected[..begun]).unwrap();
    person.runs(&["cp", "--resume", "--piece", "1", "web:/srv/large", &person.text("part")]);
    assert!(fs::read(person.path("part")).unwrap() == expected, "the download did not go on where it was");
    assert_eq!(run(client, id, "ls -A /tmp | grep -c pandastack-cp || true").await, "0\n");
    // Without --resume everything is copied.
    person.runs(&["cp", "--piece", "1", &person.text("large"), "web:/srv/large"]);
    person.runs(&["cp", "web:/srv/large", &person.text("part")]);
    assert!(fs::read(person.path("part")).unwrap() == bytes);
}

fn completion(person: &Person, id: &str) {
    let folder = built("pandastack").parent().unwrap().to_str().unwrap().to_owned();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let completed = |line: &str| {
        let script = r#"
            source <(pandastack completion bash) || exit 9
            COMP_WORDS=($LINE) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_TYPE=9
            [[ $LINE == *" " ]] && COMP_WORDS+=("") && COMP_CWORD=$((COMP_CWORD + 1))
            _clap_complete_pandastack pandastack "${COMP_WORDS[COMP_CWORD]}"
            printf '%s\n' "${COMPREPLY[@]}""#;
        let mut bash = Command::new("bash");
        for name in ["API_URL", "API", "API_KEY", "ORG", "CONTEXT"] {
            bash.env_remove(format!("PANDASTACK_{name}"));
        }
        bash.args(["--norc", "-c", script]).env("HOME", person.home.path()).env("PATH", &path).env("LINE", line);
        let said = person.says(&mut bash, "");
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{line}: {}", said.out);
        said.out.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed("pandastack sandbox get w"), ["web"]);
    assert_eq!(completed(&format!("pandastack shell {}", &id[..4])), [id]);
    assert_eq!(completed("pandastack --context he"), ["here"]);
    assert!(completed("pandastack sandbox create --template mi").contains(&"mini".to_owned()));
    assert!(completed("pandastack sandbox hib").contains(&"hibernate".to_owned()));
    // A server that does not answer gives nothing, silently.
    assert!(!completed("pandastack --context gone sandbox get w").contains(&"web".to_owned()));
}

async fn measuring(person: &Person, client: &Client) {
    let before = client.list().await.unwrap().len();
    let report = person.json(&["bench", "-n", "1", "--template", "mini"]);
    for step in ["create", "exec", "fork", "hibernate", "wake", "delete"] {
        assert_eq!(report["steps"][step]["count"], 1, "{report}");
    }
    let mut bench =
        person.command(&["bench", "-n", "9999", "-t", "mini", "--json"]).stdout(Stdio::null()).spawn().unwrap();
    let more = async || (client.list().await.unwrap().len() > before).then_some(());
    wait_for("a sandbox of the bench", PATIENCE, more).await;
    kill(Pid::from_raw(bench.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(bench.wait().unwrap().code(), Some(130));
    assert_eq!(client.list().await.unwrap().len(), before);
}
