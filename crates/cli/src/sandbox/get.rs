//! `pandastack sandbox get`

use std::process::ExitCode;

use crate::{GlobalArgs, advice::advise, output, pick::SandboxArg};

/// Arguments of `sandbox get`.
#[derive(Debug, clap::Args)]
pub struct GetSandboxArgs {
    #[command(flatten)]
    sandbox: SandboxArg,
}

/// Shows one sandbox.
pub async fn get(args: GetSandboxArgs, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let (client, id) = args.sandbox.find(global).await?;
    let sandbox = client.get(&id).await.map_err(advise)?;
    if global.is_structured() {
        global.print(&sandbox)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![
        vec!["template".to_owned(), sandbox.template],
        vec!["status".to_owned(), sandbox.status],
        vec!["cpu".to_owned(), sandbox.cpu.to_string()],
        vec!["memory".to_owned(), format!("{} MiB", sandbox.memory_mb)],
        vec!["isolation".to_owned(), sandbox.isolation],
        vec!["created".to_owned(), sandbox.created_at],
        vec!["boot".to_owned(), format!("{} ms, {}", sandbox.boot_ms, sandbox.boot_mode)],
        vec!["idle limit".to_owned(), format!("{} s", sandbox.ttl_seconds)],
        vec!["persistent".to_owned(), sandbox.persistent.to_string()],
    ];
    rows.extend(sandbox.isolation_warning.map(|warning| vec!["warning".to_owned(), warning]));
    rows.extend(sandbox.from_snapshot.map(|snapshot| vec!["snapshot".to_owned(), snapshot]));
    rows.extend(sandbox.egress_allowlist.map(|list| vec!["may reach".to_owned(), reachable(&list)]));
    rows.extend(sandbox.egress_mbps.map(|mbps| vec!["bandwidth".to_owned(), format!("{mbps} Mbit/s")]));
    for volume in sandbox.volumes {
        let access = if volume.read_only == Some(true) { "read only" } else { "read and write" };
        let path = volume.mount_path.unwrap_or_default();
        rows.push(vec![format!("volume {}", volume.name), format!("{path}, {access}")]);
    }
    rows.extend(sandbox.status_reason.map(|reason| vec!["reason".to_owned(), reason]));
    rows.extend(sandbox.metadata.into_iter().map(|(key, value)| vec![format!("metadata {key}"), value]));
    output::table(&["id", &sandbox.id], &rows)?;
    Ok(ExitCode::SUCCESS)
}

fn reachable(list: &[String]) -> String {
    if list.is_empty() { "nothing".to_owned() } else { list.join(", ") }
}
