//! Entry points for fuzz targets. Not used by the product.

use std::path::Path;

/// Unpacks an archive below a folder, as the agent does with one from a channel.
pub fn unpack(archive: &[u8], folder: &Path) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let done = runtime.block_on(crate::files::unpack_whole(archive, folder))?;
    Ok(done.bytes)
}
