//! The runtime bundle: a copy of QEMU with its libraries and firmware, kept under the digest of its contents.
//! A saved state is only safe with the QEMU that wrote it, so layers name the bundle they need and a jail has to contain
//! nothing else. Today a driver runs the host's newest bundle only: after an upgrade of QEMU, older layers are refused and
//! their templates baked again. Running an old bundle for an old layer comes with hibernation.
//!
//! ```text
//! <bundles>/<digest>/bin/qemu   lib/*.so*   lib/ld.so   modules/*.so   share/*.bin
//! ```

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use pandastack_model::Tier;

const PROGRAM: &str = "qemu-system-x86_64";

/// Firmware that a microvm with a direct kernel boot reads.
const FIRMWARE: [&str; 5] = ["bios-microvm.bin", "qboot.rom", "linuxboot_dma.bin", "pvh.bin", "kvmvapic.bin"];
const FIRMWARE_FOLDERS: [&str; 3] = ["/usr/share/qemu", "/usr/share/seabios", "/usr/share/qemu-efi"];
const MODULE_FOLDER: &str = "/usr/lib/x86_64-linux-gnu/qemu";

/// No bundle could be made.
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
        if !folder.join("complete").exists() {
            fill(&folder, &parts)?;
        }
        Ok(Self { folder, digest })
    }

    /// Digest of everything in the bundle.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// A command that runs this QEMU with these libraries and this firmware, whatever the host has installed by now.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.folder.join("lib/ld.so"));
        command.arg("--library-path").arg(self.folder.join("lib")).arg(self.folder.join("bin/qemu"));
        command.arg("-L").arg(self.folder.join("share"));
        command.env_clear().env("QEMU_MODULE_DIR", self.folder.join("modules"));
        command
    }
}

/// The host's QEMU. Not the smaller `-microvm` build that Debian has beside it: that one starts faster, but lacks the
/// system call filter.
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
    // `name => /path (address)` or `/path (address)`; the kernel's own page has no path.
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
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}

/// Fills a folder beside the final one and renames it, so that a crash leaves no half bundle under the digest.
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
    fs::write(staging.join("complete"), b"").map_err(copy(&staging))?;
    match fs::rename(&staging, folder) {
        Ok(()) => Ok(()),
        // Somebody else finished the same bundle first.
        Err(_) if folder.join("complete").exists() => fs::remove_dir_all(&staging).map_err(copy(&staging)),
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
}
