//! `pandastack org …`

mod create;
mod delete;
mod get;
mod leave;
mod list;
pub mod pick;
mod rename;
mod transfer;
mod use_org;

use std::process::ExitCode;

use crate::GlobalArgs;

/// Commands for organisations. ORG is an id, a slug, or a name that only one of them has.
#[derive(Debug, clap::Subcommand)]
pub enum OrgCommand {
    /// List your organisations
    #[command(alias = "ls")]
    List(list::ListOrgsArgs),
    /// Show an organisation
    Get(get::GetOrgArgs),
    /// Create an organisation
    Create(create::CreateOrgArgs),
    /// Choose the organisation that later commands act in, in every client that you are logged in
    /// with
    Use(use_org::UseOrgArgs),
    /// Rename an organisation; its slug stays
    Rename(rename::RenameOrgArgs),
    /// Delete an organisation with everything that it owns
    #[command(alias = "rm")]
    Delete(delete::DeleteOrgArgs),
    /// Leave an organisation
    Leave(leave::LeaveOrgArgs),
    /// Make another member the owner, and yourself an admin
    Transfer(transfer::TransferOrgArgs),
}

/// Runs one of these commands.
pub async fn execute(command: OrgCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        OrgCommand::List(args) => list::list(args, global).await,
        OrgCommand::Get(args) => get::get(args, global).await,
        OrgCommand::Create(args) => create::create(args, global).await,
        OrgCommand::Use(args) => use_org::use_org(args, global).await,
        OrgCommand::Rename(args) => rename::rename(args, global).await,
        OrgCommand::Delete(args) => delete::delete(args, global).await,
        OrgCommand::Leave(args) => leave::leave(args, global).await,
        OrgCommand::Transfer(args) => transfer::transfer(args, global).await,
    }
}
