//! Opens pages in the user's browser.

use std::process::Stdio;

/// Tries to open a page. Returns whether a browser was asked.
pub fn open(url: &str) -> bool {
    let (program, has_screen) = if cfg!(target_os = "macos") {
        ("open", true)
    } else {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        ("xdg-open", is_set("DISPLAY") || is_set("WAYLAND_DISPLAY"))
    };
    let mut command = tokio::process::Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    has_screen && command.spawn().is_ok()
}
