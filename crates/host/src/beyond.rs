//! Implements the host's ports for processes that outlive their requests and for whole folders.
//! Every verb finds the sandbox, wakes it if it sleeps, and asks its guest.

use async_trait::async_trait;
use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::{
    AttachParams, ByteStream, ExistingTarget, FileChangeStream, PathScope, ProcessNumber, ProcessOutputStream,
    ProcessPort, ProcessView, SpawnParams, StdinAfterWrite, TreePort, UnpackSummary, WalkParams, WalkResult,
};

use crate::{
    Host,
    guest::{process, tree},
};

#[async_trait]
impl ProcessPort for Host {
    async fn spawn(&self, id: SandboxId, ask: SpawnParams) -> Result<ProcessView, Fault> {
        let (session, _using) = self.session(id).await?;
        process::spawn(&session, ask).await
    }

    async fn processes(&self, id: SandboxId) -> Result<Vec<ProcessView>, Fault> {
        let (session, _using) = self.session(id).await?;
        process::list(&session).await
    }

    async fn process(&self, id: SandboxId, number: ProcessNumber) -> Result<ProcessView, Fault> {
        let (session, _using) = self.session(id).await?;
        process::describe(&session, number).await
    }

    async fn attach(&self, id: SandboxId, ask: AttachParams) -> Result<ProcessOutputStream, Fault> {
        let (session, _using) = self.session(id).await?;
        process::attach(&session, ask).await
    }

    async fn feed(
        &self,
        id: SandboxId,
        number: ProcessNumber,
        body: ByteStream,
        afterwards: StdinAfterWrite,
    ) -> Result<u64, Fault> {
        let (session, _using) = self.session(id).await?;
        process::feed(&session, number, body, afterwards).await
    }

    async fn signal(&self, id: SandboxId, number: ProcessNumber, signal: i32) -> Result<(), Fault> {
        let (session, _using) = self.session(id).await?;
        process::signal(&session, number, signal).await
    }

    async fn forget(&self, id: SandboxId, number: ProcessNumber) -> Result<(), Fault> {
        let (session, _using) = self.session(id).await?;
        process::forget(&session, number).await
    }
}

#[async_trait]
impl TreePort for Host {
    async fn make_dir(&self, id: SandboxId, path: &str, above: PathScope) -> Result<(), Fault> {
        let (session, _using) = self.session(id).await?;
        tree::make_dir(&session, path, above).await
    }

    async fn move_path(&self, id: SandboxId, from: &str, to: &str, in_the_way: ExistingTarget) -> Result<(), Fault> {
        let (session, _using) = self.session(id).await?;
        tree::move_path(&session, from, to, in_the_way).await
    }

    async fn chmod(&self, id: SandboxId, path: &str, mode: u32, below: PathScope) -> Result<(), Fault> {
        let (session, _using) = self.session(id).await?;
        tree::chmod(&session, path, mode, below).await
    }

    async fn walk(&self, id: SandboxId, ask: WalkParams) -> Result<WalkResult, Fault> {
        let (session, _using) = self.session(id).await?;
        tree::walk(&session, ask).await
    }

    async fn watch(&self, id: SandboxId, path: &str, below: PathScope) -> Result<FileChangeStream, Fault> {
        let (session, _using) = self.session(id).await?;
        tree::watch(&session, path, below).await
    }

    async fn read_tree(&self, id: SandboxId, path: &str) -> Result<ByteStream, Fault> {
        let (session, _using) = self.session(id).await?;
        tree::read_tree(&session, path).await
    }

    async fn write_tree(&self, id: SandboxId, path: &str, body: ByteStream) -> Result<UnpackSummary, Fault> {
        let (session, _using) = self.session(id).await?;
        tree::write_tree(&session, path, body).await
    }
}
