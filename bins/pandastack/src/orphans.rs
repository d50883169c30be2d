//! `pandastack admin orphans`: what the host has and the server's database never knew. Requests are
//! rows in the database; the server that has the host carries them out.

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use pandastack_client::wire::rfc3339;
use pandastack_control::{OrphanCounts, OrphanFault, OrphanView, Orphans};
use pandastack_kit::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::{admin::FolderArgs, data_folder::DEFAULT_DATA_DIR, key::offline_database};

/// How long a command waits for the server to carry a request out, and how often it looks.
const WAIT_MAX: Duration = Duration::from_secs(180);
const WAIT_POLL: Duration = Duration::from_millis(200);

#[derive(Subcommand)]
pub enum AdminOrphansCommand {
    /// List what was put aside, and until when it is kept
    List(FolderArgs),
    /// Give something that was put aside to a workspace; it works from then on
    ///
    /// A sandbox takes along the volumes that it uses. A database gets a new password.
    Adopt(AdoptArgs),
    /// Remove something that was put aside now, with its data
    Delete(DeleteOrphanArgs),
}

#[derive(Args)]
pub struct AdoptArgs {
    /// Id, as listed
    id: String,
    /// The workspace that gets it, which is the slug of its organisation
    #[arg(long, value_name = "WORKSPACE")]
    workspace: String,
    /// Name of a volume in the workspace. The default is made from its id
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    folder: FolderArgs,
}

#[derive(Args)]
pub struct DeleteOrphanArgs {
    /// Id, as listed
    id: String,
    #[command(flatten)]
    folder: FolderArgs,
}

/// How a request ended.
enum RequestEnd {
    Done,
    Refused(String),
    /// The server has not done it yet; it may not run.
    Pending {
        has_server: bool,
    },
}

impl AdminOrphansCommand {
    pub async fn run(self) -> Result<ExitCode> {
        match self {
            AdminOrphansCommand::List(folder) => list(&folder).await,
            AdminOrphansCommand::Adopt(args) => {
                let orphans = open(&args.folder).await?;
                let asked = orphans.adopt(&args.id, &args.workspace, args.name.as_deref()).await;
                let done = format!("{} is in workspace {} now", args.id, args.workspace);
                finish(orphans, asked, &args.folder, done).await
            }
            AdminOrphansCommand::Delete(args) => {
                let orphans = open(&args.folder).await?;
                let asked = orphans.delete(&args.id).await;
                let done = format!("{} is removed", args.id);
                finish(orphans, asked, &args.folder, done).await
            }
        }
    }
}

async fn open(folder: &FolderArgs) -> Result<Orphans> {
    let database = offline_database(&folder.data_dir)?;
    Orphans::open(&database, SystemClock.now_ns()).await.context("open what was put aside")
}

