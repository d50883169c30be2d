//! `cargo xtask limits`: writes every named limit of the code at the end of docs/limits.md. Tidy
//! rejects an outdated page, so that every limit is listed.

use std::fmt::Write as _;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::run;
use crate::tidy::{self, Finding, Severity};

const PAGE: &str = "docs/limits.md";

/// Start of the generated part. Everything before it is written by hand.
const MARK: &str = "## Every number in the code\n";

const ABOUT: &str = "
Written by `cargo xtask limits`; do not edit below this line.
";

/// Updates the page.
pub fn run() -> Result<ExitCode> {
    let (page, fresh) = pages()?;
    if page != fresh {
        fs::write(run::workspace().join(PAGE), fresh).context("write the page")?;
        println!("{PAGE} is up to date now");
    }
    Ok(ExitCode::SUCCESS)
}

/// Rejects an outdated page.
pub fn check() -> Result<Option<Finding>> {
    let (page, fresh) = pages()?;
    let behind = page.lines().zip(fresh.lines()).take_while(|(one, other)| one == other).count() + 1;
    Ok((page != fresh).then(|| Finding {
        file: PAGE.to_owned(),
        line: behind,
        rule: "limit without a line",
        fix: "run `cargo xtask limits`, and tell above what happens past a new limit".to_owned(),
        severity: Severity::Refusal,
    }))
}

/// The page as it is, and as it should be.
fn pages() -> Result<(String, String)> {
    let page = fs::read_to_string(run::workspace().join(PAGE)).context("read the page")?;
    let mut files = Vec::new();
    tidy::gather(&run::workspace().join("crates"), &mut files)?;
    let by_hand = page.split(MARK).next().unwrap_or_default();
    let mut fresh = format!("{}\n\n{MARK}{ABOUT}", by_hand.trim_end());
    for file in files.iter().filter(|file| file.contains("/src/") && file.ends_with("limits.rs")) {
        let text = fs::read_to_string(run::workspace().join(file)).with_context(|| format!("read {file}"))?;
        let lines: String = constants(&text).iter().fold(String::new(), |mut lines, (name, value)| {
            let _ = writeln!(lines, "- `{name}` = `{value}`");
            lines
        });
        let _ = write!(fresh, "\n### `{file}`\n\n{lines}");
    }
    Ok((page, fresh))
}

/// The public constants of a file, each with its value as in the source.
fn constants(text: &str) -> Vec<(String, String)> {
    let items = text.split("\npub const ").skip(1);
    let read = |item: &str| {
        let (name, rest) = item.split_once(':')?;
        // An array type contains a semicolon, so the value is searched first.
        let (value, _) =
            rest.split_once(" = ")?.1.split_once(";\n").or_else(|| rest.split_once(" = ")?.1.split_once(';'))?;
        Some((name.to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    items.filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_found_with_their_values() {
        let text = "//! Limits.\n\npub const A_MAX: usize = 4 * 1024;\nconst HIDDEN: u8 = 1;\n/// Waits.\npub const \
            B: [Duration; 2] = [\n    \
                    Duration::from_secs(5),\n    Duration::from_secs(6),\n];\npub const LAST: u8 = 3;";
        let found = constants(text);
        let shown: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let two = "[ Duration::from_secs(5), Duration::from_secs(6), ]";
        assert_eq!(shown, [("A_MAX", "4 * 1024"), ("B", two), ("LAST", "3")]);
    }

    #[test]
    fn every_limit_of_the_code_is_on_the_page() {
        assert_eq!(check().unwrap(), None);
    }
}
