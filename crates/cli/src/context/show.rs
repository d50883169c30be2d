//! `pandastack context show`

use std::process::ExitCode;

use super::list::described;
use crate::{GlobalArgs, account::saved, exit::ExitReason, output};

/// Shows the context that commands use.
pub fn show(global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let saved = saved()?;
    let wanted = global.chosen_context().unwrap_or(saved.context()).to_owned();
    let Some(context) = saved.contexts().into_iter().find(|context| context.name == wanted) else {
        let text = format!("no context {wanted:?}; add one with: pandastack context add NAME URL");
        return Err(ExitReason::NotFound.error(text));
    };
    if global.is_structured() {
        global.print(&described(&context))?;
    } else {
        let row = |name: &str, value: &str| vec![name.to_owned(), value.to_owned()];
        output::table(&["name", &context.name], &[row("server", &context.url), row("credential", context.credential)])?;
    }
    for variable in ["PANDASTACK_API_URL", "PANDASTACK_API", "PANDASTACK_API_KEY"] {
        if global.chosen_context().is_none() && std::env::var_os(variable).is_some_and(|value| !value.is_empty()) {
            output::warn(&format!("{variable} is set and is used instead of this context; unset it"));
        }
    }
    Ok(ExitCode::SUCCESS)
}
