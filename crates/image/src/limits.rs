//! Limits of images and registries. The reference page is docs/limits.md.

use std::time::Duration;

/// Images: bytes of the name, number of layers, bytes of a document (manifest, configuration,
/// token), bytes of all layers compressed and uncompressed.
pub const IMAGE_REFERENCE_BYTES_MAX: usize = 512;
pub const IMAGE_LAYERS_MAX: usize = 128;
pub const IMAGE_DOCUMENT_BYTES_MAX: usize = 4 * 1024 * 1024;
pub const IMAGE_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
pub const IMAGE_UNPACKED_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;
/// Number of files and folders in all layers, bytes of their names, levels of folders, and links
/// that one path may follow.
pub const IMAGE_ENTRIES_MAX: usize = 500_000;
pub const IMAGE_NAME_BYTES_MAX: usize = 64 * 1024 * 1024;
pub const IMAGE_LEVELS_MAX: usize = 256;
pub const IMAGE_LINKS_MAX: usize = 40;
/// Bytes of a full path, as in Linux.
pub const IMAGE_PATH_BYTES_MAX: usize = 4095;
/// Files that all sources of one `COPY --from` may select together.
pub const IMAGE_PICKED_MAX: usize = 2 * IMAGE_ENTRIES_MAX;
/// Bytes of a long name or extended header in a layer.
pub const IMAGE_EXTENSION_BYTES_MAX: u64 = 64 * 1024;
/// Largest zstd window, which is memory while a layer is read. It is the default limit of the zstd
/// program.
pub const IMAGE_WINDOW_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Registries: timeouts of connecting and of silence, bytes of an answer's head, and redirects.
pub const REGISTRY_CONNECT_MAX: Duration = Duration::from_secs(10);
pub const REGISTRY_QUIET_MAX: Duration = Duration::from_secs(60);
pub const REGISTRY_HEAD_BYTES_MAX: usize = 64 * 1024;
pub const REGISTRY_REDIRECTS_MAX: usize = 5;
