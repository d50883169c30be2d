//! The order of overrides in the test runner's settings. The first one that matches a test wins, so
//! one for a whole package would hide later ones for some of its tests.

use std::fs;

use anyhow::{Context, Result};

use super::{Finding, Severity};
use crate::run;

const FILE: &str = ".config/nextest.toml";

/// One `[[profile.NAME.overrides]]`.
#[derive(Default)]
struct Override {
    line: usize,
    profile: String,
    filter: String,
    settings: Vec<String>,
}

impl Override {
    fn names_tests(&self) -> bool {
        self.filter.contains("test(")
    }
}

/// Checks the runner's settings.
pub fn check() -> Result<Vec<Finding>> {
    let text = fs::read_to_string(run::workspace().join(FILE)).with_context(|| format!("read {FILE}"))?;
    Ok(check_order(&text))
}

fn check_order(text: &str) -> Vec<Finding> {
    let all = overrides(text);
    let mut found = Vec::new();
    for (at, wide) in all.iter().enumerate().filter(|(_, wide)| !wide.names_tests()) {
        let later = all[at + 1..].iter().filter(|later| later.names_tests() && later.profile == wide.profile);
        for hidden in later {
            let both = hidden.settings.iter().find(|setting| wide.settings.contains(setting));
            found.extend(both.map(|setting| Finding {
                file: FILE.to_owned(),
                line: hidden.line,
                rule: "hidden override",
                fix: format!(
                    "put it before line {}, which sets {setting} first: the first that matches wins",
                    wide.line
                ),
                severity: Severity::Refusal,
            }));
        }
    }
    found
}

fn overrides(text: &str) -> Vec<Override> {
    let (mut all, mut inside): (Vec<Override>, bool) = (Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            let profile = line.strip_prefix("[[profile.").and_then(|rest| rest.strip_suffix(".overrides]]"));
            inside = profile.is_some();
            all.extend(profile.map(|profile| Override {
                line: at + 1,
                profile: profile.to_owned(),
                ..Override::default()
            }));
        } else if let (true, Some((key, value)), Some(one)) = (inside, line.split_once('='), all.last_mut()) {
            match key.trim() {
                "filter" => one.filter = value.trim().to_owned(),
                key if !key.starts_with('#') => one.settings.push(key.to_owned()),
                _ => {}
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: &str = "[[profile.deep.overrides]]\nfilter = \"package(e2e)\"\ntest-group = \"alone\"\n";
    const NARROW: &str = "[[profile.deep.overrides]]\nfilter = \"package(e2e) and test(/^long::/)\"\n";

    #[test]
    fn an_override_for_some_tests_stands_before_that_of_their_package() {
        let same = format!("{NARROW}test-group = \"machines\"\n");
        assert_eq!(check_order(&format!("{same}{WIDE}")), []);
        let found = check_order(&format!("{WIDE}\n{same}"));
        assert_eq!((found.len(), found[0].line, found[0].rule), (1, 5, "hidden override"));
        assert!(found[0].fix.contains("before line 1") && found[0].fix.contains("test-group"), "{}", found[0].fix);
    }

    #[test]
    fn other_settings_and_other_profiles_do_not_hide_each_other() {
        let other = format!("{NARROW}priority = 100\n");
        assert_eq!(check_order(&format!("{WIDE}{other}")), []);
        let elsewhere = WIDE.replace("deep", "default");
        assert_eq!(check_order(&format!("{elsewhere}{NARROW}test-group = \"machines\"\n")), []);
    }
}
