//! Builds a recipe's root file system on the host, in a chroot. Recipes are trusted: they are built
//! in, or come from the operator. The result is cached under the digest of all its inputs.
//!
//! ```text
//! <cache>/rootfs/<recipe>-<digest>/{root.ext4, vmlinuz, modules/...}
//! ```

use std::{
    collections::VecDeque,
    fs, io,
    path::{Path, PathBuf},
    process::Stdio,
};

use pandastack_model::ByteSize;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use super::{BakeProgress, limits::LOG_LINES, recipe::Recipe};

/// Change this with the build steps, so that old caches are not used.
const FORMAT: &str = "rootfs 2";

/// The inputs of a root file system.
#[derive(Clone, Debug)]
pub struct RootFsInputs<'a> {
    pub recipe: &'a Recipe,
    pub cache: &'a Path,
    /// The host's certificates to install permanently, for hosts behind an inspecting proxy.
    pub host_ca: Option<&'a Path>,
}

/// A root file system with its kernel.
#[derive(Clone, Debug)]
pub struct RootFs {
    pub digest: String,
    pub disk: PathBuf,
    pub kernel: PathBuf,
    /// `lib/modules/VERSION` of that kernel.
    pub modules: PathBuf,
}

/// A root file system could not be built.
#[derive(Debug, thiserror::Error)]
pub enum RootFsError {
    #[error("{program} is missing; install it or run `pandastack doctor`")]
    Missing { program: String },
    #[error("step `{step}` failed ({status}); the last lines of its log:\n{log}")]
    Step { step: String, status: String, log: String },
    #[error("{action}")]
    Io {
        action: String,
        #[source]
        cause: io::Error,
    },
    #[error("the recipe's packages contain no kernel; add linux-image-cloud-amd64")]
    NoKernel,
}

/// Runs inside `mmdebstrap` after the packages are installed. The host's resolver and certificates
/// serve only the build, unless the certificates are to stay.
const CUSTOMIZE: &str = r#"set -eu
root=$1
install -d "$root/etc/ssl/certs" "$root/tmp"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
if [ -n "${BUILD_CA:-}" ]; then
  [ ! -e "$root/etc/ssl/certs/ca-certificates.crt" ] || cp "$root/etc/ssl/certs/ca-certificates.crt" "$root/tmp/ca.own"
  cp -L "$BUILD_CA" "$root/etc/ssl/certs/ca-certificates.crt"
fi
for script in ${CUSTOMIZE:-}; do
  cp "$script" "$root/tmp/customize.sh"
  ca=/etc/ssl/certs/ca-certificates.crt
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    SSL_CERT_FILE=$ca NODE_EXTRA_CA_CERTS=$ca PIP_CERT=$ca REQUESTS_CA_BUNDLE=$ca CURL_CA_BUNDLE=$ca \
    chroot "$root" /bin/sh -eu /tmp/customize.sh
  rm -f "$root/tmp/customize.sh"
done
if [ -n "${KEEP_CA:-}" ]; then
  cp -L "$KEEP_CA" "$root/etc/ssl/certs/ca-certificates.crt"
  rm -f "$root/tmp/ca.own"
elif [ -e "$root/tmp/ca.own" ]; then
  mv "$root/tmp/ca.own" "$root/etc/ssl/certs/ca-certificates.crt"
