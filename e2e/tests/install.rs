//! What people install, built from stand-ins for the programs: the Debian package, the archives,
//! and the installer against a web server. `deep::install` installs the real package.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{PermissionsExt as _, chown, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use pandastack_e2e::project;
use tempfile::TempDir;

/// A user without rights.
const NOBODY: u32 = 65534;

/// All that the installer may call. A test leaves one out or replaces it.
const TOOLS: [&str; 24] = [
    "awk",
    "cat",
    "chmod",
    "cmp",
    "cp",
    "curl",
    "dirname",
    "find",
    "grep",
    "gzip",
    "id",
    "mkdir",
    "mktemp",
    "mv",
    "printf",
    "rm",
    "sed",
    "sh",
    "sha256sum",
    "sort",
    "tail",
    "tar",
    "uname",
    "wget",
];

/// Packs stand-ins for the programs as a release.
fn release(version: &str, out: &Path) {
    let binaries = tempfile::tempdir().unwrap();
    let program = format!(
        "#!/bin/sh\n# GLIBC_2.9 GLIBC_2.34 GLIBC_2.4\ncase $1 in\n--version) echo pandastack {version} ;;\n\
         completion) echo completion for $2 ;;\ndocs) echo .TH PANDASTACK 1 > $3/pandastack.1 ;;\nesac\n"
    );
    for name in ["pandastack", "pandastack-client", "pandastack-guestd"] {
        write_program(&binaries.path().join(name), &program);
    }
    let mut command = Command::new(project().join("packaging/build-archives"));
    command
        .arg(version)
        .arg(binaries.path())
        .arg(out)
        .env("COMPRESSION", "none")
        .env("SOURCE_DATE_EPOCH", "1700000000");
    said(&command.output().unwrap());
}

fn write_program(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The output of a program that must succeed.
fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The complaint of a program that must fail.
fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Delivery {
    Whole,
    /// Archives end in the middle, and the connection with them.
    CutShort,
}

/// A user without rights: home, temporary folder, programs. Beside it a web server with releases.
struct Ground {
    folder: TempDir,
    url: String,
}

impl Ground {
    fn new(versions: &[&str], delivery: Delivery) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["home", "tmp", "tools", "release"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["home", "tmp"] {
            chown(folder.path().join(name), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let ground = Self { url: serve(folder.path().join("release"), delivery), folder };
        let path = std::env::var_os("PATH").unwrap();
        for tool in TOOLS {
            let found = std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.exists());
            symlink(found.unwrap_or_else(|| panic!("{tool} is installed")), ground.tool(tool)).unwrap();
        }
        versions.iter().for_each(|version| release(version, &ground.folder.path().join("release")));
        ground
    }

    fn tool(&self, name: &str) -> PathBuf {
        self.folder.path().join("tools").join(name)
    }

    /// Replaces a program.
    fn fake(&self, name: &str, line: &str) {
        fs::remove_file(self.tool(name)).unwrap();
        write_program(&self.tool(name), &format!("#!/bin/sh\n{line}\n"));
    }

    /// Feeds a script to the shell of the user, as `curl | sh` does.
    fn feed(&self, script: &[u8], words: &[&str], url: &str) -> Output {
        let mut command = Command::new("/bin/sh");
        command.args(["-s", "--"]).args(words).env_clear().current_dir("/").uid(NOBODY).gid(NOBODY);
        command.env("HOME", self.folder.path().join("home")).env("TMPDIR", self.folder.path().join("tmp"));
        command.env("PATH", self.folder.path().join("tools")).env("PANDASTACK_BASE_URL", url);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A script that fails early does not read the rest.
        let _ = child.stdin.take().unwrap().write_all(script);
        child.wait_with_output().unwrap()
    }

    fn install(&self, words: &[&str]) -> Output {
        self.feed(&installer(), words, &self.url)
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("home/.local/bin/pandastack")
    }

    /// The installed version.
    fn version(&self) -> String {
        said(&Command::new(self.program()).arg("--version").output().unwrap()).trim().to_owned()
    }

    fn assert_untouched(&self) {
        assert_eq!(fs::read_dir(self.folder.path().join("home")).unwrap().count(), 0);
        self.assert_no_temporary_files();
    }

    fn assert_no_temporary_files(&self) {
        assert_eq!(fs::read_dir(self.folder.path().join("tmp")).unwrap().count(), 0);
    }
}

fn installer() -> Vec<u8> {
    fs::read(project().join("packaging/install.sh")).unwrap()
}

/// Serves the files of a folder until the test ends.
fn serve(folder: PathBuf, delivery: Delivery) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away is no failure of the test.
            let _ = answer(stream, &folder, delivery);
        }
    });
    url
}

