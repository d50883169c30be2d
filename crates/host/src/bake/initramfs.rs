//! Writes the initramfs of a guest: our agent as init, and the kernel modules for its disk and
//! network. It is not compressed, because unpacking costs an emulated CPU more than reading does.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Command,
};

/// Modules by name. Their dependencies are added.
const MODULES: [&str; 3] = ["virtio_mmio", "virtio_blk", "virtio_net"];

/// An initramfs could not be made.
#[derive(Debug, thiserror::Error)]
pub enum InitramfsError {
    #[error("read {path}")]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the kernel has no module {0}")]
    NoModule(String),
    #[error("run {program} to unpack {path}")]
    NoUnpacker {
        program: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{program} cannot unpack {path}: {problem}")]
    Unpack { program: &'static str, path: PathBuf, problem: String },
    #[error("write the initramfs")]
    Write(#[source] io::Error),
}

/// Writes an initramfs from the agent's binary and a kernel's module folder
/// (`.../lib/modules/VERSION`).
pub fn write_initramfs(agent: &Path, modules: &Path, to: &Path) -> Result<(), InitramfsError> {
    let read = |path: &Path| fs::read(path).map_err(|cause| InitramfsError::Read { path: path.to_owned(), cause });
    let mut archive = Vec::new();
    let mut cpio = Cpio { out: &mut archive, next: 1 };
    for folder in ["dev", "proc", "sys", "root", "modules"] {
        cpio.entry(folder, 0o040_755, &[]);
    }
    cpio.entry("init", 0o100_755, &read(agent)?);
    let dependencies = String::from_utf8_lossy(&read(&modules.join("modules.dep"))?).into_owned();
    let built_in = String::from_utf8_lossy(&read(&modules.join("modules.builtin"))?).into_owned();
    for (number, file) in load_order(&dependencies, &built_in)?.iter().enumerate() {
        let path = modules.join(file);
        // The agent hands each file to the kernel, which may not know the compression.
        let contents = match unpacker(file) {
            Some(program) => unpack(program, &path)?,
            None => read(&path)?,
        };
        cpio.entry(&format!("modules/{number:02}-{}.ko", module_name(file)), 0o100_644, &contents);
    }
    cpio.finish();
    fs::File::create(to).and_then(|mut file| file.write_all(&archive)).map_err(InitramfsError::Write)
}

/// Lists module files in load order: each after its dependencies. The first argument is the text of
/// `modules.dep`, with lines `file: dependency dependency`.
fn load_order(dependencies: &str, built_in: &str) -> Result<Vec<String>, InitramfsError> {
    let needs: HashMap<&str, Vec<&str>> = dependencies
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, rest)| (file, rest.split_whitespace().collect()))
        .collect();
    let mut order = Vec::new();
    let mut seen = HashSet::new();
    for module in MODULES {
        if built_in.lines().any(|line| module_name(line) == module) {
            continue;
        }
        let file = needs
            .keys()
            .find(|file| module_name(file) == module)
            .ok_or_else(|| InitramfsError::NoModule(module.to_owned()))?;
        // The line of a file lists all its dependencies, nearest first.
        for needed in needs[file].iter().rev().chain([file]) {
            if seen.insert(*needed) {
                order.push((*needed).to_owned());
            }
        }
    }
    Ok(order)
}

/// Returns the kernel's name for a module file, which is `NAME.ko`, maybe compressed.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split_once(".ko").map_or(name, |(name, _)| name).replace('-', "_")
}

/// Returns the program that unpacks a module file, if it is compressed, as in Debian 13.
fn unpacker(file: &str) -> Option<&'static str> {
    match Path::new(file).extension()?.to_str()? {
        "xz" => Some("xz"),
        "zst" => Some("zstd"),
        _ => None,
    }
}

fn unpack(program: &'static str, path: &Path) -> Result<Vec<u8>, InitramfsError> {
    let output = Command::new(program)
        .args(["-d", "-c", "-q", "--"])
        .arg(path)
        .output()
        .map_err(|cause| InitramfsError::NoUnpacker { program, path: path.to_owned(), cause })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let problem = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(InitramfsError::Unpack { program, path: path.to_owned(), problem })
}

