//! Here-documents: their beginning in an instruction, and their lines.

use super::{DockerfileError, words};

/// A here-document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HereDoc {
    pub name: String,
    pub body: String,
    /// Whether its variables are replaced. They are if its name is not quoted.
    pub expand: bool,
    /// The lines as in the file, with the closing one.
    pub raw: String,
}

/// The opening of a here-document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HereDocOpening {
    name: String,
    expand: bool,
    strip_tabs: bool,
}

/// Finds the here-documents that an instruction opens.
pub fn begun(rest: &str) -> Vec<HereDocOpening> {
    words::split(rest).iter().filter_map(|word| opening(word)).collect()
}

/// Reads a word such as `<<EOF`, `<<-"EOF"` or `3<<EOF`.
pub fn opening(word: &str) -> Option<HereDocOpening> {
    let word = word.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix("<<")?;
    let (strip_tabs, word) = word.strip_prefix('-').map_or((false, word), |word| (true, word));
    let quoted = word.len() >= 2 && ['"', '\''].iter().any(|quote| word.starts_with(*quote) && word.ends_with(*quote));
    let name = if quoted { &word[1..word.len() - 1] } else { word };
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!name.is_empty() && name.chars().all(fine)).then(|| HereDocOpening {
        name: name.to_owned(),
        expand: !quoted,
        strip_tabs,
    })
}

/// Reads the lines of a here-document.
pub fn read<'a>(
    begun: HereDocOpening,
    number: usize,
    lines: impl Iterator<Item = &'a str>,
) -> Result<HereDoc, DockerfileError> {
    let HereDocOpening { name, expand, strip_tabs } = begun;
    let (mut body, mut raw) = (String::new(), String::new());
    for line in lines {
        raw.push_str(line);
        raw.push('\n');
        let line = if strip_tabs { line.trim_start_matches('\t') } else { line };
        if line == name {
            return Ok(HereDoc { name, body, expand, raw });
        }
        body.push_str(line);
        body.push('\n');
    }
    let name: String = name.chars().take(80).collect();
    Err(DockerfileError::at(number, format!("the here-document <<{name} is not closed")))
}
