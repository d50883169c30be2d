//! Which layers may go: those that no machine runs on, nobody sleeps in, no owner keeps and nobody
//! has in hand.

use std::sync::Arc;

use pandastack_layers::Layer;
use pandastack_model::LayerId;

use super::prepare::HostContext;

impl HostContext {
    /// Protects a layer that is being made or about to be started from.
    pub fn protect_layer(&self, layer: LayerId) {
        self.protected_layers.lock().expect("no holder panics").insert(layer);
    }

    /// Tells whether a layer is still protected.
    pub fn is_protected(&self, layer: LayerId) -> bool {
        self.protected_layers.lock().expect("no holder panics").contains(&layer)
    }

    /// Tells what a start from a layer is: of a fork if its maker still has it in hand, else of a
    /// snapshot.
    pub fn mode_of(&self, layer: LayerId) -> &'static str {
        if self.protected_layers.lock().expect("no holder panics").contains(&layer) { "fork" } else { "snapshot" }
    }

    /// Ends that protection of a layer that somebody uses now, or that is looked at in a moment.
    pub fn unprotect_layer(&self, layer: LayerId) {
        self.protected_layers.lock().expect("no holder panics").remove(&layer);
    }

    /// Ends that protection, and removes what nobody uses then.
    pub async fn release_layer(self: &Arc<Self>, layer: LayerId) {
        self.unprotect_layer(layer);
        self.collect_layers().await;
    }

    /// Removes every layer that nobody uses. What cannot be removed now is found by the next audit.
    pub async fn collect_layers(self: &Arc<Self>) {
        // Who begins to use a layer does so before this look or finds it gone.
        let _gate = self.layer_gate.lock().await;
        let unused = match self.ledger.unused_layers().await {
            Ok(unused) => unused,
            Err(error) => {
                tracing::error!(%error, "unused layers not found");
                return;
            }
        };
        for layer in unused {
            if self.is_protected(layer) {
                continue;
            }
            // Asked again, and after that: whoever had it in hand during the first look has written
            // down by now who uses it.
            match self.ledger.is_unused(layer).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::error!(%layer, %error, "not known whether a layer is unused; it stays");
                    continue;
                }
            }
            let store = self.layers.clone();
            let removed = self.scope.block("remove layer", move || store.remove(layer)).await;
            match removed {
                Ok(Ok(())) => {
                    if let Err(error) = self.ledger.layer_gone(layer).await {
                        tracing::error!(%layer, %error, "a removed layer is still recorded");
                    }
                }
                Ok(Err(error)) => tracing::error!(%layer, %error, "layer not removed"),
                Err(error) => tracing::error!(%layer, %error, "layer not removed"),
            }
        }
    }

    /// Writes a fresh layer out to disk in the background, so that the next clone of it does not
    /// have to.
    pub fn flush_later(&self, layer: Layer) {
        let scope = self.scope.clone();
        self.scope.start("flush layer", async move {
            // A layer that was removed meanwhile needs no flush.
            let _ = scope.block("flush layer", move || layer.flush()).await;
        });
    }
}