/// A writer of the `newc` archive format, which the kernel unpacks.
struct Cpio<'a> {
    out: &'a mut Vec<u8>,
    next: u32,
}

impl Cpio<'_> {
    fn entry(&mut self, name: &str, mode: u32, contents: &[u8]) {
        let fields = [self.next, mode, 0, 0, 1, 0, contents.len() as u32, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        self.next += 1;
        self.out.extend_from_slice(b"070701");
        for field in fields {
            self.out.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(0);
        self.pad();
        self.out.extend_from_slice(contents);
        self.pad();
    }

    fn pad(&mut self) {
        self.out.resize(self.out.len().next_multiple_of(4), 0);
    }

    fn finish(&mut self) {
        self.entry("TRAILER!!!", 0, &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_what_they_need() {
        let dependencies = "k/virtio_mmio.ko: k/virtio_ring.ko k/virtio.ko\nk/virtio.ko:\nk/virtio_ring.ko: \
            k/virtio.ko\n\
             k/virtio_blk.ko: k/virtio_ring.ko k/virtio.ko\nk/virtio_net.ko: k/net_failover.ko k/failover.ko \
             k/virtio_ring.ko k/virtio.ko\n";
        let order = load_order(dependencies, "").unwrap();
        let at = |name: &str| order.iter().position(|file| file.contains(name)).unwrap();
        assert!(at("virtio.ko") < at("virtio_ring") && at("virtio_ring") < at("virtio_mmio"));
        assert!(at("failover.ko") < at("net_failover.ko") && at("net_failover.ko") < at("virtio_net"));
        assert_eq!(order.len(), 7);
        assert!(matches!(load_order("", ""), Err(InitramfsError::NoModule(_))));
        assert!(load_order("", "k/virtio_mmio.ko\nk/virtio-blk.ko\nk/virtio_net.ko").unwrap().is_empty());
    }

    #[test]
    fn compressed_modules_are_found_by_their_names() {
        for ending in ["ko", "ko.xz", "ko.zst"] {
            let dependencies = format!(
                "k/virtio_mmio.{ending}:\nk/virtio_blk.{ending}:\nk/virtio-net.{ending}: k/failover.{ending}\n\
                 k/failover.{ending}:\n"
            );
            let order = load_order(&dependencies, "").unwrap();
            assert_eq!(
                order.iter().map(|file| module_name(file)).collect::<Vec<_>>(),
                ["virtio_mmio", "virtio_blk", "failover", "virtio_net"]
            );
        }
    }

    #[test]
    fn compressed_modules_are_unpacked_into_the_archive() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("agent"), "the agent").unwrap();
        fs::write(at("modules.builtin"), "").unwrap();
        fs::write(at("modules.dep"), "virtio_mmio.ko.xz:\nvirtio_blk.ko.zst:\nvirtio_net.ko:\n").unwrap();
        for (name, program) in [("virtio_mmio", "xz"), ("virtio_blk", "zstd"), ("virtio_net", "")] {
            fs::write(at(&format!("{name}.ko")), format!("contents of {name}")).unwrap();
            if !program.is_empty() {
                let packed = Command::new(program).arg("-q").arg(at(&format!("{name}.ko"))).status().unwrap();
                assert!(packed.success());
            }
        }
        write_initramfs(&at("agent"), folder.path(), &at("initramfs")).unwrap();
        let archive = String::from_utf8(fs::read(at("initramfs")).unwrap()).unwrap();
        for (number, name) in ["virtio_mmio", "virtio_blk", "virtio_net"].iter().enumerate() {
            assert!(archive.contains(&format!("modules/{number:02}-{name}.ko\0")), "{name}");
            assert!(archive.contains(&format!("contents of {name}\0")), "{name}");
        }

        fs::write(at("virtio_mmio.ko.xz"), "no archive").unwrap();
        let error = write_initramfs(&at("agent"), folder.path(), &at("initramfs")).unwrap_err();
        assert!(
            matches!(&error, InitramfsError::Unpack { program: "xz", problem, .. } if !problem.is_empty()),
            "{error}"
        );
    }
}
