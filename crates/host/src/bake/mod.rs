//! Bakes a template: recipe -> root file system -> first boot -> sealed layer. The only part of
//! this room that boots a machine.

mod initramfs;
mod limits;
mod recipe;
mod root;
mod rootfs;
mod template;

pub(crate) use root::boot as boot_root;

pub use recipe::{KernelSpec, Recipe, RecipeAsset, RecipeError, RecipeVariant, builtin, builtin_names};
pub use rootfs::{RootFs, RootFsError, RootFsInputs, ensure_rootfs};
pub use template::{BakeError, BakeSetup, BakedTemplate, bake};

/// Receives the progress of a bake. The command line displays it, and tests ignore it.
pub trait BakeProgress: Send + Sync {
    /// Called when a step begins.
    fn step(&self, name: &str);
    /// Called for each line that a step prints.
    fn line(&self, text: &str);
}

/// Ignores all progress.
pub struct NoProgress;

impl BakeProgress for NoProgress {
    fn step(&self, _name: &str) {}
    fn line(&self, _text: &str) {}
}