fn answer(stream: TcpStream, folder: &Path, delivery: Delivery) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?.take(8192)).lines();
    let asked = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let name = asked.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
    let mut stream = stream;
    let Ok(body) = fs::read(folder.join(&name)) else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    };
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    let is_cut = delivery == Delivery::CutShort && name.ends_with(".tar.gz");
    stream.write_all(if is_cut { &body[..body.len() / 2] } else { &body })
}

#[test]
fn the_package_has_its_files_at_the_places_of_debian() {
    let folder = tempfile::tempdir().unwrap();
    release("1.2.3", folder.path());
    let package = folder.path().join("pandastack_1.2.3_amd64.deb");
    let deb = |what: &str| said(&Command::new("dpkg-deb").arg(what).arg(&package).output().unwrap());
    let fields = deb("--field");
    for line in ["Package: pandastack", "Version: 1.2.3", "Architecture: amd64", "Depends: libc6 (>= 2.34), libgcc-s1,"]
    {
        assert!(fields.contains(line), "{line} in {fields}");
    }
    let contents = deb("--contents");
    for (mode, path) in [
        ("-rwxr-xr-x root/root", "./usr/bin/pandastack"),
        ("-rwxr-xr-x root/root", "./usr/lib/pandastack/pandastack-guestd"),
        ("-rw-r--r-- root/root", "./usr/lib/systemd/system/pandastack.service"),
        ("-rw-r----- root/root", "./etc/pandastack/pandastack.env"),
        ("-rw-r--r-- root/root", "./usr/share/bash-completion/completions/pandastack"),
        ("-rw-r--r-- root/root", "./usr/share/zsh/vendor-completions/_pandastack"),
        ("-rw-r--r-- root/root", "./usr/share/man/man1/pandastack.1.gz"),
    ] {
        let found = contents.lines().any(|line| line.starts_with(mode) && line.ends_with(&format!(" {path}")));
        assert!(found, "{mode} {path} in {contents}");
    }
    let control = folder.path().join("control");
    said(&Command::new("dpkg-deb").arg("--control").arg(&package).arg(&control).output().unwrap());
    assert_eq!(fs::read_to_string(control.join("conffiles")).unwrap(), "/etc/pandastack/pandastack.env\n");
    for script in ["postinst", "prerm", "postrm"] {
        said(&Command::new("sh").arg("-n").arg(control.join(script)).output().unwrap());
    }
}

#[test]
fn the_same_programs_give_the_same_archives() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
    release("1.0.0", one.path());
    release("1.0.0", other.path());
    assert_eq!(sums(one.path()), sums(other.path()));
    assert_eq!(sums(one.path()).lines().count(), 4);
}

#[test]
fn a_user_without_rights_installs_the_client_again_and_a_newer_one() {
    let ground = Ground::new(&["0.9.0"], Delivery::Whole);
    let first = said(&ground.install(&[]));
    assert!(first.contains("installed pandastack 0.9.0") && first.contains("add it to your PATH"), "{first}");
    for file in ["bash-completion/completions/pandastack", "zsh/site-functions/_pandastack"] {
        assert!(ground.folder.path().join("home/.local/share").join(file).exists(), "{file}");
    }
    let again = said(&ground.install(&["--client"]));
    assert!(again.contains("pandastack 0.9.0 is already in"), "{again}");
    release("0.10.0", &ground.folder.path().join("release"));
    let newer = said(&ground.install(&[]));
    assert!(newer.contains("installed pandastack 0.10.0") && newer.contains("(was 0.9.0)"), "{newer}");
    let missing = complaint(&ground.install(&["--version", "7.0.0"]));
    assert!(missing.contains("no pandastack-client-7.0.0-linux-x86_64.tar.gz"), "{missing}");
    assert_eq!(ground.version(), "pandastack 0.10.0");
    said(&ground.install(&["--version", "0.9.0"]));
    assert_eq!(ground.version(), "pandastack 0.9.0");
    ground.assert_no_temporary_files();
}

