//! Seals, opens and names layers; gives machines their own disks. Never starts anything.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use pandastack_model::{LayerId, TemplateName};
use pandastack_sys::reflink::{Copied, clone_or_copy};
use pandastack_vmm::LayerFiles;

use crate::{
    digest::{DigestError, file_digest},
    manifest::{Digests, Manifest, ManifestError},
};

/// A store in one folder. Clones share what was already verified.
#[derive(Clone, Debug)]
pub struct LayerStore {
    root: PathBuf,
    verified: Arc<Mutex<HashSet<LayerId>>>,
}

/// A sealed layer that was found whole.
#[derive(Clone, Debug)]
pub struct Layer {
    pub manifest: Manifest,
    pub files: LayerFiles,
}

/// A template's name and its layer.
#[derive(Clone, Debug)]
pub struct Template {
    pub name: TemplateName,
    pub layer: Layer,
}

/// A layer being made. Dropped without `seal`, it is thrown away.
#[derive(Debug)]
pub struct Draft {
    id: LayerId,
    folder: PathBuf,
    layers: PathBuf,
    sealed: bool,
}

/// A layer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("no template {0}")]
    NoTemplate(TemplateName),
    #[error("layer {layer} is not here")]
    Missing { layer: LayerId },
    #[error("layer {layer}")]
    Manifest {
        layer: LayerId,
        #[source]
        cause: ManifestError,
    },
    #[error("layer {layer}")]
    Unreadable {
        layer: LayerId,
        #[source]
        cause: DigestError,
    },
    #[error("layer {layer} is damaged: {file} does not match its digest; bake the template again")]
    Damaged { layer: LayerId, file: &'static str },
    #[error("{action}")]
    Io {
        action: String,
        #[source]
        cause: io::Error,
    },
}

/// A layer could not be sealed; nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    Digest(#[from] DigestError),
    #[error("{action}")]
    Io {
        action: String,
        #[source]
        cause: io::Error,
    },
}

impl LayerStore {
    /// Opens a store. Several processes may have it open, so nothing is cleaned here.
    pub fn open(root: &Path) -> Result<Self, OpenError> {
        for folder in ["layers", "templates", "staging", "disks"] {
            fs::create_dir_all(root.join(folder)).map_err(opening("make the store's folders"))?;
        }
        use std::os::unix::fs::PermissionsExt;
        // Manifests hold link secrets.
        fs::set_permissions(root.join("layers"), fs::Permissions::from_mode(0o700))
            .map_err(opening("protect the layers"))?;
        Ok(Self { root: root.to_owned(), verified: Arc::default() })
    }

    /// Throws half-made layers away. Only for the process that holds the data folder.
    pub fn clear_drafts(&self) {
        for entry in fs::read_dir(self.root.join("staging")).into_iter().flatten().flatten() {
            let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
        }
    }

    /// Starts a new layer in a folder of its own.
    pub fn draft(&self) -> Result<Draft, SealError> {
        let id = LayerId::random();
        let folder = self.root.join("staging").join(id.to_string());
        fs::create_dir_all(&folder).map_err(sealing("make the draft's folder"))?;
        Ok(Draft { id, folder, layers: self.root.join("layers"), sealed: false })
    }

    /// Opens a layer. Every file is checked against its digest, unless it was before and has not been touched since.
    pub fn open_layer(&self, layer: LayerId) -> Result<Layer, OpenError> {
        let folder = self.root.join("layers").join(layer.to_string());
        if !folder.is_dir() {
            return Err(OpenError::Missing { layer });
        }
        let manifest = Manifest::read(&folder).map_err(|cause| OpenError::Manifest { layer, cause })?;
        let files = LayerFiles::in_folder(&folder);
        if !self.verified.lock().expect("no holder panics").contains(&layer) {
            verify_or_trust(layer, &folder, &files, &manifest.digests)?;
            self.verified.lock().expect("no holder panics").insert(layer);
        }
        Ok(Layer { manifest, files })
    }

    /// Reads a layer's manifest without touching its contents.
    pub fn manifest(&self, layer: LayerId) -> Result<Manifest, OpenError> {
        let folder = self.root.join("layers").join(layer.to_string());
        Manifest::read(&folder).map_err(|cause| OpenError::Manifest { layer, cause })
    }

