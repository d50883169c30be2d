//! The rules for one source file. Each is a pure function of the text, so the tests need no files.

use super::scrub::{self, SourceLine};
use super::{Finding, Severity};

const LINES_MAX: usize = 900;
const LINES_SEAM: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Rooms that may contain `unsafe`.
const UNSAFE_ROOMS: &[&str] = &["crates/sys/"];

/// Folders that may use the SQL library.
const SQL_ROOMS: &[&str] = &["crates/database", "crates/host/src/ledger", "e2e/tests/databases/clients"];

/// Maximum width of a comment line and of a line in a document.
pub const WIDTH_MAX: usize = 100;

/// Names that are unclear to a new reader, and their replacements.
const FORBIDDEN_NAMES: &[(&str, &str)] = &[
    ("Berth", "MachineSlot"),
    ("Charge", "Assignment"),
    ("Deed", "AuditRow"),
    ("HostParts", "HostSetup"),
    ("Parts", "HostContext, or what the parts are"),
    ("Post", "Supervisor"),
    ("Told", "what was told: a reply, a report, an answer"),
    ("bury", "delete"),
    ("take_in_hand", "protect"),
];

/// Checks one file, named by its path from the workspace root.
pub fn check(file: &str, text: &str) -> Vec<Finding> {
    let lines = scrub::lines(text);
    let report = Report { file };
    let mut found = Vec::new();
    found.extend(length(&report, text));
    found.extend(module_doc(&report, text));
    for (at, line) in lines.iter().enumerate() {
        found.extend(comment_words(&report, at + 1, &line.comment));
        found.extend(code_words(&report, at + 1, &line.code));
        found.extend(names(&report, at + 1, &line.code));
    }
    found.extend(comment_width(&report, text));
    found.extend(functions(&report, &lines));
    found
}

struct Report<'a> {
    file: &'a str,
}

impl Report<'_> {
    fn refuse(&self, line: usize, rule: &'static str, fix: impl Into<String>) -> Finding {
        Finding { file: self.file.to_owned(), line, rule, fix: fix.into(), severity: Severity::Refusal }
    }

    fn warn(&self, line: usize, rule: &'static str, fix: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, ..self.refuse(line, rule, fix) }
    }

    fn is_in(&self, rooms: &[&str]) -> bool {
        rooms.iter().any(|room| self.file.starts_with(room))
    }
}

fn length(report: &Report<'_>, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        let fix = format!("{lines} lines, the limit is {LINES_MAX}; split it by noun or verb");
        return Some(report.refuse(lines, "file too long", fix));
    }
    (lines > LINES_SEAM).then(|| report.warn(lines, "long file", format!("{lines} lines; look for the seam")))
}

fn module_doc(report: &Report<'_>, text: &str) -> Option<Finding> {
    if text.starts_with("//!") {
        return None;
    }
    Some(report.refuse(1, "no module doc", "begin the file with `//!`: what it owns, what it never does"))
}

fn comment_words(report: &Report<'_>, line: usize, comment: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if has_word(comment, "FIXME") {
        found.push(report.refuse(line, "fix-me note", "fix it now, or open an issue and write TODO(#N)"));
    }
    let todos = comment.match_indices("TODO").filter(|(at, _)| is_whole(comment, *at, "TODO".len()));
    if todos.into_iter().any(|(at, _)| !names_issue(&comment[at + "TODO".len()..])) {
        found.push(report.refuse(line, "TODO without an issue", "name the issue: TODO(#N)"));
    }
    found
}

/// Checks one document: no line is too wide, except tables, code, and lines that cannot be broken.
pub fn check_document(file: &str, text: &str) -> Vec<Finding> {
    let (report, mut fenced, mut found) = (Report { file }, false, Vec::new());
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let free = fenced || line.starts_with(['|', '#', '<', '!']) || line.starts_with("- `");
        if !free && is_too_wide(line) {
            found.push(report.refuse(at + 1, "line too wide", format!("wrap it at {WIDTH_MAX} columns")));
        }
    }
    found
}

