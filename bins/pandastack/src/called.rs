//! How a person calls this program in a shell, for lines that are printed to be copied.

use std::path::{Path, PathBuf};

use crate::find_program::find_program;

/// The program's name, if a shell finds this program by it; otherwise its path.
pub fn called() -> String {
    let program = std::env::current_exe().ok();
    call_of(program.as_deref(), find_program(NAME))
}

const NAME: &str = "pandastack";

fn call_of(program: Option<&Path>, found: Option<PathBuf>) -> String {
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match program {
        Some(program) if found.is_none_or(|found| canonical(&found) != canonical(program)) => {
            quoted(&program.display().to_string())
        }
        Some(_) | None => NAME.to_owned(),
    }
}

/// A word of a shell line.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%=".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_the_shell_does_not_find_is_called_by_its_path() {
        let check = |program: Option<&str>, found: Option<&str>, expected: &str| {
            assert_eq!(call_of(program.map(Path::new), found.map(PathBuf::from)), expected, "{program:?} {found:?}");
        };
        check(Some("/usr/bin/env"), Some("/usr/bin/env"), "pandastack");
        // A link to the program is the program.
        check(Some("/proc/self/root/usr/bin/env"), Some("/usr/bin/env"), "pandastack");
        check(Some("/usr/bin/env"), Some("/usr/bin/true"), "/usr/bin/env");
        check(Some("/opt/panda stack/it's"), None, r"'/opt/panda stack/it'\''s'");
        check(None, None, "pandastack");
    }
}
