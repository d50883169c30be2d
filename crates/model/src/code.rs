//! Code sessions: their ids and languages.

use std::{fmt, str::FromStr};

use uuid::Uuid;

use crate::BadId;

/// Longest id of a session.
const ID_BYTES_MAX: usize = 64;

/// Id of a code session. A fork's sessions keep the ids of the parent's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeSessionId(String);

impl CodeSessionId {
    /// Makes a fresh random id.
    pub fn random() -> Self {
        Self(format!("ctx_{}", Uuid::new_v4().as_simple()))
    }

    /// Returns the id of the session shared by all callers that name no session in this language.
    pub fn shared(language: CodeLanguage) -> Self {
        Self(format!("shared_{}", language.name()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CodeSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for CodeSessionId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if (1..=ID_BYTES_MAX).contains(&text.len()) && text.chars().all(plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadId::new("session", text))
        }
    }
}

/// Language of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeLanguage {
    Python,
    JavaScript,
    Bash,
}

impl CodeLanguage {
    /// Returns the name shown to users.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::Bash => "bash",
        }
    }

    /// Finds a language by any of its usual names.
    pub fn find(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "python" | "python3" | "py" => Some(Self::Python),
            "javascript" | "js" | "node" | "nodejs" => Some(Self::JavaScript),
            "bash" | "sh" | "shell" => Some(Self::Bash),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_plain() {
        let id = CodeSessionId::random();
        assert_eq!(id.to_string().parse::<CodeSessionId>().unwrap(), id);
        assert!(CodeSessionId::shared(CodeLanguage::Bash).as_str().parse::<CodeSessionId>().is_ok());
        for bad in ["", "a b", "a/b", "é", "..", &"x".repeat(65)] {
            assert!(bad.parse::<CodeSessionId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn languages_have_several_names() {
        assert_eq!(CodeLanguage::find("PY"), Some(CodeLanguage::Python));
        assert_eq!(CodeLanguage::find("node"), Some(CodeLanguage::JavaScript));
        for language in [CodeLanguage::Python, CodeLanguage::JavaScript, CodeLanguage::Bash] {
            assert_eq!(CodeLanguage::find(language.name()), Some(language));
        }
        assert_eq!(CodeLanguage::find("cobol"), None);
    }
}
