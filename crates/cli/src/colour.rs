//! Colours of state words. Only on a terminal, and never with NO_COLOR (no-color.org).

/// Tells whether to use colours on a stream.
pub fn is_wanted(is_terminal: bool) -> bool {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    is_terminal && variable("NO_COLOR").is_none() && variable("TERM").is_some_and(|term| term != "dumb")
}

/// Tells whether a cell has a state: by the head of its column, or by the name of its row.
pub fn is_state_column(head: &[String], row: &[String], column: usize) -> bool {
    let is_state = |name: &String| ["status", "state"].contains(&name.to_ascii_lowercase().as_str());
    head.get(column).is_some_and(is_state) || (column == 1 && row.first().is_some_and(is_state))
}

/// Colours a word by its meaning: green is well, yellow is on its way, blue sleeps, red needs you.
pub fn state(word: &str) -> String {
    let colour = match word {
        "running" | "on" | "done" | "delivered" | "listening" | "active" | "ready" => 32,
        "creating" | "provisioning" | "deleting" | "waking" | "hibernating" | "stopping" | "pending" | "queued"
        | "building" => 33,
        "hibernated" | "paused" | "exited" => 34,
        "failed" | "failing" | "dead" | "killed" => 31,
        "deleted" | "off" | "not listening" => 90,
        _ => return word.to_owned(),
    };
    format!("\u{1b}[{colour}m{word}\u{1b}[0m")
}
