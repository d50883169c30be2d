//! Reads a layer, whatever its compression. Counts and hashes the bytes, and stops at a limit.
//! Blocking.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::limits::IMAGE_WINDOW_BYTES_MAX;

/// The uncompressed bytes of a layer.
pub struct UncompressedLayer {
    inner: Box<dyn Read>,
    pub hasher: Sha256,
    pub bytes: u64,
    bytes_max: u64,
    pub over: bool,
    stop: CancellationToken,
}

impl UncompressedLayer {
    pub fn open(path: &Path, stop: &CancellationToken, bytes_max: u64) -> io::Result<Self> {
        let mut head = [0; 4];
        let read = File::open(path)?.read(&mut head)?;
        let file = BufReader::with_capacity(128 * 1024, File::open(path)?);
        let inner: Box<dyn Read> = match &head[..read] {
            [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(file)),
            // The second is a skippable frame, which some tools write first.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Box::new(Zstd::new(file, stop.clone())),
            _ => Box::new(file),
        };
        Ok(Self { inner, hasher: Sha256::new(), bytes: 0, bytes_max, over: false, stop: stop.clone() })
    }
}

impl Read for UncompressedLayer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        let count = self.inner.read(into)?;
        self.bytes += count as u64;
        if self.bytes > self.bytes_max {
            self.over = true;
            return Err(io::Error::other("the unpacked size exceeds the limit"));
        }
        self.hasher.update(&into[..count]);
        Ok(count)
    }
}

/// A sequence of zstd frames. The window of each is limited: a few bytes could otherwise request
/// gigabytes of memory.
struct Zstd<R> {
    from: R,
    decoder: FrameDecoder,
    stop: CancellationToken,
}

impl<R: BufRead> Zstd<R> {
    fn new(from: R, stop: CancellationToken) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(IMAGE_WINDOW_BYTES_MAX);
        Self { from, decoder, stop }
    }

    /// Decodes until there are bytes to return. Returns false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        while self.decoder.can_collect() == 0 {
            // A frame may hold any number of empty blocks.
            if self.stop.is_cancelled() {
                return Err(io::Error::other("stopped"));
            }
            if !self.decoder.is_finished() {
                self.decoder.decode_blocks(&mut self.from, BlockDecodingStrategy::UptoBlocks(1)).map_err(broken)?;
            } else if self.from.fill_buf()?.is_empty() {
                return Ok(false);
            } else {
                self.begin()?;
            }
        }
        Ok(true)
    }

    /// Begins the next frame, or skips it if it is a skippable one.
    fn begin(&mut self) -> io::Result<()> {
        match self.decoder.reset(&mut self.from) {
            Ok(()) => Ok(()),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let skipped = io::copy(&mut self.from.by_ref().take(u64::from(length)), &mut io::sink())?;
                match skipped == u64::from(length) {
                    true => Ok(()),
                    false => Err(io::Error::other("zstd: the data ends in the middle of a frame")),
                }
            }
            Err(FrameDecoderError::WindowSizeTooBig { requested, .. }) => {
                let text = format!(
                    "zstd: a frame needs {requested} bytes of memory; at most {IMAGE_WINDOW_BYTES_MAX} are allowed"
                );
                Err(io::Error::other(text))
            }
            Err(error) => Err(broken(error)),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() || !self.advance()? {
            return Ok(0);
        }
        self.decoder.read(into)
    }
}

fn broken(error: FrameDecoderError) -> io::Error {
    io::Error::other(format!("zstd: {error}"))
}

#[cfg(test)]
mod tests;
