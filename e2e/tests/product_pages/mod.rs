//! The code blocks of the product pages. Each is kept here word for word and run by a test: the
//! pages are not part of the project. Where they are at hand, the copies are compared with them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
};

use pandastack_e2e::project;

/// A block: its page, its copy, the file with its test, and what runs it there.
type Block = (&'static str, &'static str, &'static str, &'static str);

/// A user without rights.
const NOBODY: u32 = 65534;

const PYTHON: &str = "sdk/python/tests/test_snippets.py";
const TYPESCRIPT: &str = "sdk/typescript/test/live/snippets.test.ts";
const HERE: &str = "e2e/tests/product_pages/mod.rs";

/// All blocks. `sdk::python` and `sdk::typescript` run those of the SDKs against a server.
const BLOCKS: [Block; 9] = [
    ("features", "sdk/python/tests/snippets/frames.txt", PYTHON, "snippets/frames.txt"),
    ("features", "sdk/typescript/test/live/snippets/features.js", TYPESCRIPT, "run(\"features\""),
    ("features", "e2e/tests/product_pages/install.sh", HERE, "fn the_install_line_installs_the_client"),
    ("AI agents", "sdk/python/tests/snippets/agent_turn.py.txt", PYTHON, "execute(\"agent_turn\""),
    ("AI agents", "sdk/python/tests/snippets/workspace.py.txt", PYTHON, "execute(\"workspace\""),
    ("AI agents", "sdk/python/tests/snippets/fork_on_explore.py.txt", PYTHON, "execute(\"fork_on_explore\""),
    ("E2B", "sdk/python/tests/snippets/create_exec_read.py.txt", PYTHON, "execute(\"create_exec_read\""),
    ("Daytona", "sdk/python/tests/snippets/quickstart.py.txt", PYTHON, "execute(\"quickstart\""),
    ("Vercel Sandbox", "sdk/typescript/test/live/snippets/vercel-sandbox.js", TYPESCRIPT, "run(\"vercel-sandbox\""),
];

/// Copies of blocks that cannot run, and why.
const CANNOT_RUN: [(&str, &str); 0] = [];

/// How a line of code begins, in all languages of the pages.
const CODE: [&str; 26] = [
    "import ",
    "from pandastack",
    "const ",
    "let ",
    "await ",
    "async ",
    "def ",
    "class ",
    "return ",
    "print(",
    "with ",
    "for ",
    "while ",
    "if ",
    "else:",
    "console.",
    "client →",
    "server →",
    "client.",
    "sandbox.",
    "curl ",
    "pip ",
    "npm ",
    "pandastack ",
    "$ ",
    "docker ",
];

fn text(file: &str) -> String {
    fs::read_to_string(project().join(file)).unwrap_or_else(|error| panic!("{file}: {error}")).trim_end().to_owned()
}

#[test]
fn every_kept_block_has_a_test_that_runs_it() {
    for (page, file, test, mention) in BLOCKS {
        assert!(!text(file).is_empty());
        assert!(text(test).contains(mention), "{test} does not run {file} of the page {page}");
    }
    for folder in ["sdk/python/tests/snippets", "sdk/typescript/test/live/snippets"] {
        for entry in fs::read_dir(project().join(folder)).unwrap() {
            let file = format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap());
            let known =
                BLOCKS.iter().any(|block| block.1 == file) || CANNOT_RUN.iter().any(|(known, _)| *known == file);
            assert!(known, "{file} is in no list");
        }
    }
}

#[test]
fn the_copies_are_all_code_of_the_pages_word_for_word() {
    let Ok(entries) = fs::read_dir(project().join("../shared/product")) else {
        println!("the product pages are not here: only the copies are tested");
        return;
    };
    let mut pages: Vec<String> = entries.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert!(!pages.is_empty());
    for file in BLOCKS.iter().map(|block| block.1).chain(CANNOT_RUN.iter().map(|(file, _)| *file)) {
        let block = text(file);
        assert!(block.lines().any(is_code), "{file} would not be found if it were not kept");
        assert!(pages.iter().any(|page| page.contains(&block)), "no page has the code of {file} as it is kept");
        for page in &mut pages {
            *page = page.replace(&block, "\n");
        }
    }
    for line in pages.iter().flat_map(|page| page.lines()) {
        assert!(!is_code(line), "a page has code that is not kept: {line}");
    }
}

/// Tells whether a line is code. The paragraphs of the pages are longer than their code.
fn is_code(line: &str) -> bool {
    let (start, end) = (line.trim_start(), line.trim_end());
    let is_marked = CODE.iter().any(|begin| start.starts_with(begin)) && !end.ends_with('.');
    let is_closed = end.ends_with([';', '{', '}', '(', ')', '[', ']', '=']) && !end.contains(". ");
    (is_marked || is_closed || start.contains(" = ")) && line.len() < 200
}

#[test]
fn code_is_told_from_prose() {
    for line in
        ["import os", "    b.close()", "const tree = await base.forkTree(4);", "vol = Volume.get_or_create(", "]"]
    {
        assert!(is_code(line), "{line}");
    }
    for line in ["Pattern: fork-on-explore", "Orgs", "", "For agents that have state (a Cursor-like assistant), wait."]
    {
        assert!(!is_code(line), "{line}");
    }
}

#[test]
fn the_install_line_installs_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let (release, home) = (folder.path().join("release"), folder.path().join("home"));
    fs::create_dir_all(&home).unwrap();
    // Not as root, who would install for all users of this computer.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
    pack(&release, &folder.path().join("programs"));
    let url = serve(release);
    let mut shell = Command::new("sh");
    shell.args(["-c", &text("e2e/tests/product_pages/install.sh")]).env("HOME", &home).current_dir(&home);
    shell.uid(NOBODY).gid(NOBODY);
    // The proxy answers for the site of the page. The site would say where its releases are.
    shell.env("http_proxy", &url).env("no_proxy", "127.0.0.1").env_remove("NO_PROXY");
    let output = shell.env("PANDASTACK_BASE_URL", &url).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("installed pandastack 1.2.3"), "{said}");
    assert!(home.join(".local/bin/pandastack").is_file(), "{said}");
}

/// Packs stand-ins for the programs as a release.
fn pack(release: &Path, programs: &Path) {
    fs::create_dir_all(programs).unwrap();
    fs::create_dir_all(release).unwrap();
    let program = "#!/bin/sh\n# GLIBC_2.34\ncase $1 in\n--version) echo pandastack 1.2.3 ;;\n\
                   completion) echo completion for $2 ;;\ndocs) echo .TH PANDASTACK 1 > $3/pandastack.1 ;;\nesac\n";
    for name in ["pandastack", "pandastack-client", "pandastack-guestd"] {
        fs::write(programs.join(name), program).unwrap();
        fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut build = Command::new(project().join("packaging/build-archives"));
    build.arg("1.2.3").arg(programs).arg(release).env("COMPRESSION", "none").env("SOURCE_DATE_EPOCH", "1700000000");
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A web server that has the release, and the installer under the address of the page.
fn serve(release: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away is no failure of the test.
            let _ = answer(stream, &release);
        }
    });
    url
}

fn answer(mut stream: TcpStream, release: &Path) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?.take(8192)).lines();
    let asked = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let address = asked.split(' ').nth(1).unwrap_or_default();
    let file = match address {
        "http://pandastack.ai/install" => project().join("packaging/install.sh"),
        _ => release.join(address.trim_start_matches('/')),
    };
    let Ok(body) = fs::read(file) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    stream.write_all(&body)
}
