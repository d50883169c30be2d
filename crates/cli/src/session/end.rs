//! `pandastack session end`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, connect::connect_person, many::DeleteFormat};

/// Arguments of `session end`.
#[derive(Debug, clap::Args)]
pub struct EndSessionArgs {
    /// Ids, as "pandastack session list" shows them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Ends each session. A failure does not stop the others.
pub async fn end(args: EndSessionArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect_person(global)?;
    let end = async |id: &str| {
        client.end_session(id).await.map_err(advise)?;
        Ok(id.to_owned())
    };
    args.form.each_as("ended", global, args.ids, end).await
}
