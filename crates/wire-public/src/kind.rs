//! Which machines a list of sandboxes or a stream of events shows. The machine of a managed
//! database is a sandbox too, but it is shown only to those who ask for it.

use pandastack_model::Fault;

use crate::failure::{bad, short};

/// What a machine is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MachineKind {
    #[default]
    Sandbox,
    /// It is the machine of a managed database of the same id.
    Database,
}

/// The kinds that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KindFilter {
    #[default]
    Sandboxes,
    Databases,
    All,
}

impl KindFilter {
    pub const EVERY: [Self; 3] = [Self::Sandboxes, Self::Databases, Self::All];

    /// Returns the word in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sandboxes => "sandbox",
            Self::Databases => "database",
            Self::All => "all",
        }
    }

    /// Reads the query parameter `kind`. Without it only plain sandboxes are shown.
    pub fn read(word: Option<&str>) -> Result<Self, Fault> {
        let Some(word) = word.filter(|word| !word.is_empty()) else { return Ok(Self::default()) };
        Self::EVERY.into_iter().find(|kind| kind.as_str() == word).ok_or_else(|| {
            bad("sandbox.bad_kind", format!("kind must be sandbox, database or all, not {:?}", short(word)))
        })
    }

    /// Whether a kind of machine is shown.
    pub fn shows(self, kind: MachineKind) -> bool {
        match (self, kind) {
            (Self::All, _) | (Self::Sandboxes, MachineKind::Sandbox) | (Self::Databases, MachineKind::Database) => true,
            (Self::Sandboxes, MachineKind::Database) | (Self::Databases, MachineKind::Sandbox) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_sandboxes_are_shown_unless_somebody_asks_for_more() {
        use MachineKind::{Database, Sandbox};
        for (word, shown) in [
            (None, [true, false]),
            (Some(""), [true, false]),
            (Some("sandbox"), [true, false]),
            (Some("database"), [false, true]),
            (Some("all"), [true, true]),
        ] {
            let filter = KindFilter::read(word).unwrap();
            assert_eq!([Sandbox, Database].map(|kind| filter.shows(kind)), shown, "{word:?}");
        }
        for word in ["ALL", "sandboxes", "databases", " all"] {
            assert_eq!(KindFilter::read(Some(word)).unwrap_err().code, "sandbox.bad_kind", "{word}");
        }
    }
}
