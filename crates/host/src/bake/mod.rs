//! Bakes a template: recipe -> root file system -> first boot -> sealed layer. The only place that
//! boots a machine.

mod initramfs;
mod limits;
mod recipe;
mod root;
mod rootfs;
mod template;

pub(crate) use root::boot as boot_root;

pub use recipe::{Recipe, RecipeError, builtin, builtin_names};
pub use rootfs::{RootFs, RootFsAsk, RootFsError, ensure_rootfs};
pub use template::{BakeError, BakeParts, Baked, bake};

/// Hears how far a bake is. The command line draws it; tests ignore it.
pub trait Progress: Send + Sync {
    /// A new step begins.
    fn step(&self, name: &str);
    /// The step says something.
    fn line(&self, text: &str);
}

/// Hears nothing.
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _name: &str) {}
    fn line(&self, _text: &str) {}
}
