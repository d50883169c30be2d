//! Draws things that come from each other as trees.

use std::collections::{HashMap, HashSet};

/// A line of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeLine {
    pub id: String,
    pub parent: Option<String>,
    pub text: String,
}

/// Draws lines under their parents, in the given order. A line whose parent is not there is a root.
pub fn draw(lines: &[TreeLine]) -> String {
    let known: HashSet<&str> = lines.iter().map(|line| line.id.as_str()).collect();
    let (mut roots, mut children) = (Vec::new(), HashMap::<&str, Vec<&TreeLine>>::new());
    for line in lines {
        match line.parent.as_deref().filter(|parent| known.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(line),
            None => roots.push(line),
        }
    }
    let mut text = String::new();
    // A stack of lines, each with its prefix and the prefix of its children. A loop instead of
    // recursion, because families may be very deep.
    let mut waiting: Vec<(&TreeLine, String, String)> =
        roots.into_iter().rev().map(|line| (line, String::new(), String::new())).collect();
    while let Some((line, before, below)) = waiting.pop() {
        text.push_str(&format!("{before}{}\n", line.text));
        let own = children.remove(line.id.as_str()).unwrap_or_default();
        for (from_last, child) in own.into_iter().rev().enumerate() {
            let (branch, rest) = if from_last == 0 { ("└── ", "    ") } else { ("├── ", "│   ") };
            waiting.push((child, format!("{below}{branch}"), format!("{below}{rest}")));
        }
    }
    text
}

/// Returns the mark of a state.
pub fn mark(status: &str) -> char {
    match status {
        "running" => '●',
        "paused" => '◐',
        "hibernated" => '○',
        "failed" => '✗',
        "deleted" => '·',
        _ => '◌',
    }
}