    /// Finds the layer a template name stands for.
    pub fn template(&self, name: &TemplateName) -> Result<LayerId, OpenError> {
        let text = match fs::read_to_string(self.root.join("templates").join(name.as_str())) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(OpenError::NoTemplate(name.clone())),
            Err(cause) => return Err(OpenError::Io { action: format!("read template {name}"), cause }),
        };
        text.trim().parse().map_err(|cause| OpenError::Io {
            action: format!("read template {name}"),
            cause: io::Error::new(io::ErrorKind::InvalidData, cause),
        })
    }

    /// Makes a name stand for a layer, replacing what it stood for.
    pub fn name_template(&self, name: &TemplateName, layer: LayerId) -> Result<(), SealError> {
        let fresh = self.root.join("staging").join(format!("name-{name}"));
        fs::write(&fresh, format!("{layer}\n")).map_err(sealing("write the template's name"))?;
        fs::rename(&fresh, self.root.join("templates").join(name.as_str())).map_err(sealing("name the template"))
    }

    /// Lists every template, by name. Unreadable entries are left out and logged.
    pub fn templates(&self) -> Vec<(TemplateName, LayerId)> {
        let entries = fs::read_dir(self.root.join("templates")).into_iter().flatten().flatten();
        let mut templates: Vec<_> = entries
            .filter_map(|entry| {
                let name: TemplateName = entry.file_name().to_str()?.parse().ok()?;
                match self.template(&name) {
                    Ok(layer) => Some((name, layer)),
                    Err(error) => {
                        tracing::warn!(%error, "template left out");
                        None
                    }
                }
            })
            .collect();
        templates.sort();
        templates
    }

    /// Finds a layer that was made from exactly these inputs.
    pub fn made_from(&self, inputs: &str) -> Option<LayerId> {
        let entries = fs::read_dir(self.root.join("layers")).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .find(|layer| self.manifest(*layer).is_ok_and(|manifest| manifest.inputs.as_deref() == Some(inputs)))
    }

    /// Removes layers that no template names. Machines that run on one keep its open files until they end.
    pub fn collect(&self, in_use: &HashSet<LayerId>) -> Vec<LayerId> {
        let named: HashSet<LayerId> = self.templates().into_iter().map(|(_, layer)| layer).collect();
        let entries = fs::read_dir(self.root.join("layers")).into_iter().flatten().flatten();
        let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<LayerId>().ok());
        let gone: Vec<LayerId> = all.filter(|layer| !named.contains(layer) && !in_use.contains(layer)).collect();
        for layer in &gone {
            let _ = fs::remove_dir_all(self.root.join("layers").join(layer.to_string()));
        }
        gone
    }

    /// Gives a machine its own writable copy of a layer's disk.
    pub fn overlay(&self, layer: &Layer, name: &str) -> io::Result<PathBuf> {
        let disk = self.disk(name);
        let copied = clone_or_copy(&layer.files.disk, &disk)?;
        if copied == Copied::Whole {
            tracing::debug!(name, "disk copied whole: the data volume cannot share blocks");
        }
        Ok(disk)
    }

    /// Where the disk of that name lies.
    pub fn disk(&self, name: &str) -> PathBuf {
        self.root.join("disks").join(name)
    }

    /// Removes a machine's disk. A missing one is fine.
    pub fn discard(&self, name: &str) {
        if let Err(error) = fs::remove_file(self.disk(name))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, name, "disk not removed");
        }
    }

    /// Lists the disks that machines have.
    pub fn disks(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.join("disks")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

impl Draft {
    pub fn id(&self) -> LayerId {
        self.id
    }

    /// Where the layer's files are to be written.
    pub fn files(&self) -> LayerFiles {
        LayerFiles::in_folder(&self.folder)
    }

    /// The draft's folder, for what is needed only while making it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Computes digests, makes everything durable, and moves the layer into the store.
    pub fn seal(mut self, mut manifest: Manifest) -> Result<LayerId, SealError> {
        let files = self.files();
        manifest.layer = self.id;
        manifest.digests =
            Digests { mem: file_digest(&files.mem)?, disk: file_digest(&files.disk)?, dev: file_digest(&files.dev)? };
        let text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
        fs::write(self.folder.join("manifest.json"), text).map_err(sealing("write the manifest"))?;
        for name in ["mem", "disk", "dev", "manifest.json"] {
            let file = fs::File::open(self.folder.join(name)).map_err(sealing("open a layer file"))?;
            file.sync_all().map_err(sealing("make a layer file durable"))?;
        }
        fs::rename(&self.folder, self.layers.join(self.id.to_string()))
            .map_err(sealing("move the layer into the store"))?;
        self.sealed = true;
        let folder = self.layers.join(self.id.to_string());
        mark_verified(&folder, &LayerFiles::in_folder(&folder));
        let _ = fs::File::open(&self.layers).and_then(|folder| folder.sync_all());
        Ok(self.id)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.sealed {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Hashing a layer takes seconds on a slow host, so a layer that was found whole is marked with the identity of its files.
/// Whatever writes a file changes its times, and the layer is read again. Damage below the file system, such as a disk that
/// forgets, changes no times and is not noticed by this.
const VERIFIED: &str = "verified";

fn verify_or_trust(layer: LayerId, folder: &Path, files: &LayerFiles, digests: &Digests) -> Result<(), OpenError> {
    let marked = fs::read_to_string(folder.join(VERIFIED)).ok();
    if marked.is_some() && marked == fingerprint(files) {
        return Ok(());
    }
    verify(layer, files, digests)?;
    mark_verified(folder, files);
    Ok(())
}

fn mark_verified(folder: &Path, files: &LayerFiles) {
    if let Some(text) = fingerprint(files) {
        // Without the mark the next process only reads once more.
        let _ = fs::write(folder.join(VERIFIED), text);
    }
}

fn fingerprint(files: &LayerFiles) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let mut text = String::new();
    for path in [&files.mem, &files.disk, &files.dev] {
        let meta = fs::metadata(path).ok()?;
        let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
        text.push_str(&format!("{} {} {} {times:?}\n", meta.dev(), meta.ino(), meta.len()));
    }
    Some(text)
}

fn verify(layer: LayerId, files: &LayerFiles, digests: &Digests) -> Result<(), OpenError> {
    let Digests { mem, disk, dev } = digests;
    for (file, path, wanted) in [("dev", &files.dev, dev), ("mem", &files.mem, mem), ("disk", &files.disk, disk)] {
        let found = file_digest(path).map_err(|cause| OpenError::Unreadable { layer, cause })?;
        if found != *wanted {
            return Err(OpenError::Damaged { layer, file });
        }
    }
    Ok(())
}

fn opening(action: &str) -> impl FnOnce(io::Error) -> OpenError + '_ {
    move |cause| OpenError::Io { action: action.to_owned(), cause }
}

fn sealing(action: &str) -> impl FnOnce(io::Error) -> SealError + '_ {
    move |cause| SealError::Io { action: action.to_owned(), cause }
}

#[cfg(test)]
mod tests;
