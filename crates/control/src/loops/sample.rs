//! Measures all machines at a fixed interval.

use std::collections::HashMap;

use pandastack_model::SandboxState;

use crate::{Control, limits::SAMPLE_EVERY, series::SandboxSample};

/// Takes samples until shutdown.
pub async fn sample(control: Control) {
    let token = control.scope.token();
    loop {
        tokio::select! {
            () = tokio::time::sleep(SAMPLE_EVERY) => {}
            () = token.cancelled() => return,
        }
        control.sample().await;
    }
}

impl Control {
    /// Takes one sample of all sandboxes.
    pub async fn sample(&self) {
        let mut usages: HashMap<_, _> = self.host.usages().await.into_iter().map(|usage| (usage.id, usage)).collect();
        let population = match self.store.sandbox_states().await {
            Ok(population) => population,
            Err(error) => {
                tracing::warn!(%error, "could not take a metrics sample");
                return;
            }
        };
        let sampled = population.into_iter().map(|(id, workspace, state)| SandboxSample {
            id,
            workspace,
            running: state == SandboxState::Running,
            usage: usages.remove(&id),
        });
        self.usage.series.sample(&sampled.collect::<Vec<_>>(), self.clock.now_ns());
    }
}
