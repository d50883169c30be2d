//! `pandastack template delete`

use std::process::ExitCode;

use clap_complete::ArgValueCompleter;

use crate::{GlobalArgs, complete, connect::connect, find::FoundKind, many::DeleteFormat};

/// Arguments of `template delete`.
#[derive(Debug, clap::Args)]
pub struct DeleteTemplateArgs {
    /// Templates: names, or unique starts of them
    #[arg(required = true, value_name = "NAME", add = ArgValueCompleter::new(complete::templates))]
    names: Vec<String>,
    #[command(flatten)]
    form: DeleteFormat,
}

/// Deletes each template. A failure does not stop the others.
pub async fn delete(args: DeleteTemplateArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let delete = async |name: &str| {
        let delete = async |name: &str| client.delete_template(name).await.map(|()| name.to_owned());
        FoundKind::Template.call(&client, name, delete).await
    };
    args.form.each(global, args.names, delete).await
}
