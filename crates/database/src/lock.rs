//! What a writing transaction locks, so that it may read, decide and write.

use sha2::{Digest, Sha256};

/// What a writing transaction locks. SQLite has one writer at a time anyway. PostgreSQL takes an
/// advisory lock until the end of the transaction, so that only writers of the same thing wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLock<'a> {
    kind: &'static str,
    id: &'a str,
}

impl<'a> WriteLock<'a> {
    /// Locks one thing of a kind, such as one workspace.
    pub fn on(kind: &'static str, id: &'a str) -> Self {
        Self { kind, id }
    }

    /// Locks all things of a kind against other transactions that lock all of them.
    pub fn on_all(kind: &'static str) -> Self {
        Self { kind, id: "" }
    }

    /// The number of PostgreSQL's lock. Two things with the same number only wait for each other.
    pub(crate) fn number(self) -> i64 {
        let hash = Sha256::new().chain_update(self.kind).chain_update([0]).chain_update(self.id).finalize();
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash[..8]);
        i64::from_be_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_things_have_different_numbers() {
        let numbers =
            [WriteLock::on("a", "bc"), WriteLock::on("ab", "c"), WriteLock::on_all("abc")].map(WriteLock::number);
        assert_ne!(numbers[0], numbers[1]);
        assert_ne!(numbers[1], numbers[2]);
        assert_eq!(numbers[0], WriteLock::on("a", "bc").number());
    }
}
