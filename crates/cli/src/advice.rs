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
        "sandbox.not_found" => "see yours with: pandastack sandbox list",
        "snapshot.not_found" => "see yours with: pandastack snapshot list",
        "template.not_found" | "template.unknown" => "see yours with: pandastack template list",
        "template.exists" => "replace it with: pandastack template build --replace",
        "build.not_found" => "see yours with: pandastack template builds",
        "volume.not_found" => "see yours with: pandastack volume list",
        "volume.exists" => "grow it with: pandastack volume grow",
        "volume.in_use" | "volume.attached" => "see who uses a volume with: pandastack volume get",
        "fork.no_tree" => "a tree comes from: pandastack sandbox fork --count 2 ID",
        "key.not_found" => "see yours with: pandastack key list",
        "key.last" => "on the command line: pandastack key revoke --force",
        "quota.keys" => "revoke with: pandastack key revoke",
        "quota.sandboxes" => "delete with: pandastack sandbox delete",
        "quota.snapshots" => "delete with: pandastack snapshot delete",
        "quota.volumes" => "delete with: pandastack volume delete",
        "route.not_found" => "is the server of the same version? See: pandastack --version",
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
        assert_eq!(advise(refused("volume.not_found")).to_string(), "no; see yours with: pandastack volume list");
        assert_eq!(advise(refused("else")).to_string(), "no");
    }
}