fi
rm -rf "$root"/var/cache/apt/*.bin "$root"/var/lib/apt/lists/* "$root"/var/log/* "$root"/tmp/* "$root"/boot/initrd.img*
mkdir -p "$root/workspace"
: > "$root/etc/machine-id"
echo sandbox > "$root/etc/hostname"
: > "$root/etc/resolv.conf"
"#;

/// The certificate bundle that most tools on a Debian host read.
const HOST_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Returns the root from the cache, or builds it.
pub async fn ensure_rootfs(ask: RootFsInputs<'_>, progress: &dyn BakeProgress) -> Result<RootFs, RootFsError> {
    let digest = digest(&ask)?;
    let folder = ask.cache.join("rootfs").join(format!("{}-{digest}", ask.recipe.family));
    if !folder.join("complete").exists() {
        make(&ask, &folder, progress).await?;
    } else {
        progress.step("root file system: cached");
    }
    let version = fs::read_to_string(folder.join("complete")).map_err(io_at("read the cached root"))?;
    Ok(RootFs {
        digest,
        disk: folder.join("root.ext4"),
        kernel: folder.join("vmlinuz"),
        modules: folder.join("modules").join(version.trim()),
    })
}

fn digest(ask: &RootFsInputs<'_>) -> Result<String, RootFsError> {
    // What differs between variants is left out: they share a root.
    let Recipe {
        name: _,
        family,
        aliases: _,
        suite,
        packages,
        memory: _,
        cpus: _,
        disk,
        warm: _,
        kernels: _,
        customize,
        files,
        variants: _,
    } = ask.recipe;
    let ca = match ask.host_ca {
        Some(path) => fs::read(path).map_err(io_at("read the host's certificates"))?,
        None => Vec::new(),
    };
    let mut hasher = blake3::Hasher::new();
    let disk = disk.get().to_string();
    let context = [FORMAT, CUSTOMIZE, family.as_str(), suite, &packages.join(" "), &disk, &customize.join("\0")];
    let files = files.iter().flat_map(|file| [file.name.as_bytes(), file.text.as_bytes()]);
    for part in context.iter().map(|part| part.as_bytes()).chain([ca.as_slice()]).chain(files) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}

async fn make(ask: &RootFsInputs<'_>, folder: &Path, progress: &dyn BakeProgress) -> Result<(), RootFsError> {
    remove_abandoned(&ask.cache.join("rootfs"), progress).await?;
    let staging = folder.with_extension(format!("new-{}", std::process::id()));
    fs::create_dir_all(&staging).map_err(io_at("create the cache folder"))?;
    let made = fill(ask, &staging, progress).await;
    let result = match made {
        Ok(()) => match fs::rename(&staging, folder) {
            Ok(()) => Ok(()),
            // Another process built the same root meanwhile.
            Err(_) if folder.join("complete").exists() => remove_tree(&staging, progress).await,
            Err(cause) => Err(RootFsError::Io { action: "move the root into the cache".to_owned(), cause }),
        },
        Err(error) => Err(error),
    };
    if result.is_err() {
        let _ = remove_tree(&staging, progress).await;
    }
    result
}

/// Removes the folders of builds that were killed. Each may take gigabytes.
async fn remove_abandoned(roots: &Path, progress: &dyn BakeProgress) -> Result<(), RootFsError> {
    for entry in fs::read_dir(roots).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.rsplit_once(".new-")).map(|(_, maker)| maker);
        let abandoned = maker
            .is_some_and(|maker| maker == std::process::id().to_string() || !Path::new("/proc").join(maker).exists());
        if abandoned {
            remove_tree(&entry.path(), progress).await?;
        }
    }
    Ok(())
}

/// Removes a folder, but nothing on a file system that is mounted in it.
async fn remove_tree(folder: &Path, progress: &dyn BakeProgress) -> Result<(), RootFsError> {
    let mut remove = Command::new("rm");
    remove.arg("-rf").arg("--one-file-system").arg(folder);
    run("clean up", remove, progress).await
}

async fn fill(ask: &RootFsInputs<'_>, staging: &Path, progress: &dyn BakeProgress) -> Result<(), RootFsError> {
    let root = staging.join("root");
    progress.step(&format!("packages of {}", ask.recipe.family));
    let mut version = Command::new("mmdebstrap");
    version.arg("--version");
    run("look for mmdebstrap", version, progress).await?;
    run("install packages", debstrap(ask, staging, &root)?, progress).await?;

    progress.step("kernel and modules");
    let version = newest_kernel(&root.join("boot"))?;
    fs::copy(root.join("boot").join(format!("vmlinuz-{version}")), staging.join("vmlinuz"))
        .map_err(io_at("copy the kernel"))?;
    let modules = staging.join("modules");
    fs::create_dir_all(&modules).map_err(io_at("create the module folder"))?;
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(root.join("lib/modules").join(&version)).arg(&modules);
    run("copy modules", copy, progress).await?;

    progress.step("disk image");
    let disk = staging.join("root.ext4");
    make_disk(&root, &disk, ask.recipe.disk, progress).await?;
    remove_tree(&root, progress).await?;
    fs::write(staging.join("complete"), version).map_err(io_at("finish the root"))
}

fn debstrap(ask: &RootFsInputs<'_>, staging: &Path, root: &Path) -> Result<Command, RootFsError> {
    let hook = staging.join("customize-hook");
    fs::write(&hook, CUSTOMIZE).map_err(io_at("write the hook"))?;
    let mut command = enclosed("mmdebstrap");
    command.args(["--mode=root", "--variant=minbase", "--components=main"]);
    command.arg(format!("--include={}", ask.recipe.packages.join(",")));
    // We boot with our own initramfs, so Debian's is not built.
    command.arg(
        "--essential-hook=mkdir -p \"$1/etc/initramfs-tools\" && echo update_initramfs=no \
        > \"$1/etc/initramfs-tools/update-initramfs.conf\"",
    );
    command.args([
        "--dpkgopt=force-confold",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
    ]);
    if !ask.recipe.files.is_empty() {
        let files = staging.join("files");
        fs::create_dir_all(&files).map_err(io_at("create the folder of the recipe's files"))?;
        for file in &ask.recipe.files {
            fs::write(files.join(&file.name), &file.text).map_err(io_at("write the recipe's files"))?;
        }
        command.arg(format!("--customize-hook=cp -R {} \"$1/tmp/files\"", files.display()));
    }
    command.arg(format!("--customize-hook=sh {} \"$1\"", hook.display()));
    let mut scripts = Vec::new();
    for (number, script) in ask.recipe.customize.iter().enumerate() {
        let file = staging.join(format!("customize-{number}.sh"));
        fs::write(&file, script).map_err(io_at("write the recipe's script"))?;
        scripts.push(file.display().to_string());
    }
    command.env("CUSTOMIZE", scripts.join(" "));
    if Path::new(HOST_BUNDLE).exists() {
        command.env("BUILD_CA", HOST_BUNDLE);
    }
    if let Some(ca) = ask.host_ca {
        command.env("KEEP_CA", ca);
    }
    command.arg(&ask.recipe.suite).arg(root);
    Ok(command)
}

/// Runs a program in its own mount and process namespace, which ends with this process. So no
/// process stays in the chroot, and nothing stays mounted in a folder that is removed later. The
/// umask is the usual one, because the program makes a guest's files. This process makes private
/// files only.
fn enclosed(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "--pid", "--fork"]);
    command.args(["--kill-child=KILL", "sh", "-c", "umask 022 && exec \"$0\" \"$@\"", program]);
    command
}

async fn make_disk(root: &Path, disk: &Path, size: ByteSize, progress: &dyn BakeProgress) -> Result<(), RootFsError> {
    let mut command = Command::new("mke2fs");
    // The sparse file reads as zeros. Without `assume_storage_prezeroed` a guest would initialize
    // the inode tables, and every copy of a layer that was sealed meanwhile would continue that.
    command.args(["-q", "-t", "ext4", "-F", "-m", "0", "-L", "root", "-J", "size=16"]);
    command.args(["-E", "root_owner=0:0,assume_storage_prezeroed=1", "-d"]);
    command.arg(root).arg(disk).arg(format!("{}M", size.as_mib()));
    run("create the disk image", command, progress).await
}

fn newest_kernel(boot: &Path) -> Result<String, RootFsError> {
    let entries = fs::read_dir(boot).map_err(|_| RootFsError::NoKernel)?;
    let mut versions: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("vmlinuz-").map(str::to_owned))
        .collect();
    versions.sort();
    versions.pop().ok_or(RootFsError::NoKernel)
}

/// Runs one step. Forwards its output lines and keeps the last ones for an error.
async fn run(step: &str, mut command: Command, progress: &dyn BakeProgress) -> Result<(), RootFsError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env("LC_ALL", "C.UTF-8")
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => RootFsError::Missing { program: program.clone() },
        _ => RootFsError::Io { action: format!("start {program}"), cause },
    })?;
    let stderr = child.stderr.take().expect("standard error was piped");
    let mut lines = BufReader::new(stderr).lines();
    let mut last: VecDeque<String> = VecDeque::new();
    while let Ok(Some(line)) = lines.next_line().await {
        progress.line(&line);
        last.push_back(line);
        if last.len() > LOG_LINES {
            last.pop_front();
        }
    }
    let status = child.wait().await.map_err(io_at("wait for a step"))?;
    if status.success() {
        return Ok(());
    }
    Err(RootFsError::Step { step: step.to_owned(), status: status.to_string(), log: Vec::from(last).join("\n") })
}

fn io_at(action: &str) -> impl FnOnce(io::Error) -> RootFsError + '_ {
    move |cause| RootFsError::Io { action: action.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bake::{NoProgress, builtin};

    #[tokio::test]
    async fn a_failing_step_names_itself_and_its_last_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "for i in $(seq 40); do echo line $i >&2; done; exit 3"]);
        let error = run("install packages", command, &NoProgress).await.unwrap_err().to_string();
        assert!(
            error.contains("`install packages`") && error.contains("line 40") && !error.contains("line 20\n"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_step_that_is_given_up_ends_with_all_its_processes_and_mounts() {
        let folder = tempfile::tempdir().unwrap();
        let (mounted, inner) = (folder.path().join("mounted"), folder.path().join("inner"));
        fs::create_dir(&mounted).unwrap();
        let script = format!(
            "mount -t tmpfs none {0} && sh -c 'echo begun > {1}; exec 9> {0}/held; flock 8; sleep 600' 8> {1}.lock",
            mounted.display(),
            inner.display(),
        );
        let mut command = enclosed("sh");
        command.args(["-c", &script]);
        let patience = std::time::Duration::from_secs(60);
        let begun = async {
            while !inner.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            ended = run("mount", command, &NoProgress) => panic!("it ended by itself: {ended:?}"),
            () = begun => {}
            () = tokio::time::sleep(patience) => panic!("it did not begin"),
        }
        assert!(!mounted.join("held").exists(), "the mount is seen from outside");
        // The grandchild holds a lock while it lives.
        let lock = fs::File::open(inner.with_extension("lock")).unwrap();
        tokio::time::timeout(patience, tokio::task::spawn_blocking(move || lock.lock()))
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }

    #[tokio::test]
    async fn a_guests_files_have_the_usual_modes_though_the_bake_makes_private_ones() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made");
        let mut command = enclosed("sh");
        command.args(["-c", "mkdir \"$1\" && : > \"$1/file\"", "sh"]).arg(&made);
        pandastack_sys::private::close_umask();
        run("make files", command, &NoProgress).await.unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&made), mode(&made.join("file"))], [0o755, 0o644]);
    }

    #[tokio::test]
    async fn what_killed_makers_left_is_removed_and_nothing_else() {
        let roots = tempfile::tempdir().unwrap();
        let alive = format!("a-1.new-{}", std::os::unix::process::parent_id());
        for name in ["a-1", "a-1.new-4194305", &alive] {
            fs::create_dir_all(roots.path().join(name).join("root")).unwrap();
        }
        remove_abandoned(roots.path(), &NoProgress).await.unwrap();
        let mut left: Vec<_> = fs::read_dir(roots.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a-1", alive.as_str()]);
    }

    #[test]
    fn variants_share_one_root() {
        let digest_of =
            |recipe: &Recipe| digest(&RootFsInputs { recipe, cache: Path::new("/"), host_ca: None }).unwrap();
        let small = builtin("postgres-16").unwrap();
        for name in ["postgres-16-4g", "postgres-16-16g"] {
            assert_eq!(digest_of(&builtin(name).unwrap()), digest_of(&small), "{name}");
        }
        let other = Recipe { family: "other".parse().unwrap(), ..small.clone() };
        assert_ne!(digest_of(&other), digest_of(&small));
    }

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let error = run("x", Command::new("no-such-program-here"), &NoProgress).await.unwrap_err();
        assert!(matches!(error, RootFsError::Missing { program } if program == "no-such-program-here"));
    }
}
