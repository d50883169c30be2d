//! The address of the dashboard, and the link that logs its operator in once.

use std::path::Path;

use anyhow::{Context, Result};
use pandastack_kit::{Secret, replace_private};
use pandastack_web::Dashboard;

use super::listener::ApiListener;

/// File in the data folder with the link, if there is no terminal.
const LINK_FILE: &str = "sign-in-link";

/// Describes the dashboard. The link is a secret: it is printed only to a terminal, never to a
/// journal or a log file.
pub fn dashboard_lines(
    doorway: &ApiListener,
    link: Option<Secret<String>>,
    is_terminal: bool,
    data_dir: &Path,
) -> Result<Vec<String>> {
    if !Dashboard::is_built() {
        return Ok(vec!["  dashboard  not part of this program; build it with: make build".to_owned()]);
    }
    let base = match &doorway.public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => doorway.url()?,
    };
    let kept = data_dir.join(LINK_FILE);
    if let Some(link) = link.as_ref().filter(|_| !is_terminal) {
        replace_private(&kept, format!("{}\n", link_address(&base, link)).as_bytes())
            .context("store the sign-in link")?;
    }
    Ok(lines(&base, link.as_ref(), is_terminal, &kept))
}

fn lines(base: &str, link: Option<&Secret<String>>, is_terminal: bool, kept: &Path) -> Vec<String> {
    let mut lines = vec![format!("  dashboard  {base}/")];
    lines.extend(link.map(|link| match is_terminal {
        true => format!("  sign in    {} (once, within 15 minutes)", link_address(base, link)),
        false => format!("  sign in    once with the link in {}, within 15 minutes", kept.display()),
    }));
    lines
}

/// The secret is behind the `#`, so that no server or proxy logs it.
fn link_address(base: &str, link: &Secret<String>) -> String {
    format!("{base}/welcome#{}", link.reveal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_printed_to_a_person_and_to_nobody_else() {
        let (link, kept) = (Secret::new("psl_secret".to_owned()), Path::new("/data/sign-in-link"));
        let shown = lines("http://box", Some(&link), true, kept).join("\n");
        assert!(shown.contains("http://box/welcome#psl_secret"), "{shown}");
        let logged = lines("http://box", Some(&link), false, kept).join("\n");
        assert!(!logged.contains("psl_") && logged.contains("/data/sign-in-link"), "{logged}");
        assert_eq!(lines("http://box", None, true, kept), ["  dashboard  http://box/"]);
    }
}