/// Checks lines that are only a comment. Fenced drawings and code may be wider.
fn comment_width(report: &Report<'_>, text: &str) -> Vec<Finding> {
    let (mut fenced, mut found) = (false, Vec::new());
    for (at, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            fenced = false;
            continue;
        };
        if comment.trim_start_matches(['/', '!', ' ']).starts_with("```") {
            fenced = !fenced;
        } else if !fenced && is_too_wide(line) {
            found.push(report.refuse(at + 1, "comment too wide", format!("wrap it at {WIDTH_MAX} columns")));
        }
    }
    found
}

/// Tells whether a line is too wide and can be broken.
fn is_too_wide(line: &str) -> bool {
    let longest_word = line.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
    line.chars().count() > WIDTH_MAX && longest_word < WIDTH_MAX / 2
}

/// Checks definitions only, because a library may use such a name.
fn names(report: &Report<'_>, line: usize, code: &str) -> Vec<Finding> {
    let defines = |name: &str| {
        code.match_indices(name)
            .filter(|(at, _)| is_whole(code, *at, name.len()))
            .any(|(at, _)| ["struct ", "enum ", "type ", "trait ", "fn "].iter().any(|word| code[..at].ends_with(word)))
    };
    let used = FORBIDDEN_NAMES.iter().filter(|(name, _)| defines(name));
    used.map(|(name, better)| report.refuse(line, "unclear name", format!("`{name}`: call it {better}"))).collect()
}

fn names_issue(rest: &str) -> bool {
    let number = rest.strip_prefix("(#").and_then(|rest| rest.split_once(')')).map(|(number, _)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn code_words(report: &Report<'_>, line: usize, code: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if has_macro(code, "dbg") {
        found.push(report.refuse(line, "debug print", "remove it, or emit an event"));
    }
    if has_macro(code, "todo") {
        found.push(report.refuse(line, "unwritten code", "write it, or refuse the case with a named error"));
    }
    if has_word(code, "unsafe") && !report.is_in(UNSAFE_ROOMS) {
        found.push(report.refuse(line, "unsafe outside sys", "put a safe wrapper into crates/sys"));
    }
    if has_word(code, "sqlx") && !report.is_in(SQL_ROOMS) {
        let fix = "only the room database and the host's ledger use the library; go through control's store";
        found.push(report.refuse(line, "SQL outside its rooms", fix));
    }
    found
}

fn has_macro(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| is_whole(code, at, name.len()) && code[at + name.len()..].starts_with('!'))
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| is_whole(text, at, word.len()))
}

fn is_whole(text: &str, at: usize, length: usize) -> bool {
    let inside = |letter: char| letter.is_alphanumeric() || letter == '_';
    !text[..at].ends_with(inside) && !text[at + length..].starts_with(inside)
}

/// Warns about functions that do not fit on a screen.
fn functions(report: &Report<'_>, lines: &[SourceLine]) -> Vec<Finding> {
    let long = lines.iter().enumerate().filter(|(_, line)| has_word(&line.code, "fn")).filter_map(|(at, _)| {
        let length = body_lines(&lines[at..])?;
        let fix = format!("{length} lines, a screen has {FUNCTION_LINES_MAX}; move straight work into helpers");
        (length > FUNCTION_LINES_MAX).then(|| report.warn(at + 1, "long function", fix))
    });
    long.collect()
}

