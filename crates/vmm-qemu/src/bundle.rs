//! The runtime bundle: a copy of QEMU with its libraries and firmware, named by its content digest.
//! A saved state is safe only with the QEMU that wrote it, so each layer names its bundle. After a
//! QEMU upgrade, new layers use the new bundle, and old layers keep theirs.
//!
//! ```text
//! <bundles>/<digest>/bin/qemu   lib/*.so*   lib/ld.so   modules/*.so   share/*.bin
//! ```

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use pandastack_model::Tier;

/// Length of a bundle's name.
const DIGEST_DIGITS: usize = 32;

/// Marks a complete bundle.
const COMPLETE: &str = "complete";

const PROGRAM: &str = "qemu-system-x86_64";

/// Firmware that a microvm with a direct kernel boot needs.
const FIRMWARE: [&str; 5] = ["bios-microvm.bin", "qboot.rom", "linuxboot_dma.bin", "pvh.bin", "kvmvapic.bin"];
const FIRMWARE_FOLDERS: [&str; 3] = ["/usr/share/qemu", "/usr/share/seabios", "/usr/share/qemu-efi"];
const MODULE_FOLDER: &str = "/usr/lib/x86_64-linux-gnu/qemu";

/// A bundle could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("{program} is not installed; install the package qemu-system-x86 or run `pandastack doctor`")]
    Missing { program: String },
    #[error("list the libraries of {program}: {reason}")]
    Libraries { program: PathBuf, reason: String },
    #[error("copy {path} into the bundle")]
    Copy {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}

/// A bundle on disk.
#[derive(Clone, Debug)]
pub struct Bundle {
    folder: PathBuf,
    digest: String,
}

impl Bundle {
    /// Finds the host's QEMU for a tier and makes sure its bundle exists under a folder.
    pub fn ensure(tier: Tier, bundles: &Path) -> Result<Self, BundleError> {
        let program = find_program()?;
        let parts = gather(&program, tier)?;
        let digest = digest(&parts)?;
        let folder = bundles.join(&digest);
        if !folder.join(COMPLETE).exists() {
            fill(&folder, &parts)?;
        }
        Ok(Self { folder, digest })
    }

    /// Opens a bundle that was made earlier, independent of what the host has installed now.
    pub fn open(bundles: &Path, digest: &str) -> Option<Self> {
        // Digests come from manifests, so only a valid digest may become a folder name.
        let plain = digest.len() == DIGEST_DIGITS && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let folder = bundles.join(digest);
        (plain && folder.join(COMPLETE).exists()).then(|| Self { folder, digest: digest.to_owned() })
    }

    /// Removes all complete bundles except those to keep, and returns their digests.
    pub fn collect(bundles: &Path, keep: impl Fn(&str) -> bool) -> Vec<String> {
        let entries = fs::read_dir(bundles).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let unwanted = names.filter_map(|name| Bundle::open(bundles, &name)).filter(|bundle| !keep(&bundle.digest));
        // Without its mark it is no longer a bundle, even if the removal does not finish.
        let gone = unwanted.filter(|bundle| fs::remove_file(bundle.folder.join(COMPLETE)).is_ok());
        gone.filter(|bundle| fs::remove_dir_all(&bundle.folder).is_ok()).map(|bundle| bundle.digest).collect()
    }

    /// The bundle's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Digest of everything in the bundle.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Program and arguments that run this QEMU with the bundle's libraries and firmware. `at` is
    /// the path of the bundle as the process sees it.
    pub fn program(&self, at: &Path) -> BundleProgram {
        let path = |name: &str| at.join(name).display().to_string();
        let arguments = ["--library-path".to_owned(), path("lib"), path("bin/qemu"), "-L".to_owned(), path("share")];
        BundleProgram {
            path: path("lib/ld.so"),
            arguments: arguments.to_vec(),
            environment: vec![format!("QEMU_MODULE_DIR={}", path("modules"))],
        }
    }

    /// A command that runs this QEMU as an ordinary child.
    pub fn command(&self) -> Command {
        let program = self.program(&self.folder);
        let mut command = Command::new(&program.path);
        let environment = program.environment.iter().filter_map(|pair| pair.split_once('='));
        command.args(&program.arguments).env_clear().envs(environment);
        command
    }
}

/// How to run a bundle's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleProgram {
    pub path: String,
    /// Arguments that come before all others.
    pub arguments: Vec<String>,
    /// The whole environment.
    pub environment: Vec<String>,
}

/// Finds the host's QEMU. Debian's smaller `-microvm` build starts faster, but lacks the system
/// call filter, so it is not used.
fn find_program() -> Result<PathBuf, BundleError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|file| file.is_file());
    found.ok_or_else(|| BundleError::Missing { program: PROGRAM.to_owned() })
}

