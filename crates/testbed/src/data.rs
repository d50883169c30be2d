//! A data folder for one test with the baked templates. Removed on drop.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use pandastack_layers::{DataVolume, copy_layer};
use pandastack_model::SandboxId;

use crate::{bed::template_data_dir, prepared, server::built};

/// The template of all test sandboxes.
const TEMPLATE: &str = "mini";

/// Space for the templates, which a plain file system cannot share with an image, and for some
/// sandboxes.
const IMAGE_BYTES: u64 = 16 << 30;

/// Maximum space that removed test folders may hold on the disk under them.
const SLACK_MAX: u64 = 4 << 30;

/// A folder with templates that a test may damage. Removed on drop.
pub struct DataFolder {
    path: PathBuf,
    /// The volume of the folder, if it is the one with the baked templates.
    shared: Option<DataVolume>,
}

impl DataFolder {
    /// Makes the folder on the volume of the baked templates, and shares their blocks.
    pub fn with_templates() -> Result<Self> {
        let shared = open_templates()?;
        let from = shared.root().to_owned();
        let folder = Self::named_on(shared);
        copy_template(&from, &folder.path.join("volume"), TEMPLATE)?;
        copy_kit(&from, &folder.path.join("volume"))?;
        folder.link_bundles()?;
        Ok(folder)
    }

    /// As `with_templates`, with the template of databases and the sealed machine that they start
    /// from. A server has used the folder: it has created and deleted one database.
    pub fn with_databases() -> Result<Self> {
        bake(prepared::TEMPLATE)?;
        let folder = Self::named_on(open_templates()?);
        let shared = folder.shared.as_ref().context("the folder is on the volume of the baked templates")?;
        prepared::copy_with_databases(shared, &folder.path)?;
        Ok(folder)
    }

    /// A folder that does not exist yet.
    fn named_on(shared: DataVolume) -> Self {
        let path = shared.root().join("tests").join(SandboxId::random().to_string());
        Self { path, shared: Some(shared) }
    }

    /// Bakes another built-in template, unless it is baked already, and shares it too.
    pub fn add_template(&self, name: &str) -> Result<()> {
        bake(name)?;
        if let Some(shared) = &self.shared {
            return copy_template(shared.root(), &self.path.join("volume"), name);
        }
        let shared = open_templates()?;
        let copied = copy_template(shared.root(), &self.path.join("volume"), name);
        shared.close();
        copied
    }

    /// Makes the folder on the test's own file system, which supports reflinks.
    pub fn on(file_system: &Path) -> Result<Self> {
        let folder = Self { path: file_system.join("data"), shared: None };
        let shared = open_templates()?;
        let copied = copy_template(shared.root(), &folder.path.join("volume"), TEMPLATE);
        shared.close();
        copied?;
        folder.link_bundles()?;
        Ok(folder)
    }

    /// Makes the folder in the temporary folder with its own volume: an image, unless the temporary
    /// folder supports reflinks.
    pub fn with_own_volume() -> Result<Self> {
        Self::with_image(std::env::temp_dir().join(format!("pandastack-{}", SandboxId::random())))
    }

    /// Makes the folder on the caller's file system without reflinks, with its own volume in an
    /// image.
    pub fn with_image_on(file_system: &Path) -> Result<Self> {
        Self::with_image(file_system.join("data"))
    }

    fn with_image(path: PathBuf) -> Result<Self> {
        let folder = Self { path, shared: None };
        let own = DataVolume::open(&folder.path, IMAGE_BYTES)?;
        let shared = open_templates()?;
        let copied = copy_template(shared.root(), own.root(), TEMPLATE);
        shared.close();
        own.close();
        copied?;
        folder.link_bundles()?;
        Ok(folder)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Links the bundles of the templates: making one copies a hundred megabytes.
    fn link_bundles(&self) -> Result<()> {
        let bundles = template_data_dir().join("runtime");
        std::fs::create_dir_all(&bundles)?;
        std::os::unix::fs::symlink(&bundles, self.path.join("runtime")).context("link the runtime bundles")
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        // A killed server leaves its volume mounted.
        if self.path.join("volume.xfs").exists()
            && let Ok(own) = DataVolume::open(&self.path, 0)
        {
            own.close();
        }
        let _ = std::fs::remove_dir_all(&self.path);
        if let Some(shared) = &self.shared {
            give_back(shared);
            shared.close();
        }
    }
}

/// Copies the template with its boot files and runtime bundles into a data folder whose volume a
/// server has mounted.
pub fn copy_templates(data_dir: &Path) -> Result<()> {
    let shared = open_templates()?;
    let volume = data_dir.join("volume");
    let copied = copy_template(shared.root(), &volume, TEMPLATE).and_then(|()| copy_kit(shared.root(), &volume));
    shared.close();
    copied?;
    let bundles = template_data_dir().join("runtime");
    let status = Command::new("cp").arg("-a").arg(bundles.join(".")).arg(data_dir.join("runtime")).status()?;
    ensure!(status.success(), "the runtime bundles were not copied");
    Ok(())
}

fn open_templates() -> Result<DataVolume> {
    DataVolume::open(&template_data_dir(), 0).context("open the templates; `make test-build` bakes them")
}

/// Bakes a built-in template for all tests, unless it is baked already.
fn bake(name: &str) -> Result<()> {
    let mut bake = Command::new(built("pandastack"));
    bake.args(["template", "bake", name, "--data-dir"]).arg(template_data_dir());
    ensure!(bake.status()?.success(), "{name} was not baked");
    Ok(())
}

/// Trims the volume that tests share. No host does this: each has only a folder there, not its own
/// image.
fn give_back(shared: &DataVolume) {
    if shared.slack().is_some_and(|slack| slack.held > SLACK_MAX) {
        let _ = shared.trim(0, || false);
    }
}

/// Copies the boot files.
fn copy_kit(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to.join("boot"))?;
    for file in std::fs::read_dir(from.join("boot")).into_iter().flatten() {
        let file = file?;
        std::fs::copy(file.path(), to.join("boot").join(file.file_name()))?;
    }
    Ok(())
}

/// Shares or copies one template with its layer. Other templates are not copied: tests count
/// layers and standby machines.
fn copy_template(from: &Path, to: &Path, template: &str) -> Result<()> {
    let name = Path::new("templates").join(template);
    let layer = std::fs::read_to_string(from.join(&name)).context("find the template; `make test-build` bakes it")?;
    let place = |store: &Path| store.join("layers").join(layer.trim());
    copy_layer(&place(from), &place(to))?;
    std::fs::create_dir_all(to.join("templates"))?;
    std::fs::copy(from.join(&name), to.join(&name))?;
    Ok(())
}
