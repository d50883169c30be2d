//! Forks a sandbox: one seal, then as many creates from that layer as there are children, a few at
//! a time. What becomes of each child is its own affair: one that fails leaves nothing and hinders
//! no sibling.

use futures_util::{StreamExt, stream};
use pandastack_model::{Fault, Origin, SandboxSpec};
use pandastack_wire_fleet::{Ensure, ForkAsk, Forked, Hold, HostPort, SealAsk};

use crate::Host;

/// Carries a fork out.
pub async fn fork(host: &Host, ask: ForkAsk) -> Result<Forked, Fault> {
    let ForkAsk { parent, layer, children } = ask;
    // What the parent reads its children read as well; a parent that writes a volume is refused by
    // the seal. Asked first: from the seal on the layer is in our hands, and the parent may be
    // gone.
    let volumes = host.context.volumes.mounts(parent).await?;
    let view = host.seal(parent, SealAsk { layer, hold: Hold::Passing }).await?;
    let parallel = host.context.settings.fork_parallel.max(1);
    let born = stream::iter(children).map(|child| {
        let Ensure { id, generation, spec } = child;
        let spec = SandboxSpec { origin: Origin::Layer(layer), volumes: volumes.clone(), ..spec };
        host.ensure(Ensure { id, generation, spec })
    });
    let children = born.buffered(parallel).collect().await;
    // The children that live keep the layer from now on. An owner who keeps it too has not given it
    // up by this.
    host.context.release_layer(layer).await;
    Ok(Forked { layer: view, children })
}
