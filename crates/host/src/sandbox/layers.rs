//! Decides which layers may be removed: those that no machine runs on, no sandbox sleeps in, no
//! owner keeps and no operation protects.

use std::sync::Arc;

use pandastack_layers::Layer;
use pandastack_model::LayerId;

use super::prepare::HostContext;

impl HostContext {
    /// Protects a layer that is being made or is about to be used.
    pub fn protect_layer(&self, layer: LayerId) {
        self.protected_layers.lock().expect("no holder panics").insert(layer);
    }

    /// Whether a layer is still protected.
    pub fn is_protected(&self, layer: LayerId) -> bool {
        self.protected_layers.lock().expect("no holder panics").contains(&layer)
    }

    /// Boot mode of a start from a layer: fork while the layer is protected, else snapshot.
    pub fn mode_of(&self, layer: LayerId) -> &'static str {
        if self.protected_layers.lock().expect("no holder panics").contains(&layer) { "fork" } else { "snapshot" }
    }

    /// Ends the protection of a layer that is in use now, or that the caller collects next.
    pub fn unprotect_layer(&self, layer: LayerId) {
        self.protected_layers.lock().expect("no holder panics").remove(&layer);
    }

    /// Ends the protection of a layer, and removes all unused layers.
    pub async fn release_layer(self: &Arc<Self>, layer: LayerId) {
        self.unprotect_layer(layer);
        self.collect_layers().await;
    }

    /// Removes every unused layer. The next collection tries the failed removals again.
    pub async fn collect_layers(self: &Arc<Self>) {
        // A layer that comes into use is registered before this check, or it is found deleted.
        let _gate = self.layer_gate.lock().await;
        let unused = match self.ledger.unused_layers().await {
            Ok(unused) => unused,
            Err(error) => {
                tracing::error!(%error, "could not look for unused layers");
                return;
            }
        };
        for layer in unused {
            if self.is_protected(layer) {
                continue;
            }
            // Checked again after the protection: an operation that protected the layer during the
            // first check has recorded its use by now.
            match self.ledger.is_unused(layer).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::error!(%layer, %error, "could not check whether a layer is unused; it is kept");
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
                Ok(Err(error)) => tracing::error!(%layer, %error, "could not remove a layer"),
                Err(error) => tracing::error!(%layer, %error, "could not remove a layer"),
            }
        }
    }

    /// Writes a new layer to disk in the background, so that the next clone of it need not wait.
    pub fn flush_later(&self, layer: Layer) {
        let scope = self.scope.clone();
        self.scope.start("flush layer", async move {
            // A layer that was removed meanwhile needs no flush.
            let _ = scope.block("flush layer", move || layer.flush()).await;
        });
    }
}
