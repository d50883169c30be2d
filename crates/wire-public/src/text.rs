//! Turns a process's bytes into text, piece by piece, without breaking characters at piece
//! boundaries.

/// Holds back an incomplete character until the rest arrives. Bytes that are not UTF-8 become
/// U+FFFD.
#[derive(Debug, Default)]
pub struct TextTail {
    held: Vec<u8>,
}

impl TextTail {
    /// Creates an empty tail.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece and returns all complete text.
    pub fn push(&mut self, piece: &[u8]) -> String {
        let joined;
        let bytes = if self.held.is_empty() {
            piece
        } else {
            self.held.extend_from_slice(piece);
            joined = std::mem::take(&mut self.held);
            &joined
        };
        let (text, rest) = complete(bytes);
        self.held = rest.to_vec();
        text
    }

    /// Returns the rest at the end. An incomplete character becomes one U+FFFD.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

/// Splits bytes into complete text and an incomplete character of at most three bytes.
fn complete(mut bytes: &[u8]) -> (String, &[u8]) {
    let mut text = String::with_capacity(bytes.len());
    loop {
        let error = match std::str::from_utf8(bytes) {
            Ok(good) => {
                text.push_str(good);
                return (text, &[]);
            }
            Err(error) => error,
        };
        let (good, rest) = bytes.split_at(error.valid_up_to());
        text.push_str(&String::from_utf8_lossy(good));
        match error.error_len() {
            Some(bad) => {
                text.push(char::REPLACEMENT_CHARACTER);
                bytes = &rest[bad..];
            }
            None => return (text, rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_character_split_at_every_byte_arrives_whole() {
        let whole = "aé Å 😀 \u{2028} z";
        for cut in 0..=whole.len() {
            let mut tail = TextTail::new();
            let mut text = tail.push(&whole.as_bytes()[..cut]);
            text += &tail.push(&whole.as_bytes()[cut..]);
            text += &tail.finish();
            assert_eq!(text, whole, "cut at {cut}");
        }
    }

    #[test]
    fn bad_and_unfinished_bytes_become_replacements() {
        let mut tail = TextTail::new();
        assert_eq!(tail.push(b"a\xffb\xf0\x9f"), "a\u{fffd}b");
        assert_eq!(tail.finish(), "\u{fffd}");
        assert_eq!(tail.finish(), "");
    }

    proptest! {
        #[test]
        fn pieces_say_the_same_as_the_whole(bytes: Vec<u8>, cuts in proptest::collection::vec(1usize..5, 0..40)) {
            let mut tail = TextTail::new();
            let (mut text, mut rest) = (String::new(), bytes.as_slice());
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                text += &tail.push(piece);
                rest = after;
            }
            text += &tail.push(rest);
            text += &tail.finish();
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
}
