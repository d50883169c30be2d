//! One round of measured steps, and the sandboxes that it leaves.

use std::time::{Duration, Instant};

use anyhow::Context;
use pandastack_client::{
    Client,
    wire::{CreateSandbox, ExecRequest, ForkRequest},
};

use super::{delete, figures::BenchStep};
use crate::{advice::advise, interrupt::StopSignals, output, sandbox::made};

/// The sandbox of a round, and everything that is to be deleted.
pub struct BenchRound<'a> {
    client: &'a Client,
    template: &'a str,
    ids: Vec<String>,
}

impl<'a> BenchRound<'a> {
    /// Nothing is made yet.
    pub fn new(client: &'a Client, template: &'a str) -> Self {
        Self { client, template, ids: Vec::new() }
    }

    /// Does one step and returns how long it took. Steps are in order, and `Create` is first.
    pub async fn measure(&mut self, step: BenchStep) -> anyhow::Result<Duration> {
        let began = Instant::now();
        match step {
            BenchStep::Create => {
                let ask = CreateSandbox { template: Some(self.template.to_owned()), ..CreateSandbox::default() };
                self.ids.push(made(self.client, &ask).await.context("create a sandbox")?.id);
            }
            BenchStep::Exec => {
                let ask = ExecRequest { argv: Some(vec!["true".to_owned()]), ..ExecRequest::default() };
                self.client.exec(self.id()?, &ask).await.map_err(advise).context("run a command")?;
            }
            BenchStep::Fork => {
                let fork = self.client.fork(self.id()?, &ForkRequest::default()).await;
                let children = fork.map_err(advise).context("fork")?.children;
                let took = began.elapsed();
                // Not measured: another step measures a delete.
                for child in children {
                    delete(self.client, &child.id).await;
                }
                return Ok(took);
            }
            BenchStep::Hibernate => {
                self.client.hibernate(self.id()?).await.map_err(advise).context("hibernate")?;
            }
            BenchStep::Wake => {
                self.client.wake(self.id()?).await.map_err(advise).context("wake")?;
            }
            BenchStep::Delete => {
                self.client.delete(self.id()?).await.map_err(advise).context("delete")?;
                self.ids.pop();
            }
        }
        Ok(began.elapsed())
    }

    /// Deletes what is left. A second Ctrl-C gives up and says what stays.
    pub async fn clean(self, interrupt: &mut StopSignals) {
        for id in &self.ids {
            tokio::select! {
                () = delete(self.client, id) => {}
                () = interrupt.recv() => {
                    output::warn(&format!("sandbox {id} is left; delete it with: pandastack sandbox delete {id}"));
                }
            }
        }
    }

    fn id(&self) -> anyhow::Result<&str> {
        self.ids.last().map(String::as_str).context("there is no sandbox")
    }
}
