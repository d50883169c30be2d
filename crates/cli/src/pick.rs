//! Arguments that name one thing of a server. Each knows how it is found and completed.

use clap_complete::ArgValueCompleter;
use pandastack_client::Client;

use crate::{GlobalArgs, complete, connect::connect, find::FoundKind};

/// The sandbox that a command is about.
#[derive(Clone, Debug, clap::Args)]
pub struct SandboxArg {
    /// Sandbox: its id, a unique start of it, or its name
    #[arg(value_name = "ID", add = ArgValueCompleter::new(complete::sandboxes))]
    id: String,
}

/// The snapshot that a command is about.
#[derive(Clone, Debug, clap::Args)]
pub struct SnapshotArg {
    /// Snapshot: its id, or a unique start of it
    #[arg(value_name = "ID", add = ArgValueCompleter::new(complete::snapshots))]
    id: String,
}

/// The webhook that a command is about.
#[derive(Clone, Debug, clap::Args)]
pub struct WebhookArg {
    /// Webhook: its id, a unique start of it, its URL or its description
    #[arg(value_name = "ID", add = ArgValueCompleter::new(complete::webhooks))]
    id: String,
}

/// The volume that a command is about.
#[derive(Clone, Debug, clap::Args)]
pub struct VolumeArg {
    /// Volume: its name, or a unique start of it
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(complete::volumes))]
    pub name: String,
}

/// The database that a command is about.
#[derive(Clone, Debug, clap::Args)]
pub struct DatabaseArg {
    /// Database: its id, a unique start of it, or its label
    #[arg(value_name = "ID", add = ArgValueCompleter::new(complete::databases))]
    id: String,
}

impl SandboxArg {
    /// Connects, and finds the id.
    pub async fn find(&self, global: &GlobalArgs) -> anyhow::Result<(Client, String)> {
        let client = connect(global)?;
        let id = FoundKind::Sandbox.find(&client, &self.id).await?;
        Ok((client, id))
    }
}

impl DatabaseArg {
    /// Connects, and finds the id.
    pub async fn find(&self, global: &GlobalArgs) -> anyhow::Result<(Client, String)> {
        let client = connect(global)?;
        let id = FoundKind::Database.find(&client, &self.id).await?;
        Ok((client, id))
    }
}

impl SnapshotArg {
    /// Connects, and finds the id.
    pub async fn find(&self, global: &GlobalArgs) -> anyhow::Result<(Client, String)> {
        let client = connect(global)?;
        let id = FoundKind::Snapshot.find(&client, &self.id).await?;
        Ok((client, id))
    }
}

impl WebhookArg {
    /// Connects, and finds the id.
    pub async fn find(&self, global: &GlobalArgs) -> anyhow::Result<(Client, String)> {
        let client = connect(global)?;
        let id = FoundKind::Webhook.find(&client, &self.id).await?;
        Ok((client, id))
    }
}
