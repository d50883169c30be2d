//! Links of invites and password resets: people paste the whole link, or the secret in it.

use std::fmt;

use pandastack_kit::Secret;

/// Hex digits of a secret.
const DIGITS: usize = 48;
/// What the secret of a reset link begins with.
const RESET_PREFIX: &str = "prs_";

/// The secret of a link.
#[derive(Clone)]
pub struct LinkSecret(Secret<String>);

impl LinkSecret {
    /// Returns the secret, to be sent to the server.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

impl fmt::Debug for LinkSecret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("LinkSecret(hidden)")
    }
}

/// Reads an invite's link or secret.
pub fn invite_link(text: &str) -> Result<LinkSecret, String> {
    find(text, "").ok_or_else(|| format!("an invite's link contains a secret of {DIGITS} hex digits"))
}

/// Reads a reset link or its secret.
pub fn reset_link(text: &str) -> Result<LinkSecret, String> {
    find(text, RESET_PREFIX)
        .ok_or_else(|| format!("a reset link contains {RESET_PREFIX} and a secret of {DIGITS} hex digits"))
}

/// Finds the secret wherever the link has it: in its path, query or fragment.
fn find(text: &str, prefix: &str) -> Option<LinkSecret> {
    let is_digits = |text: &str| text.len() == DIGITS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let secret = words.rev().find(|word| word.strip_prefix(prefix).is_some_and(is_digits))?;
    Some(LinkSecret(Secret::new(secret.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(of: char) -> String {
        of.to_string().repeat(DIGITS)
    }

    #[test]
    fn a_link_and_its_secret_are_the_same() {
        let (a, b) = (digits('a'), digits('b'));
        for text in [
            a.clone(),
            format!(" {a}\n"),
            format!("https://x.example/invite/{a}"),
            format!("https://x.example/#/invite?token={a}&y=1"),
            format!("http://x/{b}/{a}/"),
        ] {
            assert_eq!(invite_link(&text).unwrap().reveal(), a, "{text}");
        }
        let reset = format!("prs_{a}");
        for text in [reset.clone(), format!("https://x.example/reset#{reset}")] {
            assert_eq!(reset_link(&text).unwrap().reveal(), reset, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let a = digits('a');
        for bad in ["", "https://x.example/", &a[1..], &format!("{a}a"), &a.to_uppercase(), &format!("prs_{a}")] {
            assert!(invite_link(bad).is_err(), "{bad}");
        }
        for bad in ["", a.as_str(), "prs_1"] {
            assert!(reset_link(bad).is_err(), "{bad}");
        }
    }
}
