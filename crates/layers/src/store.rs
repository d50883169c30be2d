//! Seals, opens and names layers, and gives machines their own disks. Never starts anything.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::SystemTime,
};

use pandastack_model::{ByteSize, LayerId, TemplateName};
use pandastack_sys::{
    private,
    reflink::{CopyMethod, clone_or_copy, clone_or_copy_into},
};
use pandastack_vmm::LayerFiles;

use crate::{
    digest::{DigestError, file_digest},
    manifest::{LayerDigests, Manifest, ManifestError},
};

/// A store in one folder. Clones share the list of verified layers.
#[derive(Clone, Debug)]
pub struct LayerStore {
    root: PathBuf,
    verified: Arc<Mutex<HashSet<LayerId>>>,
}

/// A sealed layer that was found complete.
#[derive(Clone, Debug)]
pub struct Layer {
    pub manifest: Manifest,
    pub files: LayerFiles,
}

/// A template: a name and its layer.
#[derive(Clone, Debug)]
pub struct TemplateLayer {
    pub name: TemplateName,
    pub layer: Layer,
}

/// A layer being made. It is deleted if dropped without `seal`.
#[derive(Debug)]
pub struct LayerDraft {
    id: LayerId,
    folder: PathBuf,
    layers: PathBuf,
    sealed: bool,
}

/// Kernel and initramfs to boot a root file system. The files exist once a template was baked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootKit {
    pub kernel: PathBuf,
    pub initramfs: PathBuf,
}

/// A layer cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LayerOpenError {
    #[error("template {0} not found")]
    NoTemplate(TemplateName),
    #[error("layer {layer} does not exist")]
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

