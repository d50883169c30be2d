//! Splits a Dockerfile into instructions: joins continued lines, drops comments, attaches
//! here-documents.

use super::{
    DockerfileError,
    heredoc::{self, HereDoc},
};

/// One instruction, not parsed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionLine {
    /// Number of its first line.
    pub number: usize,
    /// The first word, in upper case.
    pub keyword: String,
    /// The rest of the instruction, joined.
    pub rest: String,
    pub documents: Vec<HereDoc>,
}

/// Instructions that may contain here-documents.
const WITH_DOCUMENTS: [&str; 3] = ["RUN", "COPY", "ADD"];

/// Returns all instructions in order.
pub fn split(text: &str) -> Result<Vec<InstructionLine>, DockerfileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let escape = escape_of(&text)?;
    let mut lines = (1..).zip(text.lines());
    let mut found = Vec::new();
    while let Some((number, first)) = lines.next() {
        if is_nothing(first) {
            continue;
        }
        let mut joined = String::new();
        let mut next = Some(first);
        while let Some(line) = next.take() {
            match line.trim_end().strip_suffix(escape) {
                Some(part) => {
                    joined.push_str(part);
                    next = lines.by_ref().map(|(_, line)| line).find(|line| !is_nothing(line));
                }
                None => joined.push_str(line),
            }
        }
        let joined = joined.trim();
        let (keyword, rest) = joined.split_once(char::is_whitespace).unwrap_or((joined, ""));
        let (keyword, rest) = (keyword.to_ascii_uppercase(), rest.trim().to_owned());
        if rest.is_empty() {
            return Err(DockerfileError::at(
                number,
                format!("{} needs an argument", keyword.chars().take(80).collect::<String>()),
            ));
        }
        let mut documents = Vec::new();
        if WITH_DOCUMENTS.contains(&keyword.as_str()) && !rest.starts_with('[') {
            for begun in heredoc::begun(&rest) {
                documents.push(heredoc::read(begun, number, lines.by_ref().map(|(_, line)| line))?);
            }
        }
        found.push(InstructionLine { number, keyword, rest, documents });
    }
    Ok(found)
}

fn is_nothing(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Reads the parser directives. Only the escape character matters here.
fn escape_of(text: &str) -> Result<char, DockerfileError> {
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix('#') else { break };
        let Some((name, value)) = comment.split_once('=') else { break };
        if !name.trim().eq_ignore_ascii_case("escape") {
            continue;
        }
        return match value.trim() {
            "\\" => Ok('\\'),
            "`" => Ok('`'),
            _ => Err(DockerfileError::at(number, "escape must be \\ or `")),
        };
    }
    Ok('\\')
}
