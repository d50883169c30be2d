//! Follows PostgreSQL messages in bytes that pass by. It looks at headers only, copies nothing and
//! keeps five bytes at most. Bytes that are no messages end the following, never the passing.

use crate::limits::CANCEL_SECRET_BYTES_MAX;

/// Type and length.
const HEAD_BYTES: usize = 5;
/// Largest BackendKeyData by its own length: length, process id and secret.
const KEY_LENGTH_MAX: usize = 8 + CANCEL_SECRET_BYTES_MAX;

pub const READY: u8 = b'Z';
const BACKEND_KEY: u8 = b'K';
const AUTHENTICATION: u8 = b'R';
/// Length and body of AuthenticationOk. Requests for passwords have other bodies.
const AUTHENTICATED_LENGTH: usize = 8;
const AUTHENTICATED: [u8; 4] = [0; 4];

/// A message that begins, or the end of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenMessage {
    Began(u8),
    /// ReadyForQuery with its status.
    Ready(u8),
}

/// Follows messages in one direction.
#[derive(Debug, Default)]
pub struct FrameScan {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    body_left: usize,
    expects: Expects,
}

/// What the next bytes are.
#[derive(Debug, Default, PartialEq, Eq)]
enum Expects {
    #[default]
    Message,
    /// The first byte of a ReadyForQuery's body.
    Status,
    /// Anything: these were no messages.
    Nothing,
}

impl FrameScan {
    /// Follows the next bytes.
    pub fn scan(&mut self, bytes: &[u8], mut seen: impl FnMut(SeenMessage)) {
        let mut at = 0;
        while at < bytes.len() && self.expects != Expects::Nothing {
            if self.body_left > 0 {
                if self.expects == Expects::Status {
                    self.expects = Expects::Message;
                    seen(SeenMessage::Ready(bytes[at]));
                }
                let step = self.body_left.min(bytes.len() - at);
                self.body_left -= step;
                at += step;
            } else if let (0, Some(head)) = (self.head_bytes, bytes[at..].first_chunk()) {
                at += HEAD_BYTES;
                self.begin(*head, &mut seen);
            } else {
                self.head[self.head_bytes] = bytes[at];
                self.head_bytes += 1;
                at += 1;
                if self.head_bytes == HEAD_BYTES {
                    self.head_bytes = 0;
                    self.begin(self.head, &mut seen);
                }
            }
        }
    }

    /// Tells whether the last message is complete.
    pub fn is_between_messages(&self) -> bool {
        self.body_left == 0 && self.head_bytes == 0 && self.expects == Expects::Message
    }

    #[inline]
    fn begin(&mut self, head: [u8; HEAD_BYTES], seen: &mut impl FnMut(SeenMessage)) {
        let (kind, length) = read_head(head);
        match (length.checked_sub(4), kind) {
            (None, _) => self.expects = Expects::Nothing,
            (Some(body), READY) => {
                self.body_left = body;
                self.expects = if body == 1 { Expects::Status } else { Expects::Nothing };
            }
            (Some(body), kind) => {
                self.body_left = body;
                seen(SeenMessage::Began(kind));
            }
        }
    }
}

/// Follows the database's answer to a startup message, up to the first ReadyForQuery.
#[derive(Debug, Default)]
pub struct StartupScan {
    body_left: usize,
}

/// A part of the answer that matters here.
#[derive(Debug, PartialEq, Eq)]
pub enum StartupPart<'a> {
    /// AuthenticationOk: the client has proved its password.
    LoggedIn,
    /// The body of BackendKeyData, which may be replaced.
    Key(&'a mut [u8]),
}

/// How far the bytes of an answer may pass.
#[derive(Debug, PartialEq, Eq)]
pub enum StartupStep {
    /// So many bytes. The others must come again, with more behind them.
    Pass(usize),
    /// All bytes. From this place on they are for a `FrameScan`.
    Over(usize),
}

impl StartupScan {
    /// Follows the bytes, and tells what is seen.
    pub fn step(&mut self, bytes: &mut [u8], mut seen: impl FnMut(StartupPart<'_>)) -> StartupStep {
        let mut at = 0;
        loop {
            let rest = &mut bytes[at..];
            let step = self.body_left.min(rest.len());
            if step > 0 {
                self.body_left -= step;
                at += step;
                continue;
            }
            let Some(head) = rest.first_chunk() else { return StartupStep::Pass(at) };
            let (kind, length) = read_head(*head);
            if kind == READY || length < 4 {
                return StartupStep::Over(at);
            }
            if kind == BACKEND_KEY && length <= KEY_LENGTH_MAX {
                let Some(body) = rest.get_mut(HEAD_BYTES..=length) else { return StartupStep::Pass(at) };
                seen(StartupPart::Key(body));
                at += length + 1;
            } else if kind == AUTHENTICATION && length == AUTHENTICATED_LENGTH {
                let Some(body) = rest.get(HEAD_BYTES..=length) else { return StartupStep::Pass(at) };
                if body == AUTHENTICATED {
                    seen(StartupPart::LoggedIn);
                }
                at += length + 1;
            } else {
                self.body_left = length - 4;
                at += HEAD_BYTES;
            }
        }
    }

    /// Tells whether the last message that passed is complete.
    pub fn is_between_messages(&self) -> bool {
        self.body_left == 0
    }
}

#[inline]
fn read_head([kind, length @ ..]: [u8; HEAD_BYTES]) -> (u8, usize) {
    (kind, u32::from_be_bytes(length) as usize)
}

#[cfg(test)]
pub mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A message.
    pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    fn seen(chunks: &[&[u8]]) -> (Vec<SeenMessage>, bool) {
        let (mut scan, mut found) = (FrameScan::default(), Vec::new());
        for chunk in chunks {
            scan.scan(chunk, |frame| found.push(frame));
        }
        (found, scan.is_between_messages())
    }

