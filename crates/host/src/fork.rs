//! Forks a sandbox: one seal, then one create from that layer for each child, a few at a time. A
//! child that fails leaves nothing behind and does not affect its siblings.

use futures_util::{StreamExt, stream};
use pandastack_model::{Fault, LayerId, SandboxOrigin, SandboxSpec};
use pandastack_wire_fleet::{EnsureParams, ForkOutcome, ForkParams, HostPort, LayerHold, SealParams};

use crate::Host;

/// Seals the parent and creates the children.
pub async fn fork(host: &Host, ask: ForkParams) -> Result<ForkOutcome, Fault> {
    let ForkParams { parent, layer, children } = ask;
    let has_volumes = children.iter().any(|child| !child.spec.volumes.is_empty());
    let view = host.seal(parent, SealParams { layer, hold: LayerHold::Passing }).await?;
    let parallel = host.context.settings.fork_parallel.max(1);
    let born = stream::iter(children).map(|child| {
        let EnsureParams { id, generation, spec } = child;
        let spec = SandboxSpec { origin: SandboxOrigin::Layer(layer), ..spec };
        host.ensure(EnsureParams { id, generation, spec })
    });
    let children = born.buffered(parallel).collect().await;
    if has_volumes {
        discard_images(host, layer).await;
    }
    // From now on the living children keep the layer. Its owner may keep it as well.
    host.context.release_layer(layer).await;
    Ok(ForkOutcome { layer: view, children })
}

/// Removes the images of volumes from the layer of a fork, whose children have clones. An owner
/// that keeps the layer needs them.
async fn discard_images(host: &Host, layer: LayerId) {
    let row = host.context.ledger.layer(layer).await;
    if !matches!(row, Ok(Some(row)) if row.hold == LayerHold::Passing) {
        return;
    }
    if let Err(error) = host.context.layers.discard_volume_images(layer) {
        tracing::warn!(%layer, %error, "could not remove the images of volumes from a layer");
    }
}
