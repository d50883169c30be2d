//! Checks that a type name means one thing in the whole workspace. Private types are free, because
//! nobody reads them outside their file.

use std::collections::HashMap;

use super::scrub;
use super::{Finding, Severity};

/// Conventional names that are always read with their module's path.
const CONVENTIONAL: &[&str] = &["Error", "Limits", "Options", "Settings"];

/// The visible types of all files seen so far, with the place of each definition.
#[derive(Default)]
pub struct TypeNames(HashMap<String, String>);

impl TypeNames {
    /// Adds one file and returns its types that another place has already defined.
    pub fn check(&mut self, file: &str, text: &str) -> Vec<Finding> {
        if !is_product(file) {
            return Vec::new();
        }
        let lines = scrub::lines(text);
        let names = lines.iter().enumerate().filter_map(|(at, line)| Some((at + 1, visible_type(&line.code)?)));
        let fresh = names.filter(|(_, name)| !CONVENTIONAL.contains(name));
        fresh.filter_map(|(line, name)| self.add(file, line, name)).collect()
    }

    fn add(&mut self, file: &str, line: usize, name: &str) -> Option<Finding> {
        let other = self.0.insert(name.to_owned(), format!("{file}:{line}"))?;
        let fix = format!("`{name}` is also defined at {other}; rename one by what it is");
        Some(Finding { file: file.to_owned(), line, rule: "name with two meanings", fix, severity: Severity::Refusal })
    }
}

/// Tests may repeat a name of the product.
fn is_product(file: &str) -> bool {
    file.contains("/src/") && !file.contains("/tests/") && !file.ends_with("/tests.rs")
}

/// Returns the type that a line of code defines for other files.
fn visible_type(code: &str) -> Option<&str> {
    let rest = code.trim_start().strip_prefix("pub")?;
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1 } else { rest };
    let (keyword, rest) = rest.trim_start().split_once(' ')?;
    let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?;
    ["struct", "enum", "trait", "type", "union"].contains(&keyword).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[(&str, usize)]) {
        let mut names = TypeNames::default();
        let found: Vec<_> = files.iter().flat_map(|(file, text)| names.check(file, text)).collect();
        let found: Vec<_> = found.iter().map(|finding| (finding.file.as_str(), finding.line)).collect();
        assert_eq!(found, expected, "{files:?}");
    }

    #[test]
    fn a_visible_name_is_defined_once() {
        let first = ("crates/a/src/x.rs", "pub struct Plan<'a> {");
        check(&[first, ("crates/b/src/y.rs", "\npub(crate) enum Plan {")], &[("crates/b/src/y.rs", 2)]);
        check(&[first, ("crates/a/src/y.rs", "pub type Plan = u8;")], &[("crates/a/src/y.rs", 1)]);
        check(&[first, ("crates/b/src/y.rs", "pub struct PlanRow;\n// pub struct Plan;\nuse a::Plan;")], &[]);
    }

    #[test]
    fn private_and_conventional_names_and_tests_are_free() {
        let first = ("crates/a/src/x.rs", "pub struct Plan;\npub enum Error {");
        check(&[first, ("crates/b/src/y.rs", "struct Plan;\npub enum Error {")], &[]);
        check(&[first, ("crates/b/src/z/tests.rs", "pub struct Plan;")], &[]);
        check(&[first, ("crates/b/tests/y.rs", "pub struct Plan;")], &[]);
    }
}
