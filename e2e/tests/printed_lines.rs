//! Lines that the program prints for a shell, run exactly as printed: connection URLs by the
//! system's psql, links by Python's urllib and by curl. On a resolver that knows names below
//! `localhost`, and on one that does not, in mount namespaces with their own `/etc/nsswitch.conf`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use pandastack_client::{Client, wire::SpawnRequest};
use pandastack_e2e::{
    PATIENCE,
    templates::{client, create},
};
use pandastack_testbed::{DataFolder, TestServer, built, wait_for};
use tempfile::TempDir;

/// The one line that makes every program find the names.
const FIX: &str = "sudo apt-get install libnss-myhostname";
/// Opens the link that it gets.
const URLLIB: &str = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())";
const PAGE: &str = "hello from the sandbox";

/// A computer with another resolver than this one. Everything else is this computer's.
struct Computer {
    home: PathBuf,
    nsswitch: PathBuf,
}

struct Said {
    out: String,
    err: String,
    code: Option<i32>,
}

impl Computer {
    fn new(folder: &TempDir, name: &str, modules: &str) -> Self {
        let nsswitch = folder.path().join(name);
        fs::write(&nsswitch, format!("passwd: files\ngroup: files\nhosts: {modules}\n")).unwrap();
        Self { home: folder.path().to_owned(), nsswitch }
    }

    /// Runs a line in a shell, with text on its standard input.
    fn tries(&self, line: &str, input: &str) -> Said {
        let script = "mount --bind \"$1\" /etc/nsswitch.conf && exec sh -c \"$2\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.arg(&self.nsswitch).arg(line).env("HOME", &self.home);
        let foreign = |name: &String| {
            let name = name.to_ascii_uppercase();
            name.starts_with("PG") || name.starts_with("PANDASTACK_") || name.ends_with("_PROXY")
        };
        for (name, _) in std::env::vars().filter(|(name, _)| foreign(name)) {
            command.env_remove(name);
        }
        let typed = self.home.join("input");
        fs::write(&typed, input).unwrap();
        command.stdin(fs::File::open(&typed).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
    }

    /// Runs a line that must succeed.
    fn runs(&self, line: &str, input: &str) -> Said {
        let said = self.tries(line, input);
        assert_eq!(said.code, Some(0), "{line}: {}{}", said.out, said.err);
        said
    }

    /// Runs a command of the program.
    fn pandastack(&self, words: &str) -> Said {
        self.runs(&format!("{} {words}", built("pandastack").display()), "")
    }

    /// Asks for a sum in a line that opens psql.
    fn calculates(&self, line: &str) {
        let said = self.runs(line, "SELECT 6 * 7 AS answer;\n");
        assert!(said.out.lines().any(|line| line.trim() == "42"), "{line}: {}{}", said.out, said.err);
    }
}

#[tokio::test]
async fn printed_lines_work_whatever_the_resolver_knows() {
    let (data, folder) = (DataFolder::with_databases().unwrap(), tempfile::tempdir().unwrap());
    let modules = fs::read_dir("/usr/lib/x86_64-linux-gnu").unwrap().flatten();
    let is_there = modules.into_iter().any(|file| file.file_name() == "libnss_myhostname.so.2");
    assert!(is_there, "`scripts/setup` installs libnss-myhostname");
    let knows = Computer::new(&folder, "knows", "files myhostname dns");
    let lacks = Computer::new(&folder, "lacks", "files dns");
    assert!(knows.tries("getent ahosts some.localhost", "").out.contains("127.0.0.1"));
    assert_ne!(lacks.tries("getent ahosts some.localhost", "").code, Some(0));
    let server = TestServer::start_with(data.path(), |command| {
        command.args(["--standby", "0"]).env("HOME", folder.path());
    });
    let server = server.unwrap();

    databases(&server, &knows, &lacks);
    previews(&server, &knows, &lacks).await;
    let (found, missing) = (knows.tries(&doctor(data.path()), ""), lacks.tries(&doctor(data.path()), ""));
    assert!(found.out.contains("the resolver knows names below localhost"), "{}", found.out);
    assert!(missing.out.contains("run: apt-get install libnss-myhostname"), "{}", missing.out);
    assert_eq!(found.code, missing.code, "it is a warning");
}

fn doctor(data: &Path) -> String {
    format!("{} doctor --data-dir {}", built("pandastack").display(), data.display())
}

fn databases(server: &TestServer, knows: &Computer, lacks: &Computer) {
    let made = lacks.pandastack("db create --label first");
    let url = made.out.trim();
    assert!(url.ends_with("?hostaddr=127.0.0.1") && made.err.contains(FIX), "{url}: {}", made.err);
    lacks.calculates(&format!("psql \"{url}\""));
    // Without the address that the line carries, it would not work.
    let (bare, _) = url.split_once('?').unwrap();
    let refused = lacks.tries(&format!("psql \"{bare}\" -c 'SELECT 1'"), "");
    assert!(refused.err.contains("could not translate host name"), "{}", refused.err);

    let shown = knows.pandastack("db url first");
    assert_eq!((shown.out.trim(), shown.err.as_str()), (bare, ""));
    knows.calculates(&format!("psql \"{bare}\""));

    // The line of `up` asks for the URL itself, and checks the certificate.
    let said = server.said();
    let (_, line) = said.split_once("; open one with: ").expect(&said);
    let line = line.lines().next().unwrap();
    assert!(line.contains("PGSSLMODE=verify-full"), "{line}");
    for computer in [knows, lacks] {
        computer.calculates(line);
    }
}

async fn previews(server: &TestServer, knows: &Computer, lacks: &Computer) {
    let client = client(server);
    let sandbox = create(&client, "mini").await;
    let id = &sandbox.id;
    serve(&client, id).await;
    let quoted = |link: &str| format!("python3 -c '{URLLIB}' '{link}'");

    let shown = knows.pandastack(&format!("sandbox preview {id} 8000"));
    assert_eq!(shown.err, "");
    assert_eq!(knows.runs(&quoted(shown.out.trim()), "").out.trim(), PAGE);

    let shown = lacks.pandastack(&format!("sandbox preview {id} 8000"));
    let (advice, line) = shown.err.trim().split_once("\nor use: ").expect(&shown.err);
    assert!(advice.contains(FIX), "{advice}");
    assert_eq!(lacks.runs(line, "").out.trim(), PAGE);
    let refused = lacks.tries(&quoted(shown.out.trim()), "");
    assert!(refused.code != Some(0) && refused.err.contains("urlopen error"), "{}", refused.err);
    client.delete(id).await.unwrap();
}

/// Serves a page on port 8000 of a sandbox.
async fn serve(client: &Client, id: &str) {
    let line = format!("mkdir -p /srv && cd /srv && echo '{PAGE}' > index.html && exec python3 -m http.server 8000");
    let ask = SpawnRequest { cmd: Some(line), ..SpawnRequest::default() };
    client.spawn(id, &ask).await.unwrap();
    let listens =
        async || client.ports(id).await.unwrap().iter().any(|port| port.port == 8000 && port.listening).then_some(());
    wait_for("the page is served", PATIENCE, listens).await;
}