/// Counts the lines of a function up to its closing brace. `None` if it has no body.
fn body_lines(lines: &[SourceLine]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut brackets = 0_usize;
    for (at, line) in lines.iter().enumerate() {
        for letter in line.code.chars() {
            match letter {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                ';' if depth == 0 && brackets == 0 => return None,
                '{' => depth += 1,
                '}' if depth <= 1 => return (depth == 1).then_some(at + 1),
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = "//! A file.\n";

    fn check_rules(file: &str, body: &str, expected: &[(usize, &str)]) {
        let found = check(file, &format!("{DOC}{body}"));
        let found: Vec<_> = found.iter().map(|finding| (finding.line, finding.rule)).collect();
        assert_eq!(found, expected, "{file}: {body}");
    }

    #[test]
    fn a_plain_file_passes() {
        check_rules("crates/host/src/a.rs", "fn f() {}\n", &[]);
    }

    #[test]
    fn a_file_begins_with_its_doc() {
        let found = check("crates/host/src/a.rs", "fn f() {}\n");
        assert_eq!(found[0].rule, "no module doc");
    }

    #[test]
    fn notes_name_an_issue() {
        check_rules("a.rs", "// TODO(#12): later\n// METHODTODO", &[]);
        check_rules("a.rs", "\n// TODO: later", &[(3, "TODO without an issue")]);
        check_rules("a.rs", "// TODO(#): later", &[(2, "TODO without an issue")]);
        check_rules("a.rs", "// FIXME", &[(2, "fix-me note")]);
    }

    #[test]
    fn comments_and_documents_have_a_width() {
        let words = "word ".repeat(20);
        check_rules("a.rs", &format!("// {words}"), &[(2, "comment too wide")]);
        check_rules("a.rs", &format!("// {}", &words[..90]), &[]);
        check_rules("a.rs", &format!("// see {}", "x".repeat(120)), &[]);
        let found = check_document("a.md", &format!("{words}x\n| {words} |\n```\n{words}x\n```\n"));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn names_that_need_explaining_are_refused() {
        check_rules("crates/host/src/a.rs", "struct Berth;", &[(2, "unclear name")]);
        check_rules("crates/host/src/a.rs", "// struct Berth\nuse http::request::Parts; struct BerthOf;", &[]);
    }

    #[test]
    fn leftovers_of_debugging_are_refused() {
        check_rules("a.rs", "dbg!(x);", &[(2, "debug print")]);
        check_rules("a.rs", "todo!()", &[(2, "unwritten code")]);
        check_rules("a.rs", "let s = \"dbg!(x) todo!()\";", &[]);
    }

    #[test]
    fn unsafe_has_two_homes() {
        check_rules("crates/sys/src/a.rs", "unsafe { x() }", &[]);
        check_rules("crates/host/src/a.rs", "unsafe { x() }", &[(2, "unsafe outside sys")]);
        check_rules("crates/host/src/a.rs", "#![allow(unsafe_code)] // unsafe, in words", &[]);
    }

    #[test]
    fn sql_has_two_homes() {
        check_rules("crates/database/src/a.rs", "use sqlx::Row;", &[]);
        check_rules("crates/control/src/store/a.rs", "use sqlx::Row;", &[(2, "SQL outside its rooms")]);
        check_rules("crates/host/src/ledger/a.rs", "use sqlx::Row;", &[]);
        check_rules("crates/host/src/ledger.rs", "use sqlx::Row;", &[]);
        check_rules("crates/edge/src/a.rs", "use sqlx::Row;", &[(2, "SQL outside its rooms")]);
    }

    #[test]
    fn long_files_are_warned_about_and_then_refused() {
        check_rules("a.rs", &"\n".repeat(600), &[(601, "long file")]);
        check_rules("a.rs", &"\n".repeat(900), &[(901, "file too long")]);
        check_rules("a.rs", &"\n".repeat(599), &[]);
    }

    #[test]
    fn long_functions_are_warned_about() {
        let body = |lines: usize| format!("fn f(a: [u8; 2]) {{\n{}}}\n", "    x();\n".repeat(lines));
        check_rules("a.rs", &body(68), &[]);
        check_rules("a.rs", &body(69), &[(2, "long function")]);
        check_rules("a.rs", &format!("trait T {{\nfn f(a: [u8; 2]);\n{}}}\n", "\n".repeat(99)), &[]);
    }
}
