//! Chooses a template if the user gave none.

use anyhow::bail;
use pandastack_client::Client;

/// Templates that a server usually has, best first.
const PREFERRED: [&str; 2] = ["ubuntu-24.04", "base"];

/// Returns the given template, or the best one that the server has.
pub async fn pick(client: &Client, named: Option<String>) -> anyhow::Result<String> {
    if let Some(name) = named {
        return Ok(name);
    }
    let names: Vec<_> = client.templates().await?.into_iter().map(|template| template.name).collect();
    match choose(&names) {
        Some(name) => Ok(name.to_owned()),
        None => bail!("the server has no templates; bake one with: pandastack template bake"),
    }
}

fn choose(names: &[String]) -> Option<&str> {
    let has = |wanted: &&str| names.iter().any(|name| name == wanted);
    PREFERRED.into_iter().find(has).or_else(|| names.first().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], expected: Option<&str>) {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(choose(&names), expected, "{names:?}");
    }

    #[test]
    fn a_usual_name_beats_the_first() {
        check(&[], None);
        check(&["mini"], Some("mini"));
        check(&["agent", "base"], Some("base"));
        check(&["base", "ubuntu-24.04"], Some("ubuntu-24.04"));
    }
}
