//! What an image and its registry may ask for. The reference page is docs/limits.md.

use std::time::Duration;

/// Images: their name, layers, documents (manifest, configuration, token), what all layers take
/// packed and unpacked.
pub const IMAGE_REFERENCE_BYTES_MAX: usize = 512;
pub const IMAGE_LAYERS_MAX: usize = 128;
pub const IMAGE_DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const IMAGE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
pub const IMAGE_UNPACKED_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;
/// Files and folders of all layers, the bytes of their names, levels of folders, links one path may
/// lead through.
pub const IMAGE_ENTRIES_MAX: usize = 500_000;
pub const IMAGE_NAME_BYTES_MAX: usize = 64 * 1024 * 1024;
pub const IMAGE_LEVELS_MAX: usize = 256;
pub const IMAGE_LINKS_MAX: usize = 40;
/// The whole path of a file, as Linux has it.
pub const IMAGE_PATH_BYTES_MAX: usize = 4095;
/// Files that all sources of one `COPY --from` may name together.
pub const IMAGE_PICKED_MAX: usize = 2 * IMAGE_ENTRIES_MAX;
/// A long name or extended header in a layer.
pub const IMAGE_EXTENSION_BYTES_MAX: u64 = 64 * 1024;
/// How far back a layer packed with zstd may look, which is memory while it is read: what the
/// program itself takes unasked.
pub const IMAGE_WINDOW_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Registries: time to connect, silence, the head of an answer, redirects of one request.
pub const REGISTRY_CONNECT_MAX: Duration = Duration::from_secs(10);
pub const REGISTRY_QUIET_MAX: Duration = Duration::from_secs(60);
pub const REGISTRY_HEAD_BYTES_MAX: usize = 64 * 1024;
pub const REGISTRY_REDIRECTS_MAX: usize = 5;