#[test]
fn without_curl_it_uses_wget() {
    let ground = Ground::new(&["1.0.0"], Delivery::Whole);
    fs::remove_file(ground.tool("curl")).unwrap();
    said(&ground.install(&[]));
    assert_eq!(ground.version(), "pandastack 1.0.0");
    fs::remove_file(ground.tool("wget")).unwrap();
    let neither = complaint(&ground.install(&[]));
    assert!(neither.contains("needs curl or wget"), "{neither}");
}

#[test]
fn a_wrong_checksum_or_a_lost_connection_leaves_nothing() {
    let ground = Ground::new(&["1.0.0"], Delivery::Whole);
    let archive = ground.folder.path().join("release/pandastack-client-1.0.0-linux-x86_64.tar.gz");
    let mut bytes = fs::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&archive, bytes).unwrap();
    let refused = complaint(&ground.install(&[]));
    assert!(refused.contains("wrong checksum; nothing was installed"), "{refused}");
    ground.assert_untouched();

    let ground = Ground::new(&["1.0.0"], Delivery::CutShort);
    for tool in ["curl", "wget"] {
        let lost = complaint(&ground.install(&[]));
        assert!(lost.contains("could not download") && lost.contains("linux-x86_64.tar.gz"), "{tool}: {lost}");
        ground.assert_untouched();
        fs::remove_file(ground.tool("curl")).unwrap_or_default();
    }
}

#[test]
fn a_script_that_arrives_in_part_does_nothing() {
    let ground = Ground::new(&["1.0.0"], Delivery::Whole);
    let script = installer();
    for length in (0..script.len() - "main\n".len()).step_by(script.len() / 40) {
        ground.feed(&script[..length], &[], &ground.url);
        ground.assert_untouched();
    }
}

#[test]
fn it_refuses_what_it_has_no_build_for() {
    let ground = Ground::new(&["1.0.0"], Delivery::Whole);
    let refused = |words: &[&str], url: &str| complaint(&ground.feed(&installer(), words, url));
    assert!(refused(&[], "").contains("set PANDASTACK_BASE_URL"));
    assert!(refused(&[], "http://downloads.example.com").contains("has no TLS"));
    assert!(refused(&[], "http://localhost.example.com").contains("has no TLS"));
    assert!(refused(&[], "ftp://localhost").contains("must begin with https://"));
    assert!(refused(&[], &format!("{}/elsewhere", ground.url)).contains("is PANDASTACK_BASE_URL right?"));
    assert!(refused(&["--server"], &ground.url).contains("the server needs root"));
    assert!(refused(&["--shiny"], &ground.url).contains("unknown argument --shiny"));
    assert!(refused(&["--version"], &ground.url).contains("--version needs a value"));
    ground.fake("uname", "[ $1 = -s ] && echo Linux || echo aarch64");
    assert!(refused(&[], &ground.url).contains("no build for aarch64"));
    ground.fake("uname", "echo Darwin");
    assert!(refused(&[], &ground.url).contains("no build for Darwin"));
    ground.assert_untouched();
}

#[test]
fn the_server_comes_by_apt_or_as_an_archive() {
    let ground = Ground::new(&["1.0.0"], Delivery::Whole);
    // The installer believes that it is root.
    ground.fake("id", "echo 0");
    write_program(&ground.tool("dpkg"), "#!/bin/sh\n");
    write_program(&ground.tool("apt-get"), "#!/bin/sh\nfor last; do :; done\necho apt-get $* && sha256sum $last\n");
    let by_apt = said(&ground.install(&["--server"]));
    let sums = fs::read_to_string(ground.folder.path().join("release/SHA256SUMS")).unwrap();
    let sum = sums.lines().find_map(|line| line.strip_suffix("  pandastack_1.0.0_amd64.deb")).unwrap();
    assert!(by_apt.contains("apt-get install -q -y /") && by_apt.contains(sum), "{by_apt}");
    ground.assert_untouched();

    let prefix = ground.folder.path().join("home/server");
    said(&ground.install(&["--server", "--prefix", prefix.to_str().unwrap()]));
    for file in ["bin/pandastack", "lib/pandastack/pandastack-guestd", "share/man/man1/pandastack.1.gz"] {
        assert!(prefix.join(file).exists(), "{file}");
    }
    let unit = fs::read_to_string(prefix.join("lib/systemd/system/pandastack.service")).unwrap();
    assert!(unit.contains(&format!("ExecStart={}/bin/pandastack up", prefix.display())), "{unit}");
    ground.assert_no_temporary_files();
}
