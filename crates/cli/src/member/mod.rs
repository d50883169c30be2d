//! `pandastack member …`

mod accept;
mod invite;
mod invites;
mod list;
mod remove;
mod role;
mod withdraw;

use std::process::ExitCode;

use crate::GlobalArgs;

/// Commands for the members of the current organisation, or of the one that `--org` names.
#[derive(Debug, clap::Subcommand)]
pub enum MemberCommand {
    /// List members
    #[command(alias = "ls")]
    List(list::ListMembersArgs),
    /// Invite somebody, and print the link
    Invite(invite::InviteArgs),
    /// Change the role of a member
    Role(role::RoleArgs),
    /// Remove members
    #[command(aliases = ["delete", "rm"])]
    Remove(remove::RemoveMemberArgs),
    /// List invites that are not accepted yet, newest first
    Invites(invites::ListInvitesArgs),
    /// Withdraw invites: their links stop working
    Withdraw(withdraw::WithdrawArgs),
    /// Accept an invite to another organisation
    Accept(accept::AcceptArgs),
}

/// Runs one of these commands.
pub async fn execute(command: MemberCommand, global: &GlobalArgs) -> anyhow::Result<ExitCode> {
    match command {
        MemberCommand::List(args) => list::list(args, global).await,
        MemberCommand::Invite(args) => invite::invite(args, global).await,
        MemberCommand::Role(args) => role::role(args, global).await,
        MemberCommand::Remove(args) => remove::remove(args, global).await,
        MemberCommand::Invites(args) => invites::invites(args, global).await,
        MemberCommand::Withdraw(args) => withdraw::withdraw(args, global).await,
        MemberCommand::Accept(args) => accept::accept(args, global).await,
    }
}
