//! The newest output of a process: bytes of both streams in the order in which they were read. The
//! oldest are dropped when it is full. Pure. Characters are kept whole: an incomplete one waits
//! until it is complete or its stream ends. So every offset given to a reader is a character
//! boundary.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::limits::{KEPT_BYTES_MAX, KEPT_RUNS_MAX};

/// Stream of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputSide {
    Stdout,
    Stderr,
}

/// Consecutive bytes of one stream.
#[derive(Debug)]
struct ByteRun {
    side: OutputSide,
    bytes: usize,
}

/// An incomplete character.
#[derive(Debug, Default)]
struct CharacterTail {
    bytes: [u8; 3],
    len: usize,
}

/// The kept output.
#[derive(Debug, Default)]
pub(super) struct OutputLog {
    bytes: VecDeque<u8>,
    runs: VecDeque<ByteRun>,
    /// Offset of the first kept byte.
    start: u64,
    written: [u64; 2],
    tails: [CharacterTail; 2],
}

impl OutputLog {
    /// Returns the offset of the oldest kept byte.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the offset after the newest byte.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Returns the bytes written to a stream, dropped ones included.
    pub(super) fn written(&self, side: OutputSide) -> u64 {
        self.written[side as usize]
    }

    /// Adds output of a stream, without an incomplete character at its end.
    pub(super) fn push(&mut self, side: OutputSide, piece: &[u8]) {
        let mut joined = BytesMut::with_capacity(piece.len() + 3);
        let tail = std::mem::take(&mut self.tails[side as usize]);
        joined.extend_from_slice(&tail.bytes[..tail.len]);
        joined.extend_from_slice(piece);
        let (whole, rest) = joined.split_at(joined.len() - unfinished(&joined));
        let tail = &mut self.tails[side as usize];
        tail.bytes[..rest.len()].copy_from_slice(rest);
        tail.len = rest.len();
        self.append(side, whole);
    }

    /// Ends a stream: adds its incomplete character, if there is one.
    pub(super) fn finish(&mut self, side: OutputSide) {
        let CharacterTail { bytes, len } = std::mem::take(&mut self.tails[side as usize]);
        self.append(side, &bytes[..len]);
    }

    /// Returns bytes of one stream from an offset, at most `bytes_max`, which must have room for a
    /// character. `None` if there are none or they were dropped.
    pub(super) fn read(&self, offset: u64, bytes_max: usize) -> Option<(OutputSide, Bytes)> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let mut before = 0;
        for run in &self.runs {
            if from < before + run.bytes {
                let end = (before + run.bytes).min(from.saturating_add(bytes_max));
                let mut piece = self.copy(from, end);
                if end < before + run.bytes {
                    piece.truncate(piece.len() - unfinished(&piece));
                }
                return (!piece.is_empty()).then(|| (run.side, piece.freeze()));
            }
            before += run.bytes;
        }
        None
    }

    fn append(&mut self, side: OutputSide, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        self.written[side as usize] += piece.len() as u64;
        match self.runs.back_mut() {
            Some(run) if run.side == side => run.bytes += piece.len(),
            _ => self.runs.push_back(ByteRun { side, bytes: piece.len() }),
        }
        self.bytes.extend(piece);
        let excess = self.bytes.len().saturating_sub(KEPT_BYTES_MAX);
        self.drop_oldest(excess);
        while self.runs.len() > KEPT_RUNS_MAX {
            self.drop_oldest(self.runs[0].bytes);
        }
    }

    fn drop_oldest(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.start += count as u64;
        let mut left = count;
        while left > 0 {
            let Some(run) = self.runs.front_mut() else { break };
            if run.bytes > left {
                run.bytes -= left;
                return;
            }
            left -= run.bytes;
            self.runs.pop_front();
        }
    }

    fn copy(&self, from: usize, end: usize) -> BytesMut {
        let (front, back) = self.bytes.as_slices();
        let mut piece = BytesMut::with_capacity(end - from);
        piece.extend_from_slice(&front[from.min(front.len())..end.min(front.len())]);
        piece.extend_from_slice(&back[from.saturating_sub(front.len())..end.saturating_sub(front.len())]);
        piece
    }
}

