//! A letter. What a user typed can be in it, so every part is checked: a line break in a subject or
//! an address would be a new header.

use lettre::{
    Message,
    message::{
        Mailbox,
        header::{ContentType, HeaderName, HeaderValue},
    },
};

use crate::limits::{LETTER_TEXT_BYTES_MAX, MAIL_ADDRESS_BYTES_MAX, SUBJECT_BYTES_MAX};

/// A letter to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    to: lettre::Address,
    subject: String,
    text: String,
}

/// Why a letter cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LetterError {
    #[error("{0:?} is not an e-mail address")]
    Address(String),
    #[error("a subject is one line of 1 to {SUBJECT_BYTES_MAX} bytes")]
    Subject,
    #[error("a text has 1 to {LETTER_TEXT_BYTES_MAX} bytes, and no control characters but line breaks and tabs")]
    Text,
    #[error("could not write the letter: {0}")]
    Format(String),
}

impl Letter {
    /// Checks the parts of a letter.
    pub fn new(to: &str, subject: impl Into<String>, text: impl Into<String>) -> Result<Self, LetterError> {
        let (to, subject, text) = (address(to)?, subject.into(), text.into());
        let is_one_line = !subject.chars().any(|char| char.is_control() || is_line_break(char));
        if subject.trim().is_empty() || subject.len() > SUBJECT_BYTES_MAX || !is_one_line {
            return Err(LetterError::Subject);
        }
        let is_plain = text.chars().all(|char| !char.is_control() || matches!(char, '\n' | '\t'));
        if text.is_empty() || text.len() > LETTER_TEXT_BYTES_MAX || !is_plain {
            return Err(LetterError::Text);
        }
        Ok(Self { to, subject, text })
    }

    /// Returns the address.
    pub fn to(&self) -> &str {
        self.to.as_ref()
    }

    /// Returns the subject.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the letter as it is sent. The id stays the same over all tries, so that mailboxes
    /// can recognise a repetition.
    pub(crate) fn message(&self, from: &Mailbox, id: &str) -> Result<Message, LetterError> {
        let automatic = HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned());
        Message::builder()
            .from(from.clone())
            .to(Mailbox::new(None, self.to.clone()))
            .subject(self.subject.clone())
            .message_id(Some(format!("<{id}@{}>", from.email.domain())))
            .raw_header(automatic)
            .header(ContentType::TEXT_PLAIN)
            .body(self.text.clone())
            .map_err(|error| LetterError::Format(error.to_string()))
    }
}

/// Parses an address. Only ASCII and no quotes: such addresses need no escapes anywhere.
pub(crate) fn address(text: &str) -> Result<lettre::Address, LetterError> {
    let bad = || LetterError::Address(text.chars().take(MAIL_ADDRESS_BYTES_MAX).collect());
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"(),:;<>[\\]".contains(&byte);
    if text.len() > MAIL_ADDRESS_BYTES_MAX || !text.bytes().all(is_plain) {
        return Err(bad());
    }
    text.parse().map_err(|_| bad())
}

/// Line breaks of Unicode that are not control characters.
fn is_line_break(char: char) -> bool {
    matches!(char, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(letter: &Letter) -> String {
        let from = Mailbox::new(Some("Panda \"Stack\"".to_owned()), address("noreply@pandas.example").unwrap());
        String::from_utf8(letter.message(&from, "1").unwrap().formatted()).unwrap()
    }

    #[test]
    fn a_letter_is_written_with_its_headers() {
        let letter = Letter::new("ada@example.com", "Grüße", "One line\n.\nhttps://pandas.example/x\n").unwrap();
        let text = written(&letter);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains("\r\nTo: ada@example.com\r\n") && head.contains("Message-ID: <1@pandas.example>"),
            "{head}"
        );
        assert!(head.contains("Auto-Submitted: auto-generated"), "{head}");
        assert!(head.is_ascii() && body.contains("https://pandas.example/x\r\n"), "{text}");
    }

    #[test]
    fn nothing_can_add_a_header() {
        for bad in [
            "ada@example.com\r\nBcc: eve@example.com",
            "ada@example.com\n",
            "<ada@example.com>",
            "Ada <ada@example.com>",
            "ada@example.com, eve@example.com",
            "\"a b\"@example.com",
            "ada@[127.0.0.1]",
            "ada@exämple.com",
            "ada",
            "@example.com",
            "",
        ] {
            assert!(matches!(Letter::new(bad, "Hello", "text"), Err(LetterError::Address(_))), "{bad:?}");
        }
        let long = format!("{}@example.com", "a".repeat(MAIL_ADDRESS_BYTES_MAX));
        assert!(Letter::new(&long, "Hello", "text").is_err());
        for bad in ["Hello\r\nBcc: eve@example.com", "a\nb", "a\u{85}b", "a\u{2028}b", "a\0b", " ", ""] {
            assert_eq!(Letter::new("ada@example.com", bad, "text"), Err(LetterError::Subject), "{bad:?}");
        }
        for bad in ["a\r\n.\r\nQUIT", "a\0b", "\u{1b}[2J", ""] {
            assert_eq!(Letter::new("ada@example.com", "Hello", bad), Err(LetterError::Text), "{bad:?}");
        }
        assert!(Letter::new("ada@example.com", "a".repeat(SUBJECT_BYTES_MAX + 1), "text").is_err());
        assert!(Letter::new("ada@example.com", "Hello", "a".repeat(LETTER_TEXT_BYTES_MAX + 1)).is_err());
    }

    proptest! {
        #[test]
        fn the_headers_are_the_same_whatever_is_typed(subject in ".{0,220}", text in "(.|\n){0,300}", to in ".{0,40}") {
            let names = |letter: &Letter| {
                let text = written(letter);
                let head = text.split_once("\r\n\r\n").unwrap().0.to_owned();
                let names = head.lines().filter(|line| !line.starts_with([' ', '\t']));
                names.map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
            };
            let usual = names(&Letter::new("ada@example.com", "Hello", "text").unwrap());
            for to in [to.as_str(), "ada@example.com"] {
                if let Ok(letter) = Letter::new(to, subject.clone(), text.clone()) {
                    prop_assert_eq!(names(&letter), usual.clone());
                }
            }
        }
    }
}
