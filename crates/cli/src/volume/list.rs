//! `pandastack volume list`

use std::process::ExitCode;

use pandastack_client::wire::Volume;

use crate::{GlobalArgs, advice::advise, connect::connect, output};

/// Arguments of `volume list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Print as JSON
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only names
    #[arg(long, short)]
    quiet: bool,
}

/// Lists volumes.
pub async fn list(args: ListArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let volumes = connect(global)?.volumes().await.map_err(advise)?;
    if args.json {
        output::json(&volumes)?;
    } else if args.quiet {
        for volume in &volumes {
            output::line(&volume.name)?;
        }
    } else if volumes.is_empty() {
        eprintln!("no volumes; make one with: pandastack volume create NAME");
    } else {
        let rows: Vec<_> = volumes.iter().map(row).collect();
        output::table(&["NAME", "SIZE", "USED BY", "CREATED"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(volume: &Volume) -> Vec<String> {
    let users = match volume.attached_to.len() {
        0 => "nobody".to_owned(),
        1 => "1 sandbox".to_owned(),
        more => format!("{more} sandboxes"),
    };
    vec![volume.name.clone(), format!("{} MiB", volume.size_mb), users, volume.created_at.clone()]
}
