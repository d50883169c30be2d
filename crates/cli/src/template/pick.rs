//! Chooses a template if the user gave none.

use pandastack_client::{Client, wire::Template};

use crate::exit::ExitReason;

/// Templates that a server usually has, best first.
const PREFERRED: [&str; 2] = ["ubuntu-24.04", "base"];
/// Templates of databases. A sandbox of one is of no use.
const DATABASE_PREFIX: &str = "postgres-";

/// Returns the given template, or the best one that the server has.
pub async fn pick(client: &Client, named: Option<String>) -> anyhow::Result<String> {
    if let Some(name) = named {
        return Ok(name);
    }
    match choose(&client.templates().await?) {
        Some(name) => Ok(name.to_owned()),
        None => Err(ExitReason::NotFound
            .error("the server has no templates; bake one on its computer with: pandastack template bake mini")),
    }
}

/// Chooses one that can be used. Without any it chooses one that the server is still making, so
/// that the server's refusal says how far that is.
fn choose(templates: &[Template]) -> Option<&str> {
    let ready = |template: &&Template| template.status.is_none();
    let of_people = |template: &&Template| !template.name.starts_with(DATABASE_PREFIX);
    let names: Vec<&str> = templates.iter().filter(ready).filter(of_people).map(|t| t.name.as_str()).collect();
    let preferred = PREFERRED.into_iter().find(|wanted| names.contains(wanted));
    let unready = || templates.iter().filter(|t| !ready(t)).find(of_people);
    preferred.or_else(|| names.first().copied()).or_else(|| unready().map(|template| template.name.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A name with a question mark is one of a template in the making.
    fn check(names: &[&str], expected: Option<&str>) {
        let template = |name: &&str| {
            let status = name.ends_with('?').then_some("baking");
            let name = name.trim_end_matches('?');
            let fields = json!({"name": name, "rootfs_path": name, "size_bytes": 1, "cpu": 1, "memory_mb": 1,
                "is_global": true, "status": status});
            serde_json::from_value::<Template>(fields).unwrap()
        };
        let templates: Vec<_> = names.iter().map(template).collect();
        assert_eq!(choose(&templates), expected, "{names:?}");
    }

    #[test]
    fn a_usual_name_beats_the_first() {
        check(&[], None);
        check(&["mini"], Some("mini"));
        check(&["agent", "base"], Some("base"));
        check(&["base", "ubuntu-24.04"], Some("ubuntu-24.04"));
    }

    #[test]
    fn what_can_be_used_beats_what_cannot() {
        check(&["base?", "mini"], Some("mini"));
        check(&["base?"], Some("base"));
        check(&["mini?", "postgres-16"], Some("mini"));
        check(&["postgres-16"], None);
    }
}
