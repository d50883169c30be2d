//! Detects idle connections. A connection keeps its sandbox awake, so a silent one must be closed.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use pandastack_wire_fleet::GuestStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counts transferred bytes. Clones share one counter.
#[derive(Clone, Debug, Default)]
pub struct ByteMeter(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    moved: AtomicU64,
    silent: AtomicBool,
}

impl ByteMeter {
    /// Waits until nothing was transferred for the limit. Detection takes at most twice the limit.
    pub async fn silence(&self, limit: Duration) {
        loop {
            let before = self.0.moved.load(Ordering::Relaxed);
            tokio::time::sleep(limit).await;
            if self.0.moved.load(Ordering::Relaxed) == before {
                self.0.silent.store(true, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Tells whether `silence` has found the connection idle.
    pub fn was_silent(&self) -> bool {
        self.0.silent.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) {
        self.0.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// A stream whose bytes are counted.
pub struct MeteredStream {
    pub stream: GuestStream,
    pub meter: ByteMeter,
}

impl AsyncRead for MeteredStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let done = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.meter.count(buffer.filled().len() - before);
        done
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = done {
            self.meter.count(count);
        }
        done
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        if let Poll::Ready(Ok(count)) = done {
            self.meter.count(count);
        }
        done
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::Instant,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_in_either_direction_put_the_end_off() {
        const LIMIT: Duration = Duration::from_secs(60);
        let (ours, mut theirs) = tokio::io::duplex(64);
        let meter = ByteMeter::default();
        let mut metered = MeteredStream { stream: Box::new(ours), meter: meter.clone() };
        let began = Instant::now();
        let talk = async {
            for _ in 0..3 {
                tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
                metered.write_all(b"x").await.unwrap();
                tokio::time::sleep(LIMIT - Duration::from_secs(1)).await;
                theirs.write_all(b"y").await.unwrap();
                metered.read_u8().await.unwrap();
            }
            assert!(!metered.meter.was_silent());
        };
        tokio::join!(talk, meter.silence(LIMIT));
        assert!(meter.was_silent() && began.elapsed() >= 6 * LIMIT && began.elapsed() <= 8 * LIMIT);
    }
}