/// Counts the bytes of an incomplete character at the end.
fn unfinished(bytes: &[u8]) -> usize {
    let last = &bytes[bytes.len().saturating_sub(3)..];
    for count in 1..=last.len() {
        let tail = &last[last.len() - count..];
        match tail[0] {
            0x80..=0xbf => {}
            0xc2..=0xf4 => match std::str::from_utf8(tail) {
                Err(error) if error.error_len().is_none() => return count,
                _ => return 0,
            },
            _ => return 0,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use OutputSide::{Stderr, Stdout};

    use super::*;

    /// Reads everything from an offset.
    fn all(log: &OutputLog, mut offset: u64, step: usize) -> Vec<(OutputSide, Vec<u8>)> {
        let mut pieces = Vec::new();
        while let Some((side, piece)) = log.read(offset, step) {
            offset += piece.len() as u64;
            pieces.push((side, piece.to_vec()));
        }
        assert_eq!(offset, log.end());
        pieces
    }

    #[test]
    fn streams_keep_their_order() {
        let mut log = OutputLog::default();
        log.push(Stdout, b"one ");
        log.push(Stdout, b"two");
        log.push(Stderr, b"bad");
        log.push(Stdout, b"three");
        let expected = [(Stdout, b"one two".to_vec()), (Stderr, b"bad".to_vec()), (Stdout, b"three".to_vec())];
        assert_eq!(all(&log, 0, 100), expected);
        assert_eq!(all(&log, 5, 100)[0], (Stdout, b"wo".to_vec()));
        assert_eq!((log.written(Stdout), log.written(Stderr), log.end()), (12, 3, 15));
        assert_eq!(log.read(15, 100), None);
        assert_eq!(log.read(u64::MAX, 100), None);
    }

    #[test]
    fn a_character_is_never_cut_wherever_the_pieces_were() {
        let text = "aé€😀z".as_bytes();
        for cut in 0..=text.len() {
            for step in 4..9 {
                let mut log = OutputLog::default();
                log.push(Stdout, &text[..cut]);
                log.push(Stderr, b"!");
                log.push(Stdout, &text[cut..]);
                log.finish(Stdout);
                let mut seen = Vec::new();
                for (side, piece) in all(&log, 0, step) {
                    let piece = std::str::from_utf8(&piece).expect("whole characters");
                    if side == Stdout {
                        seen.push(piece.to_owned());
                    }
                }
                assert_eq!(seen.concat().as_bytes(), text, "cut at {cut}, steps of {step}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_as_they_are() {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let mut log = OutputLog::default();
        bytes.chunks(7).for_each(|piece| log.push(Stdout, piece));
        log.push(Stdout, b"\xf0\x9f");
        assert_eq!(log.end(), 5000, "a beginning waits");
        log.finish(Stdout);
        let seen: Vec<u8> = all(&log, 0, 13).into_iter().flat_map(|(_, piece)| piece).collect();
        assert_eq!(seen, [&bytes[..], b"\xf0\x9f"].concat());
    }

    #[test]
    fn the_oldest_bytes_go_first() {
        let mut log = OutputLog::default();
        log.push(Stderr, b"early");
        for number in 0..40_u8 {
            log.push(Stdout, &vec![number; KEPT_BYTES_MAX / 16]);
        }
        assert_eq!((log.end() - log.start()) as usize, KEPT_BYTES_MAX);
        assert_eq!(log.read(log.start() - 1, 10), None);
        assert_eq!(log.read(log.start(), 4).unwrap().1.as_ref(), &[24; 4]);
        assert_eq!(log.written(Stdout) + log.written(Stderr), log.end());
        log.push(Stdout, &vec![b'x'; 3 * KEPT_BYTES_MAX]);
        assert_eq!(log.read(log.start(), 4).unwrap().1.as_ref(), b"xxxx");
        assert_eq!((log.end() - log.start()) as usize, KEPT_BYTES_MAX);
    }

    #[test]
    fn streams_that_take_turns_cost_no_more_than_allowed() {
        let mut log = OutputLog::default();
        for _ in 0..KEPT_RUNS_MAX {
            log.push(Stdout, b"o");
            log.push(Stderr, b"e");
        }
        assert_eq!(log.runs.len(), KEPT_RUNS_MAX);
        assert_eq!(log.end() - log.start(), KEPT_RUNS_MAX as u64);
        assert_eq!(all(&log, log.start(), 10).len(), KEPT_RUNS_MAX);
    }
}
