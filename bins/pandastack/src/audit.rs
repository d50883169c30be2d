//! `pandastack admin audit`: checks the audit trail in the server's database.

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use pandastack_control::{AuditChains, ChainReport, DefectKind};
use pandastack_kit::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::{admin::FolderArgs, key::offline_database};

#[derive(Subcommand)]
pub enum AuditAdminArgs {
    /// Find entries that were changed, removed or inserted; exit code 1 if there are any
    Verify(VerifyArgs),
}

#[derive(Args)]
pub struct VerifyArgs {
    /// Check only this workspace
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<String>,
    #[command(flatten)]
    folder: FolderArgs,
}

impl AuditAdminArgs {
    pub async fn run(self) -> Result<ExitCode> {
        let AuditAdminArgs::Verify(VerifyArgs { workspace, folder }) = self;
        let database = offline_database(&folder.data_dir)?;
        let chains = AuditChains::open(&database, SystemClock.now_ns()).await.context("open the audit trail")?;
        let reports = verify(&chains, workspace).await;
        chains.close().await;
        let reports = reports.context("check the audit trail")?;
        if folder.json {
            println!("{}", json!(reports.iter().map(shown).collect::<Vec<_>>()));
        } else {
            reports.iter().for_each(print);
        }
        let is_intact = reports.iter().all(|report| report.defects_found == 0);
        Ok(if is_intact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

async fn verify(chains: &AuditChains, workspace: Option<String>) -> Result<Vec<ChainReport>> {
    let mut workspaces = chains.workspaces().await?;
    if let Some(workspace) = workspace {
        // Nothing at all may mean that somebody removed everything.
        ensure!(workspaces.contains(&workspace), "there is no audit trail of a workspace {workspace}");
        workspaces = vec![workspace];
    }
    let mut reports = Vec::new();
    for workspace in workspaces {
        reports.push(chains.verify(&workspace).await?);
    }
    Ok(reports)
}

fn print(report: &ChainReport) {
    let ChainReport { workspace, rows, unnumbered, head, anchor, defects_found, defects } = report;
    let verdict = if *defects_found == 0 { "intact".to_owned() } else { format!("defects found: {defects_found}") };
    println!("{}: {verdict}; {rows} entries, the newest is {} {}", workspace.0, head.number, head.hash);
    if anchor.number > 0 {
        println!("  entries up to {} were removed because of their age or number", anchor.number);
    }
    if *unnumbered > 0 {
        println!("  {unnumbered} entries of earlier versions have no hash and cannot be checked");
    }
    for defect in defects {
        println!("  {}: {}", word(defect.kind), defect.text);
    }
    if *defects_found > defects.len() as u64 {
        println!("  and {} more", defects_found - defects.len() as u64);
    }
}

fn shown(report: &ChainReport) -> Value {
    let defects: Vec<_> = report
        .defects
        .iter()
        .map(|defect| json!({ "kind": word(defect.kind), "number": defect.number, "text": defect.text }))
        .collect();
    json!({
        "workspace": report.workspace.0,
        "entries": report.rows,
        "unnumbered": report.unnumbered,
        "head": { "number": report.head.number, "hash": report.head.hash },
        "anchor": { "number": report.anchor.number, "hash": report.anchor.hash },
        "defects_found": report.defects_found,
        "defects": defects,
    })
}

fn word(kind: DefectKind) -> &'static str {
    match kind {
        DefectKind::Changed => "changed",
        DefectKind::Removed => "removed",
        DefectKind::Inserted => "inserted",
        DefectKind::CutTail => "cut tail",
    }
}
