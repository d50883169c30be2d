//! Rules for new passwords: long enough, and not one of the first that are tried. No rules about
//! digits and symbols, which make passwords harder to remember and not harder to guess.

use std::fmt;

use pandastack_kit::Secret;

use super::common::COMMON;
use crate::{
    email::EmailAddress,
    limits::{PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN},
};

/// A password that follows the rules.
pub struct NewPassword(Secret<String>);

/// Why a new password is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordRefused {
    #[error("the password is too short; use at least {PASSWORD_CHARS_MIN} characters")]
    TooShort,
    #[error("the password is too long; use at most {PASSWORD_BYTES_MAX} bytes")]
    TooLong,
    #[error("the password must not be the e-mail address")]
    IsEmail,
    #[error("the password is one of the most common ones; choose another one")]
    Common,
}

impl NewPassword {
    /// Checks a password that a user chose. Nothing is trimmed or changed.
    pub fn check(text: &str, email: &EmailAddress) -> Result<Self, PasswordRefused> {
        if text.len() > PASSWORD_BYTES_MAX {
            return Err(PasswordRefused::TooLong);
        }
        if text.chars().count() < PASSWORD_CHARS_MIN {
            return Err(PasswordRefused::TooShort);
        }
        let folded = text.trim().to_lowercase();
        if folded == email.as_str() {
            return Err(PasswordRefused::IsEmail);
        }
        if COMMON.contains(&folded.as_str()) || is_one_character(&folded) {
            return Err(PasswordRefused::Common);
        }
        Ok(Self(Secret::new(text.to_owned())))
    }

    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

impl fmt::Debug for NewPassword {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("NewPassword(hidden)")
    }
}

fn is_one_character(text: &str) -> bool {
    let mut letters = text.chars();
    let first = letters.next();
    letters.all(|letter| Some(letter) == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<PasswordRefused>) {
        let email = EmailAddress::parse("ada@example.org").unwrap();
        assert_eq!(NewPassword::check(text, &email).err(), expected, "{text:?}");
    }

    #[test]
    fn a_new_password_has_a_length() {
        check("", Some(PasswordRefused::TooShort));
        check("nine char", Some(PasswordRefused::TooShort));
        check("ten chars!", None);
        // Nine letters, and more than ten bytes.
        check("éèêëāăąäå", Some(PasswordRefused::TooShort));
        check("éèêëāăąäåx", None);
        check(&"0123456789abcdef".repeat(16), None);
        check(&("0123456789abcdef".repeat(16) + "x"), Some(PasswordRefused::TooLong));
    }

    #[test]
    fn the_first_guesses_are_refused() {
        check("Ada@Example.ORG", Some(PasswordRefused::IsEmail));
        check(" ada@example.org ", Some(PasswordRefused::IsEmail));
        check("Password123", Some(PasswordRefused::Common));
        check("qwertyuiop", Some(PasswordRefused::Common));
        check("          ", Some(PasswordRefused::Common));
        check("aAaAaAaAaAaA", Some(PasswordRefused::Common));
        check("password123 and more", None);
    }

    /// Shorter ones are refused for their length, and others would never match.
    #[test]
    fn the_list_has_only_what_can_match() {
        for text in COMMON {
            assert!(text.chars().count() >= PASSWORD_CHARS_MIN, "{text}");
            assert_eq!(text.trim().to_lowercase(), **text);
        }
        assert!(COMMON.is_sorted_by(|one, next| one < next), "sorted, without repetition");
    }

    #[test]
    fn debug_output_hides_the_password() {
        let email = EmailAddress::parse("ada@example.org").unwrap();
        let password = NewPassword::check("correct horse", &email).unwrap();
        assert_eq!(format!("{password:?}"), "NewPassword(hidden)");
        assert_eq!(password.reveal(), "correct horse");
    }
}