/// A layer could not be sealed. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum LayerSealError {
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
    /// Opens a store. Several processes may have it open, so this removes nothing.
    pub fn open(root: &Path) -> Result<Self, LayerOpenError> {
        for folder in ["layers", "templates", "staging", "disks"] {
            // Manifests hold link secrets, and memory and disks hold user data.
            private::make_folder(&root.join(folder)).map_err(opening("create the store's folders"))?;
        }
        Ok(Self { root: root.to_owned(), verified: Arc::default() })
    }

    /// Deletes unfinished layers. Only for the process that owns the data folder.
    pub fn clear_drafts(&self) {
        for entry in fs::read_dir(self.root.join("staging")).into_iter().flatten().flatten() {
            let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
        }
    }

    /// Lists the drafts that are older than a moment.
    pub fn drafts_before(&self, moment: SystemTime) -> Vec<String> {
        let entries = fs::read_dir(self.root.join("staging")).into_iter().flatten().flatten();
        let old = entries.filter(|entry| {
            let changed = entry.metadata().and_then(|about| about.modified());
            changed.is_ok_and(|changed| changed < moment)
        });
        old.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Deletes one draft. Returns `false` if it is still there.
    pub fn discard_draft(&self, name: &str) -> bool {
        let path = self.root.join("staging").join(name);
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        !path.exists()
    }

    /// Starts a new layer in its own folder.
    pub fn draft(&self) -> Result<LayerDraft, LayerSealError> {
        self.draft_of(LayerId::random())
    }

    /// Starts a new layer with the caller's id.
    pub fn draft_of(&self, id: LayerId) -> Result<LayerDraft, LayerSealError> {
        let folder = self.root.join("staging").join(id.to_string());
        fs::create_dir_all(&folder).map_err(sealing("create the draft's folder"))?;
        Ok(LayerDraft { id, folder, layers: self.root.join("layers"), sealed: false })
    }

    /// Opens a layer. Checks every file against its digest, unless it was checked before and has
    /// not changed since.
    pub fn open_layer(&self, layer: LayerId) -> Result<Layer, LayerOpenError> {
        let folder = self.root.join("layers").join(layer.to_string());
        if !folder.is_dir() {
            return Err(LayerOpenError::Missing { layer });
        }
        let manifest = Manifest::read(&folder).map_err(|cause| LayerOpenError::Manifest { layer, cause })?;
        let files = LayerFiles::in_folder(&folder);
        if let Some(digests) = &manifest.digests
            && !self.verified.lock().expect("no holder panics").contains(&layer)
        {
            verify_or_trust(layer, &folder, &files, digests)?;
            self.verified.lock().expect("no holder panics").insert(layer);
        }
        Ok(Layer { manifest, files })
    }

    /// Tells whether the store has a layer.
    pub fn contains(&self, layer: LayerId) -> bool {
        self.root.join("layers").join(layer.to_string()).is_dir()
    }

    /// Paths of a layer's files.
    pub fn files(&self, layer: LayerId) -> LayerFiles {
        LayerFiles::in_folder(&self.root.join("layers").join(layer.to_string()))
    }

    /// Removes the images of volumes from a layer. Its machines have clones, and the images would
    /// keep blocks that nobody else needs any more.
    pub fn discard_volume_images(&self, layer: LayerId) -> io::Result<()> {
        let folder = self.root.join("layers").join(layer.to_string());
        volume_images(&folder)?.iter().try_for_each(|name| fs::remove_file(folder.join(name)))
    }

    /// Reads a layer's manifest without its contents.
    pub fn manifest(&self, layer: LayerId) -> Result<Manifest, LayerOpenError> {
        let folder = self.root.join("layers").join(layer.to_string());
        Manifest::read(&folder).map_err(|cause| LayerOpenError::Manifest { layer, cause })
    }

    /// Finds the layer of a template.
    pub fn template(&self, name: &TemplateName) -> Result<LayerId, LayerOpenError> {
        let text = match fs::read_to_string(self.root.join("templates").join(name.as_str())) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LayerOpenError::NoTemplate(name.clone()));
            }
            Err(cause) => return Err(LayerOpenError::Io { action: format!("read template {name}"), cause }),
        };
        text.trim().parse().map_err(|cause| LayerOpenError::Io {
            action: format!("read template {name}"),
            cause: io::Error::new(io::ErrorKind::InvalidData, cause),
        })
    }

    /// Names a layer as a template, and replaces an earlier layer of that name.
    pub fn name_template(&self, name: &TemplateName, layer: LayerId) -> Result<(), LayerSealError> {
        // Two processes may bake the same template.
        let fresh = self.root.join("staging").join(format!("name-{}", LayerId::random()));
        fs::write(&fresh, format!("{layer}\n")).map_err(sealing("write the template's entry"))?;
        fs::rename(&fresh, self.root.join("templates").join(name.as_str()))
            .map_err(sealing("rename the template's entry"))
    }

    /// Lists every template by name. Unreadable entries are skipped and logged.
    pub fn templates(&self) -> Vec<(TemplateName, LayerId)> {
        let entries = fs::read_dir(self.root.join("templates")).into_iter().flatten().flatten();
        let mut templates: Vec<_> = entries
            .filter_map(|entry| {
                let name: TemplateName = entry.file_name().to_str()?.parse().ok()?;
                match self.template(&name) {
                    Ok(layer) => Some((name, layer)),
                    Err(error) => {
                        tracing::warn!(%error, "skipping an unreadable template");
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
        self.layers()
            .into_iter()
            .find(|layer| self.manifest(*layer).is_ok_and(|manifest| manifest.inputs.as_deref() == Some(inputs)))
    }

    /// Lists every layer here, templates included.
    pub fn layers(&self) -> Vec<LayerId> {
        let entries = fs::read_dir(self.root.join("layers")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Removes one layer. Succeeds if it is missing. Machines that run on it keep its open files
    /// until they end.
    pub fn remove(&self, layer: LayerId) -> io::Result<()> {
        let folder = self.root.join("layers").join(layer.to_string());
        // Renamed first: a crash during the removal must not leave a partial layer under its name.
        let doomed = self.root.join("staging").join(format!("gone-{layer}"));
        match fs::rename(&folder, &doomed) {
            Ok(()) => fs::remove_dir_all(&doomed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes layers that are in no template and not in use. Machines that run on one keep its
    /// open files until they end.
    pub fn collect(&self, in_use: &HashSet<LayerId>) -> Vec<LayerId> {
        let named: HashSet<LayerId> = self.templates().into_iter().map(|(_, layer)| layer).collect();
        let mut gone = self.layers();
        gone.retain(|layer| !named.contains(layer) && !in_use.contains(layer));
        gone.retain(|layer| self.remove(*layer).is_ok());
        gone
    }

    /// Makes an empty disk of a layer's size. [`LayerStore::overlay`] fills it when the layer is
    /// known.
    pub fn reserve(&self, name: &str, size: ByteSize) -> io::Result<()> {
        fs::File::create_new(self.disk(name))?.set_len(size.get())
    }

    /// Makes a machine's writable copy of a layer's disk. A reserved disk stays the same file.
    pub fn overlay(&self, layer: &Layer, name: &str) -> io::Result<PathBuf> {
        let disk = self.disk(name);
        let copied = match clone_or_copy_into(&layer.files.disk, &disk) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => clone_or_copy(&layer.files.disk, &disk)?,
            copied => copied?,
        };
        if copied == CopyMethod::Whole {
            tracing::debug!(name, "copied the whole disk: the data volume does not support reflinks");
        }
        Ok(disk)
    }

    /// Keeps an unused root disk for templates that share it, and returns its path. It takes the
    /// place of the family's earlier ones. The layers made from it share its blocks, so it costs
    /// next to nothing.
    pub fn keep_root(&self, family: &TemplateName, digest: &str, disk: &Path) -> io::Result<PathBuf> {
        let folder = self.root.join("roots").join(family.as_str());
        let kept = folder.join(digest);
        if !kept.exists() {
            private::make_folder(&self.root.join("roots"))?;
            private::make_folder(&folder)?;
            let fresh = self.root.join("staging").join(format!("root-{}", LayerId::random()));
            let copied = clone_or_copy(disk, &fresh).and_then(|_| fs::File::open(&fresh)?.sync_all());
            if let Err(error) = copied.and_then(|()| fs::rename(&fresh, &kept)) {
                let _ = fs::remove_file(&fresh);
                return Err(error);
            }
        }
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path() != kept {
                // What stays only takes space.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(kept)
    }

    /// Paths of the kernel and initramfs.
    pub fn boot_kit(&self) -> BootKit {
        let folder = self.root.join("boot");
        BootKit { kernel: folder.join("vmlinuz"), initramfs: folder.join("initramfs") }
    }

    /// Path of the disk with this name.
    pub fn disk(&self, name: &str) -> PathBuf {
        self.root.join("disks").join(name)
    }

    /// Removes a machine's disk. Succeeds if it is missing.
    pub fn discard(&self, name: &str) {
        if let Err(error) = fs::remove_file(self.disk(name))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, name, "could not remove a disk");
        }
    }

    /// Lists the machines' disks.
    pub fn disks(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.join("disks")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

impl LayerDraft {
    pub fn id(&self) -> LayerId {
        self.id
    }

    /// Paths for the layer's files.
    pub fn files(&self) -> LayerFiles {
        LayerFiles::in_folder(&self.folder)
    }

    /// The draft's folder, also for temporary files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Computes digests, flushes everything to disk, and moves the layer into the store.
    pub fn seal(self, mut manifest: Manifest) -> Result<LayerId, LayerSealError> {
        let files = self.files();
        let (mem, disk, dev) = (file_digest(&files.mem)?, file_digest(&files.disk)?, file_digest(&files.dev)?);
        manifest.digests = Some(LayerDigests { mem, disk, dev });
        let layer = self.seal_unread(manifest, Durability::Now)?;
        mark_verified(&layer.files);
        Ok(layer.manifest.layer)
    }

    /// Moves the layer into the store without digests, for layers sealed from a running machine.
    pub fn seal_unread(mut self, mut manifest: Manifest, durability: Durability) -> Result<Layer, LayerSealError> {
        manifest.layer = self.id;
        let text = serde_json::to_vec_pretty(&manifest).expect("a manifest is plain data");
        fs::write(self.folder.join("manifest.json"), text).map_err(sealing("write the manifest"))?;
        if durability == Durability::Now {
            flush(&self.folder).map_err(sealing("flush a layer to disk"))?;
        }
        let folder = self.layers.join(self.id.to_string());
        fs::rename(&self.folder, &folder).map_err(sealing("move the layer into the store"))?;
        self.sealed = true;
        if durability == Durability::Now {
            let synced = fs::File::open(&self.layers).and_then(|layers| layers.sync_all());
            synced.map_err(sealing("flush the store to disk"))?;
        }
        Ok(Layer { manifest, files: LayerFiles::in_folder(&folder) })
    }
}

/// When a layer must have reached the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the seal returns.
    Now,
    /// Later. A power failure may lose it, together with the machines that need it.
    Later,
}

impl Layer {
    /// Writes the layer's files to disk. After a seal with `Durability::Later` this makes the next
    /// clone fast: a clone first flushes its source's dirty pages.
    pub fn flush(&self) -> io::Result<()> {
        flush(self.files.mem.parent().unwrap_or(Path::new("/")))
    }
}

/// Flushes the large files in parallel, so that the disk handles them together.
fn flush(folder: &Path) -> io::Result<()> {
    let sync = |name: &str| fs::File::open(folder.join(name))?.sync_all();
    std::thread::scope(|scope| {
        let mem = scope.spawn(|| sync("mem"));
        let rest = ["disk", "dev", "manifest.json"].into_iter().try_for_each(sync);
        let rest = rest.and_then(|()| volume_images(folder)?.iter().try_for_each(|name| sync(name)));
        let mem = mem.join().unwrap_or_else(|_| Err(io::Error::other("the flush panicked")));
        rest.and(mem)
    })?;
    fs::File::open(folder)?.sync_all()
}

/// Names of the volume images in a layer's folder.
fn volume_images(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    let names: io::Result<Vec<String>> = names.collect();
    Ok(names?.into_iter().filter(|name| name.starts_with("volume-")).collect())
}

/// Copies a layer's folder, sharing blocks if the file system supports it. The copy of a verified
/// layer counts as verified.
pub fn copy_layer(from: &Path, to: &Path) -> io::Result<()> {
    let whole = is_marked(from, &LayerFiles::in_folder(from));
    fs::create_dir_all(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        clone_or_copy(&file.path(), &to.join(file.file_name()))?;
    }
    if whole {
        mark_verified(&LayerFiles::in_folder(to));
    }
    Ok(())
}

impl Drop for LayerDraft {
    fn drop(&mut self) {
        if !self.sealed {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Hashing a layer takes seconds on a slow host, so a verified layer is marked with the identity of
/// its files. A write to a file changes its times, and the layer is verified again. Damage below
/// the file system changes no times and stays undetected.
const VERIFIED: &str = "verified";

fn verify_or_trust(
    layer: LayerId,
    folder: &Path,
    files: &LayerFiles,
    digests: &LayerDigests,
) -> Result<(), LayerOpenError> {
    if is_marked(folder, files) {
        return Ok(());
    }
    verify(layer, files, digests)?;
    mark_verified(files);
    Ok(())
}

fn is_marked(folder: &Path, files: &LayerFiles) -> bool {
    let marked = fs::read_to_string(folder.join(VERIFIED)).ok();
    marked.is_some() && marked == fingerprint(files)
}

fn mark_verified(files: &LayerFiles) {
    if let (Some(text), Some(folder)) = (fingerprint(files), files.mem.parent()) {
        // Optional: without the mark the next process verifies the layer again.
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

fn verify(layer: LayerId, files: &LayerFiles, digests: &LayerDigests) -> Result<(), LayerOpenError> {
    let LayerDigests { mem, disk, dev } = digests;
    for (file, path, wanted) in [("dev", &files.dev, dev), ("mem", &files.mem, mem), ("disk", &files.disk, disk)] {
        let found = file_digest(path).map_err(|cause| LayerOpenError::Unreadable { layer, cause })?;
        if found != *wanted {
            return Err(LayerOpenError::Damaged { layer, file });
        }
    }
    Ok(())
}

fn opening(action: &str) -> impl FnOnce(io::Error) -> LayerOpenError + '_ {
    move |cause| LayerOpenError::Io { action: action.to_owned(), cause }
}

fn sealing(action: &str) -> impl FnOnce(io::Error) -> LayerSealError + '_ {
    move |cause| LayerSealError::Io { action: action.to_owned(), cause }
}

#[cfg(test)]
mod tests;