/// Lists every file of the bundle: path in the bundle, path on the host.
fn gather(program: &Path, tier: Tier) -> Result<BTreeMap<PathBuf, PathBuf>, BundleError> {
    let mut parts = BTreeMap::new();
    parts.insert("bin/qemu".into(), program.to_owned());
    let mut objects = vec![program.to_owned()];
    let accelerator = Path::new(MODULE_FOLDER).join("accel-tcg-x86_64.so");
    if tier != Tier::Kvm && accelerator.is_file() {
        parts.insert("modules/accel-tcg-x86_64.so".into(), accelerator.clone());
        objects.push(accelerator);
    }
    for object in &objects {
        for library in libraries(object)? {
            let name = library.file_name().unwrap_or_default().to_owned();
            let into = if name.to_string_lossy().starts_with("ld-linux") {
                "lib/ld.so".into()
            } else {
                Path::new("lib").join(&name)
            };
            parts.insert(into, library);
        }
    }
    for name in FIRMWARE {
        if let Some(file) =
            FIRMWARE_FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|file| file.is_file())
        {
            parts.insert(Path::new("share").join(name), file);
        }
    }
    Ok(parts)
}

fn libraries(object: &Path) -> Result<Vec<PathBuf>, BundleError> {
    let failed = |reason: String| BundleError::Libraries { program: object.to_owned(), reason };
    let output =
        Command::new("ldd").arg(object).env("LC_ALL", "C").output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        return Err(failed(line.trim().to_owned()));
    }
    // `name => /path (address)` or `/path (address)`. The vDSO has no path.
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}

fn digest(parts: &BTreeMap<PathBuf, PathBuf>) -> Result<String, BundleError> {
    let mut hasher = blake3::Hasher::new();
    for (name, source) in parts {
        let bytes = fs::read(source).map_err(|cause| BundleError::Copy { path: source.clone(), cause })?;
        hasher.update(name.as_os_str().as_encoded_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(&bytes);
    }
    Ok(hasher.finalize().to_hex()[..DIGEST_DIGITS].to_owned())
}

/// Fills a staging folder and renames it, so that a crash leaves no partial bundle under the
/// digest.
fn fill(folder: &Path, parts: &BTreeMap<PathBuf, PathBuf>) -> Result<(), BundleError> {
    let copy = |path: &Path| {
        let path = path.to_owned();
        move |cause| BundleError::Copy { path, cause }
    };
    let parent = folder.parent().unwrap_or(Path::new("/"));
    let staging = parent.join(format!(".bundle-{}", std::process::id()));
    let _ = fs::remove_dir_all(&staging);
    for (name, source) in parts {
        let into = staging.join(name);
        fs::create_dir_all(into.parent().unwrap_or(&staging)).map_err(copy(&into))?;
        fs::copy(source, &into).map_err(copy(source))?;
    }
    fs::create_dir_all(staging.join("modules")).map_err(copy(&staging))?;
    // Machines' processes read it as other users, so the umask must not apply.
    for part in ["", "bin", "lib", "modules", "share"].map(|name| staging.join(name)) {
        if part.exists() {
            fs::set_permissions(&part, fs::Permissions::from_mode(0o755)).map_err(copy(&part))?;
        }
    }
    fs::write(staging.join(COMPLETE), b"").map_err(copy(&staging))?;
    match fs::rename(&staging, folder) {
        Ok(()) => Ok(()),
        // Another process finished the same bundle first.
        Err(_) if folder.join(COMPLETE).exists() => fs::remove_dir_all(&staging).map_err(copy(&staging)),
        Err(cause) => Err(BundleError::Copy { path: folder.to_owned(), cause }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_runs_by_itself_and_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = Bundle::ensure(Tier::Emulated, folder.path()).unwrap();
        let output = bundle.command().arg("--version").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("QEMU emulator version"), "{output:?}");
        let again = Bundle::ensure(Tier::Emulated, folder.path()).unwrap();
        assert_eq!(bundle.digest(), again.digest());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_whole_bundles_are_opened_and_only_unwanted_ones_collected() {
        let folder = tempfile::tempdir().unwrap();
        let digest = |digit: &str| digit.repeat(DIGEST_DIGITS);
        for digit in ["a", "b", "c"] {
            fs::create_dir_all(folder.path().join(digest(digit)).join("lib")).unwrap();
        }
        for digit in ["a", "b"] {
            fs::write(folder.path().join(digest(digit)).join(COMPLETE), "").unwrap();
        }
        let opens = |name: &str| Bundle::open(folder.path(), name).is_some();
        assert!(opens(&digest("a")) && opens(&digest("b")));
        assert!(!opens(&digest("c")), "a half bundle");
        assert!(!opens("../a") && !opens("") && !opens(&format!("../{}", &digest("a")[3..])));
        assert_eq!(Bundle::collect(folder.path(), |name| name == digest("a")), [digest("b")]);
        assert!(opens(&digest("a")) && !opens(&digest("b")));
        assert!(folder.path().join(digest("c")).exists(), "somebody may be making it");
    }
}
