//! The folder of one run: made at its start, removed at its end. The next start removes the folders
//! of killed runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

const PREFIX: &str = "run-";

/// Owns the folder of this run.
pub struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    /// Makes the folder of this process and removes those of dead processes.
    pub fn make(cache: &Path) -> Result<Self> {
        sweep(cache).context("sweep old runs")?;
        let folder = cache.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(Self { folder })
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("kvm-host: remove {}: {error}", self.folder.display());
        }
    }
}

fn sweep(cache: &Path) -> Result<()> {
    fs::create_dir_all(cache)?;
    for entry in fs::read_dir(cache)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        if !Path::new("/proc").join(process).exists() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
