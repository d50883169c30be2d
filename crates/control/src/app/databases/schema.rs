//! Compares the schemas of two databases.

use pandastack_model::{Fault, FaultKind, SandboxId};
use pandastack_wire_fleet::Caller;
use pandastack_wire_public::SchemaDiff;
use similar::TextDiff;

use crate::{
    Control,
    limits::{DATABASE_DIFF_MAX, DATABASE_ERRAND_MAX},
};

/// Lines around a change that are shown with it.
const CONTEXT_LINES: usize = 3;

impl Control {
    /// Compares the schema of a database with that of another one, or of its parent. Wakes both.
    pub(crate) async fn compare_schemas(
        &self,
        caller: &Caller,
        id: SandboxId,
        other: Option<SandboxId>,
    ) -> Result<SchemaDiff, Fault> {
        self.need_host()?;
        let row = self.usable_database(caller, id).await?.row;
        let other = other.or(row.branched_from).or(row.cloned_from).ok_or_else(|| {
            let text = "the database is no branch; name the database to compare it with: ?to=ID";
            Fault::new(FaultKind::Caller, "database.no_parent", text)
        })?;
        self.usable_database(caller, other).await?;
        let mut schemas = Vec::with_capacity(2);
        for database in [other, id] {
            self.wake(caller, database).await?;
            schemas.push(self.run_in_database(database, &["schema"], None, DATABASE_ERRAND_MAX).await?);
        }
        let names = [other, id].map(|database| database.to_string());
        let diff = tokio::task::spawn_blocking({
            let names = names.clone();
            move || unified(&names, &schemas)
        });
        let diff = diff.await.map_err(Fault::bug)?;
        let [from, to] = names;
        Ok(SchemaDiff { from, to, same: diff.is_empty(), diff })
    }
}

fn unified(names: &[String; 2], schemas: &[String]) -> String {
    let mut settings = TextDiff::configure();
    let diff = settings.timeout(DATABASE_DIFF_MAX).diff_lines(&schemas[0], &schemas[1]);
    diff.unified_diff().context_radius(CONTEXT_LINES).header(&names[0], &names[1]).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_the_second_one_has() {
        let names = ["a".to_owned(), "b".to_owned()];
        let schemas = |one: &str, two: &str| [one.to_owned(), two.to_owned()];
        assert_eq!(unified(&names, &schemas("x\ny\n", "x\ny\n")), "");
        let diff = unified(&names, &schemas("x\ny\n", "x\nz\n"));
        assert_eq!(diff, "--- a\n+++ b\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n");
    }
}