async fn list(folder: &FolderArgs) -> Result<ExitCode> {
    let orphans = open(folder).await?;
    let found = orphans.list().await;
    orphans.close().await;
    let found = found.context("list what was put aside")?;
    if folder.json {
        println!("{}", json!(found.iter().map(shown).collect::<Vec<_>>()));
        return Ok(ExitCode::SUCCESS);
    }
    if found.is_empty() {
        println!("nothing was put aside");
    }
    for orphan in &found {
        println!("{}", line(orphan));
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits until the server has carried the request out, and says how that ended.
async fn finish(
    orphans: Orphans,
    asked: Result<OrphanView, OrphanFault>,
    folder: &FolderArgs,
    done: String,
) -> Result<ExitCode> {
    let end = match asked {
        Ok(orphan) => wait(&orphans, &orphan.id).await,
        Err(fault) => Err(fault.into()),
    };
    orphans.close().await;
    let (text, word, code) = match end? {
        RequestEnd::Done => (done, "yes", ExitCode::SUCCESS),
        RequestEnd::Refused(why) => anyhow::bail!(why),
        RequestEnd::Pending { has_server: false } => {
            ("no server with a host runs; the next one does it at its start".to_owned(), "at the next start", {
                ExitCode::SUCCESS
            })
        }
        RequestEnd::Pending { has_server: true } => (
            "the server has not finished; see \"pandastack admin orphans list\"".to_owned(),
            "not yet",
            ExitCode::FAILURE,
        ),
    };
    match folder.json {
        true => println!("{}", json!({ "done": word, "text": text })),
        false => println!("{text}"),
    }
    Ok(code)
}

async fn wait(orphans: &Orphans, id: &str) -> Result<RequestEnd> {
    let deadline = tokio::time::Instant::now() + WAIT_MAX;
    loop {
        match orphans.find(id).await? {
            None => return Ok(RequestEnd::Done),
            Some(orphan) if orphan.waits => {
                return Ok(RequestEnd::Refused(orphan.error.unwrap_or_else(|| "it was not carried out".to_owned())));
            }
            Some(_) => {}
        }
        let has_server = orphans.has_server(SystemClock.now_ns()).await?;
        if !has_server || tokio::time::Instant::now() > deadline {
            return Ok(RequestEnd::Pending { has_server });
        }
        tokio::time::sleep(WAIT_POLL).await;
    }
}

/// Line that the server prints at its start if something was put aside.
pub fn orphans_line(counts: &OrphanCounts, data_dir: &Path) -> Option<String> {
    let OrphanCounts { sandboxes, databases, volumes } = *counts;
    let counted =
        [(sandboxes, "sandbox", "sandboxes"), (databases, "database", "databases"), (volumes, "volume", "volumes")];
    let counted = counted.into_iter().filter(|(count, ..)| *count > 0);
    let words: Vec<String> =
        counted.map(|(count, one, more)| format!("{count} {}", if count == 1 { one } else { more })).collect();
    let folder = match data_dir == Path::new(DEFAULT_DATA_DIR) {
        true => String::new(),
        false => format!(" --data-dir {}", data_dir.display()),
    };
    (!words.is_empty()).then(|| {
        format!(
            "put aside, because the database does not know them: {}; they are removed after 7 days. Look at them with: \
             pandastack admin orphans list{folder}",
            words.join(", ")
        )
    })
}

fn line(orphan: &OrphanView) -> String {
    let OrphanView { id, kind, state, host_state, template, workspace, .. } = orphan;
    let mut facts = vec![host_state.clone()];
    facts.extend(template.clone());
    facts.extend((orphan.cpus > 0).then(|| format!("{} CPU, {} MiB", orphan.cpus, orphan.memory_mib)));
    facts.push(format!("disk {} MiB", orphan.disk_mib));
    facts.extend(workspace.as_ref().map(|workspace| format!("of workspace {workspace}")));
    facts.extend(orphan.of_sandbox.as_ref().map(|sandbox| format!("of database {sandbox}")));
    facts.extend(orphan.since_ns.map(|since| format!("since {}", rfc3339(since))));
    facts.extend(orphan.error.as_ref().map(|error| format!("last request failed: {error}")));
    let until = match *state {
        "found" | "kept" => format!("kept until {}", rfc3339(orphan.expires_at_ns)),
        other => other.to_owned(),
    };
    format!("{id}  {kind}  {until}  {}", facts.join(", "))
}

fn shown(orphan: &OrphanView) -> Value {
    json!({
        "id": orphan.id,
        "kind": orphan.kind,
        "state": orphan.state,
        "error": orphan.error,
        "backup": orphan.backup,
        "put_aside_at": rfc3339(orphan.put_aside_at_ns),
        "expires_at": rfc3339(orphan.expires_at_ns),
        "host_state": orphan.host_state,
        "template": orphan.template,
        "workspace": orphan.workspace,
        "of_database": orphan.of_sandbox,
        "since": orphan.since_ns.map(rfc3339),
        "cpus": orphan.cpus,
        "memory_mib": orphan.memory_mib,
        "disk_mib": orphan.disk_mib,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_tells_what_was_put_aside() {
        let line = |counts, folder: &str| orphans_line(&counts, Path::new(folder));
        assert_eq!(line(OrphanCounts::default(), "/srv"), None);
        let counts = OrphanCounts { sandboxes: 2, databases: 0, volumes: 1 };
        let said = line(counts, "/srv/panda").unwrap();
        assert!(said.contains("them: 2 sandboxes, 1 volume;"), "{said}");
        assert!(said.ends_with("pandastack admin orphans list --data-dir /srv/panda"), "{said}");
        assert!(line(counts, DEFAULT_DATA_DIR).unwrap().ends_with("orphans list"));
    }
}
