//! `pandastack host audit`

use std::process::ExitCode;

use pandastack_client::wire::Audit;

use crate::{GlobalArgs, advice::advise, connect::connect, output, spinner::Spinner};

/// Prints the counts and every leak. Fails if there is a leak, repaired or not.
pub async fn audit(global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    let client = connect(global)?;
    let spinner = Spinner::start("auditing");
    let audit = client.audit().await.map_err(advise)?;
    drop(spinner);
    if global.is_structured() {
        global.print(&audit)?
    } else {
        output::line(report(&audit).trim_end())?
    }
    Ok(if audit.leaks.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(audit: &Audit) -> String {
    let Audit { machines, slots, disks, layers, volumes, leaks, repaired } = audit;
    let mut text = format!(
        "accounted for: {machines} machines, {slots} network slots, {disks} disks, {layers} layers, {volumes} volumes\n"
    );
    if leaks.is_empty() {
        text.push_str("no leaks\n");
    }
    for leak in leaks {
        let removed = if repaired.contains(leak) { " (removed)" } else { "" };
        text.push_str(&format!("leak: {leak}{removed}\n"));
    }
    // A repair whose text differs from its leak gets its own line.
    for other in repaired.iter().filter(|other| !leaks.contains(other)) {
        text.push_str(&format!("removed: {other}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leak_is_named() {
        let mut audit = Audit { machines: 2, slots: 2, disks: 3, layers: 4, volumes: 1, ..Audit::default() };
        assert!(report(&audit).ends_with("4 layers, 1 volumes\nno leaks\n"));
        audit.leaks = vec!["tap x".into(), "disk y".into()];
        audit.repaired = vec!["disk y".into()];
        assert!(report(&audit).ends_with("leak: tap x\nleak: disk y (removed)\n"));
    }
}
