//! Data folders in which a server has sealed the machine that databases start from. That takes a
//! minute without KVM, so it is done once for each server binary and template, and every test gets
//! a copy that shares its blocks.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};
use pandastack_layers::{DataVolume, copy_layer, file_digest};
use pandastack_sys::{private, reflink::clone_or_copy};
use serde_json::Value;

use crate::{
    DataFolder,
    server::{TestServer, built},
};

/// The template of databases.
pub const TEMPLATE: &str = "postgres-16";

/// How long the machine may take without a KVM, beside other tests.
const READY_MAX: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(200);

/// How many prepared folders stay: those of a few builds that are tested in turn.
const KEPT: usize = 3;

/// Characters of the binary's digest in the name of a prepared folder.
const DIGEST_CHARS: usize = 16;

/// Files of one running server.
const OF_A_SERVER: [&str; 4] = ["lock", "volume.users", "volume.mounting", "sign-in-link"];

/// Copies the prepared folder to a new place. The first caller prepares it; others wait.
pub fn copy_with_databases(shared: &DataVolume, to: &Path) -> Result<()> {
    let all = shared.root().join("prepared");
    private::make_folder(&all)?;
    // Held until the copy is done, so that nobody removes what is being copied.
    let lock = File::create(all.join("lock"))?;
    lock.lock().context("lock the prepared folders")?;
    let prepared = all.join(name(shared)?);
    if !prepared.exists() {
        prepare(&prepared)?;
    }
    File::open(&prepared)?.set_modified(SystemTime::now())?;
    remove_old(&all)?;
    copy_folder(&prepared, to).context("copy a prepared folder")
}

/// Names the folder after everything that its content comes from.
fn name(shared: &DataVolume) -> Result<String> {
    let digest = file_digest(&built("pandastack")).context("read the server; `make test-build` builds it")?;
    let layer = fs::read_to_string(shared.root().join("templates").join(TEMPLATE)).context("find the template")?;
    Ok(format!("databases-{}-{}", &digest[..DIGEST_CHARS], layer.trim()))
}

/// Lets a server create and delete one database, and keeps its data folder.
fn prepare(place: &Path) -> Result<()> {
    let folder = DataFolder::with_templates()?;
    folder.add_template(TEMPLATE)?;
    let mut server = TestServer::start(folder.path(), &["--standby", "0", "--blanks", "0"])?;
    let said = server.said();
    ensure!(said.contains("preparing  databases of postgres-16,"), "the start does not tell of it: {said}");
    // The server makes it by itself.
    wait_until_ready(&server)?;
    for words in [["create", "--label", "first"], ["delete", "first", "--yes"]] {
        let mut command = Command::new(built("pandastack"));
        command.args(["--api-url", &server.url, "db"]).args(words).env("PANDASTACK_API_KEY", &server.key);
        let output = command.stdin(Stdio::null()).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "db {words:?}: {complaint}\n{}", server.said());
    }
    let said = server.said();
    let code = server.stop()?;
    ensure!(code == Some(0), "the server ended with {code:?}: {said}");
    // The last step: a folder of this name is complete.
    fs::rename(folder.path(), place).context("keep the prepared folder")
}

/// Waits until databases can start at once.
fn wait_until_ready(server: &TestServer) -> Result<()> {
    let deadline = Instant::now() + READY_MAX;
    loop {
        let mut command = Command::new(built("pandastack"));
        command.args(["--api-url", &server.url, "template", "get", TEMPLATE, "--json"]);
        let output = command.env("PANDASTACK_API_KEY", &server.key).stdin(Stdio::null()).output()?;
        let template: Value = serde_json::from_slice(&output.stdout).context("read the template")?;
        match template["databases"]["status"].as_str() {
            Some("ready") => return Ok(()),
            Some("waiting" | "preparing") if Instant::now() < deadline => std::thread::sleep(LOOK),
            _ => bail!("{TEMPLATE} is not prepared: {template}\n{}", server.said()),
        }
    }
}

/// Removes all prepared folders but the last used ones.
fn remove_old(all: &Path) -> Result<()> {
    let mut folders: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(all)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    folders.sort();
    let old = folders.len().saturating_sub(KEPT);
    folders.iter().take(old).try_for_each(|(_, path)| fs::remove_dir_all(path)).context("remove a prepared folder")
}

/// Copies a data folder that no server uses.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    private::make_folder(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, source, target) = (entry.file_type()?, entry.path(), to.join(entry.file_name()));
        if OF_A_SERVER.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if kind.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_dir() && from.ends_with("volume/layers") {
            copy_layer(&source, &target)?;
        } else if kind.is_dir() {
            copy_folder(&source, &target)?;
        } else if kind.is_file() {
            clone_or_copy(&source, &target)?;
            fs::set_permissions(&target, fs::metadata(&source)?.permissions())?;
        } else {
            bail!("{} is not a file that can be copied", source.display());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_copy_has_everything_but_what_belongs_to_a_running_server() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("copies/to"));
        fs::create_dir_all(from.join("volume/layers/lyr_1")).unwrap();
        for file in ["lock", "volume.users", "control.db", "volume/layers/lyr_1/mem", "key.pem"] {
            fs::write(from.join(file), file).unwrap();
        }
        fs::set_permissions(from.join("key.pem"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("/elsewhere", from.join("runtime")).unwrap();
        copy_folder(&from, &to).unwrap();
        for file in ["control.db", "volume/layers/lyr_1/mem", "key.pem"] {
            assert_eq!(fs::read_to_string(to.join(file)).unwrap(), file);
        }
        assert_eq!(private::open_mode(&to.join("key.pem")), None);
        assert_eq!(fs::read_link(to.join("runtime")).unwrap(), Path::new("/elsewhere"));
        assert!(!to.join("lock").exists() && !to.join("volume.users").exists());
    }

    #[test]
    fn the_last_used_folders_stay() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("lock"), "").unwrap();
        for age in 0..=KEPT as u64 + 1 {
            let path = folder.path().join(format!("databases-{age}"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join("control.db"), "").unwrap();
            File::open(&path).unwrap().set_modified(SystemTime::now() - Duration::from_secs(age * 60)).unwrap();
        }
        remove_old(folder.path()).unwrap();
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["databases-0", "databases-1", "databases-2", "lock"]);
    }
}
