//! The egress allowlist of a sandbox and its bandwidth limit, as the API writes them.

use pandastack_model::{EGRESS_RULES_MAX, Egress, EgressRule, Fault};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{failure::bad, limits::EGRESS_MBPS_MAX};

/// A sandbox's egress allowlist. Null means no list: the sandbox may reach everything that the host
/// allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EgressList {
    pub egress_allowlist: Option<Vec<String>>,
}

/// Replaces the egress allowlist. The field is required, so that a missing field never opens access
/// by accident.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SetEgress {
    #[serde(default, deserialize_with = "present")]
    egress_allowlist: Option<Option<Vec<String>>>,
}

impl TryFrom<SetEgress> for Egress {
    type Error = Fault;

    fn try_from(ask: SetEgress) -> Result<Self, Fault> {
        let SetEgress { egress_allowlist } = ask;
        let missing = || {
            bad(
                "egress.required",
                "egress_allowlist required: a list of hosts, [] to block everything, or null to remove the list",
            )
        };
        egress_of(egress_allowlist.ok_or_else(missing)?)
    }
}

/// Writes an egress as the API's list.
pub fn egress_list(egress: &Egress) -> Option<Vec<String>> {
    match egress {
        Egress::Open => None,
        Egress::Only(rules) => Some(rules.iter().map(EgressRule::to_string).collect()),
    }
}

/// Reads a list. `None` means no limit.
pub(crate) fn egress_of(asked: Option<Vec<String>>) -> Result<Egress, Fault> {
    let Some(asked) = asked else { return Ok(Egress::Open) };
    if asked.len() > EGRESS_RULES_MAX {
        let text = format!("egress_allowlist has {} entries; at most {EGRESS_RULES_MAX} are allowed", asked.len());
        return Err(bad("egress.too_many", text));
    }
    let rule =
        |text: &String| text.parse().map_err(|error| bad("egress.bad_rule", format!("egress_allowlist: {error}")));
    asked.iter().map(rule).collect::<Result<_, _>>().map(Egress::Only)
}

/// Checks a bandwidth limit.
pub(crate) fn bandwidth(asked: Option<i64>) -> Result<Option<u32>, Fault> {
    let Some(asked) = asked else { return Ok(None) };
    let fits = u32::try_from(asked).ok().filter(|mbps| (1..=EGRESS_MBPS_MAX).contains(mbps));
    let refused = || bad("egress.bad_mbps", format!("egress_mbps must be 1 to {EGRESS_MBPS_MAX}, not {asked}"));
    fits.ok_or_else(refused).map(Some)
}

/// Distinguishes a null field from a missing one.
fn present<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Option<Vec<String>>>, D::Error> {
    Option::deserialize(input).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Result<Option<&[&str]>, &str>) {
        let ask: SetEgress = serde_json::from_str(json).unwrap();
        let got = Egress::try_from(ask).map(|egress| egress_list(&egress));
        let expected = expected.map(|list| list.map(|list| list.iter().map(|rule| (*rule).to_owned()).collect()));
        assert_eq!(got.map_err(|fault| fault.code), expected, "{json}");
    }

    #[test]
    fn leaving_the_list_out_opens_nothing() {
        check("{}", Err("egress.required"));
        check(r#"{"egress_allowlist":null}"#, Ok(None));
        check(r#"{"egress_allowlist":[]}"#, Ok(Some(&[])));
        check(r#"{"egress_allowlist":["A.b.","10.0.0.0/8"]}"#, Ok(Some(&["a.b", "10.0.0.0/8"])));
        check(r#"{"egress_allowlist":["*"]}"#, Err("egress.bad_rule"));
        let long = serde_json::json!({ "egress_allowlist": vec!["a.b"; EGRESS_RULES_MAX + 1] });
        check(&long.to_string(), Err("egress.too_many"));
    }
}