    #[test]
    fn messages_are_seen_however_they_are_cut() {
        let bytes =
            [message(b'D', b"abc"), message(b'C', b""), message(b'Z', b"T"), message(b'N', &[b'Z'; 9])].concat();
        let expected = vec![
            SeenMessage::Began(b'D'),
            SeenMessage::Began(b'C'),
            SeenMessage::Ready(b'T'),
            SeenMessage::Began(b'N'),
        ];
        for size in 1..=bytes.len() {
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            assert_eq!(seen(&chunks), (expected.clone(), true), "{size}");
        }
        assert!(!seen(&[&bytes[..bytes.len() - 1]]).1);
    }

    #[test]
    fn what_is_no_message_ends_the_following() {
        let bad = [&[b'Q', 0, 0, 0, 3][..], &message(b'Z', b"I")].concat();
        assert_eq!(seen(&[&bad]), (vec![], false));
        assert_eq!(seen(&[&message(b'Z', b"II")]), (vec![], false));
        assert_eq!(seen(&[&message(b'Z', b"")]), (vec![], false));
    }

    /// What a tunnel made of an answer.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct PassedAnswer {
        out: Vec<u8>,
        is_over: bool,
        logins: usize,
    }

    /// Passes an answer in pieces of this size, as a tunnel does.
    fn passed(answer: &[u8], size: usize) -> PassedAnswer {
        let (mut scan, mut held, mut passed) = (StartupScan::default(), Vec::new(), PassedAnswer::default());
        for chunk in answer.chunks(size) {
            held.extend(chunk);
            if passed.is_over {
                passed.out.append(&mut held);
                continue;
            }
            let step = scan.step(&mut held, |part| match part {
                StartupPart::LoggedIn => passed.logins += 1,
                StartupPart::Key(body) => body.fill(b'x'),
            });
            match step {
                StartupStep::Pass(upto) => passed.out.extend(held.drain(..upto)),
                StartupStep::Over(_) => {
                    passed.is_over = true;
                    passed.out.append(&mut held);
                }
            }
        }
        passed.out.append(&mut held);
        passed
    }

    #[test]
    fn a_login_is_seen_however_it_is_cut() {
        let ok = message(b'R', &[0; 4]);
        for (before, after, logins) in [
            // SCRAM: the method, a challenge, the server's proof.
            (vec![message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"), message(b'R', b"\0\0\0\x0cv=x")], ok.clone(), 1),
            // A request for the password has the length of AuthenticationOk.
            (vec![message(b'R', &[0, 0, 0, 3])], Vec::new(), 0),
            (vec![message(b'R', b"\0\0\0\0\0")], Vec::new(), 0),
            // Text that looks like it.
            (vec![message(b'N', &ok), message(b'E', &[&ok[..], &ok].concat())], Vec::new(), 0),
            (vec![message(b'R', &[0, 0, 0, 3])], ok.repeat(2)[..17].to_vec(), 1),
            (vec![], [message(b'Z', b"I"), ok.clone()].concat(), 0),
        ] {
            let answer = [before.concat(), after].concat();
            for size in 1..=answer.len() {
                let passed = passed(&answer, size);
                assert_eq!((passed.logins, passed.out), (logins, answer.clone()), "{size}");
            }
        }
    }

    #[test]
    fn a_key_is_replaced_however_it_is_cut() {
        for secret in [4, 256] {
            let key = vec![b'k'; 4 + secret];
            let around = |key: &[u8]| {
                [message(b'R', &[0; 4]), message(b'K', key), message(b'Z', b"I"), message(b'K', b"12345678")].concat()
            };
            for size in 1..300 {
                let expected = around(&vec![b'x'; key.len()]);
                let expected = PassedAnswer { out: expected, is_over: true, logins: 1 };
                assert_eq!(passed(&around(&key), size), expected, "{size}");
            }
        }
    }

    #[test]
    fn a_key_that_is_too_long_passes_as_it_is() {
        let answer = [message(b'K', &[7; 300]), message(b'Z', b"I")].concat();
        assert_eq!(passed(&answer, 100), PassedAnswer { out: answer, is_over: true, logins: 0 });
    }

    proptest! {
        #[test]
        fn any_bytes_pass_unchanged_in_length(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            size in 1_usize..70,
        ) {
            prop_assert_eq!(passed(&bytes, size).out.len(), bytes.len());
            let chunks: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(seen(&chunks), seen(&[&bytes]));
        }
    }
}
