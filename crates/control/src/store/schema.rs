//! The schema, in numbered steps. A released step is never edited.

use pandastack_database::Schema;

/// The steps. The first one creates version 1.
pub const SCHEMA: Schema = Schema {
    steps: &[
        include_str!("0001_start.sql"),
        include_str!("0002_state.sql"),
        include_str!("0003_previews.sql"),
        include_str!("0004_attempts.sql"),
        include_str!("0005_audit.sql"),
        include_str!("0006_builds.sql"),
        include_str!("0007_webhooks.sql"),
        include_str!("0008_causes.sql"),
        include_str!("0009_terms.sql"),
        include_str!("0010_keys.sql"),
        include_str!("0011_teams.sql"),
        include_str!("0012_audit_chain.sql"),
        include_str!("0013_plans.sql"),
        include_str!("0014_billing.sql"),
        include_str!("0015_attempt_servers.sql"),
        include_str!("0016_copied_volumes.sql"),
        include_str!("0017_databases.sql"),
        include_str!("0018_database_life.sql"),
        include_str!("0019_database_safety.sql"),
        include_str!("0020_usage_of_copies.sql"),
        include_str!("0021_orphans.sql"),
    ],
};
