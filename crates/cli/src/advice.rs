//! Adds the next step to an error, for users of the command line.

use pandastack_client::ClientError;

use crate::exit::AdvisedError;

/// Adds the next step where the server's error text does not include it.
pub fn advise(error: ClientError) -> anyhow::Error {
    match error.code().and_then(next_step) {
        Some(step) => AdvisedError { error, step }.into(),
        None => error.into(),
    }
}

fn next_step(code: &str) -> Option<&'static str> {
    Some(match code {
        "sandbox.not_found" => "list sandboxes with: pandastack sandbox list",
        "snapshot.not_found" => "list snapshots with: pandastack snapshot list",
        "template.not_found" => "list templates with: pandastack template list",
        "template.baking" => "see how far it is with: pandastack template list",
        "template.exists" => "replace it with: pandastack template build --replace",
        "build.not_found" => "list builds with: pandastack template builds",
        "volume.not_found" => "list volumes with: pandastack volume list",
        "volume.exists" => "grow it with: pandastack volume grow",
        "volume.in_use" | "volume.attached" => "see which sandboxes use it with: pandastack volume get",
        "database.not_found" => "list databases with: pandastack db list",
        "database.not_ready" => "see its status with: pandastack db get ID",
        "database.not_running" => "use: pandastack db wake ID",
        "database.failed" => "see why with: pandastack db get ID",
        "database.no_backup" => "take one with: pandastack db backup ID",
        "database.bad_target_time" => "see the times that can be restored with: pandastack db backups ID",
        "database.not_failed" => "restart it with: pandastack db restart ID",
        "database.no_parent" => "see which databases are branches with: pandastack db tree",
        "database.bad_token" => "its credentials were just replaced; try again",
        "fork.no_tree" => "create a tree with: pandastack sandbox fork --count 2 ID",
        "key.not_found" => "list keys with: pandastack key list",
        "key.last" => "to revoke it anyway: pandastack key revoke --force",
        "quota.keys" => "use: pandastack key revoke",
        "quota.sandboxes" => "use: pandastack sandbox delete",
        "quota.snapshots" => "use: pandastack snapshot delete",
        "quota.volumes" => "use: pandastack volume delete",
        "quota.orgs" => "use: pandastack org delete",
        "quota.invites" => "use: pandastack member withdraw",
        "org.not_found" | "org.not_member" => "list your organisations with: pandastack org list",
        "org.slug_taken" => "choose another with: pandastack org create --slug",
        "org.last_owner" => "use: pandastack org transfer",
        "org.no_member" => "list members with: pandastack member list",
        "org.invite_over" => "ask for a new invite",
        "org.other_email" => "log in as that person with: pandastack login",
        "billing.budget" => "see it with: pandastack billing",
        "billing.unpaid" | "billing.subscribed" => "use: pandastack billing portal",
        "billing.no_customer" => "use: pandastack billing buy PLAN",
        "billing.bad_plan" => "list plans with: pandastack pricing",
        "auth.no_session" => "list sessions with: pandastack session list",
        "auth.account_exists" => "use: pandastack login, then: pandastack member accept",
        "auth.reset_over" => "ask for a new link",
        "route.not_found" => "check that client and server have the same version: pandastack --version",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_miss_says_where_to_look() {
        let refused = |code: &str| ClientError::Refused {
            status: 404,
            code: code.into(),
            text: "no".into(),
            request_id: String::new(),
        };
        assert_eq!(advise(refused("volume.not_found")).to_string(), "no; list volumes with: pandastack volume list");
        assert_eq!(advise(refused("else")).to_string(), "no");
    }
}
