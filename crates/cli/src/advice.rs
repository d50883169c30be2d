//! Adds the next step to an error, for users of the command line.

use pandastack_client::ClientError;

/// Adds the next step where the server's error text does not include it.
pub fn advise(error: ClientError) -> anyhow::Error {
    match error.code().and_then(next_step) {
        Some(step) => anyhow::anyhow!("{error}; {step}"),
        None => error.into(),
    }
}

fn next_step(code: &str) -> Option<&'static str> {
    Some(match code {
        "sandbox.not_found" => "list sandboxes with: pandastack sandbox list",
        "snapshot.not_found" => "list snapshots with: pandastack snapshot list",
        "template.not_found" | "template.unknown" => "list templates with: pandastack template list",
        "template.exists" => "replace it with: pandastack template build --replace",
        "build.not_found" => "list builds with: pandastack template builds",
        "volume.not_found" => "list volumes with: pandastack volume list",
        "volume.exists" => "grow it with: pandastack volume grow",
        "volume.in_use" | "volume.attached" => "see which sandboxes use it with: pandastack volume get",
        "fork.no_tree" => "create a tree with: pandastack sandbox fork --count 2 ID",
        "key.not_found" => "list keys with: pandastack key list",
        "key.last" => "to revoke it anyway: pandastack key revoke --force",
        "quota.keys" => "use: pandastack key revoke",
        "quota.sandboxes" => "use: pandastack sandbox delete",
        "quota.snapshots" => "use: pandastack snapshot delete",
        "quota.volumes" => "use: pandastack volume delete",
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
