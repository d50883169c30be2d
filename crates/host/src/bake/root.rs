//! Boots a root file system from a volume, and seals it as a layer. The volume was filled inside a
//! machine. Nothing in it is mounted, unpacked or run on this host.

use std::sync::Arc;

use pandastack_kit::{Scope, Undo, random_bytes};
use pandastack_layers::{FORMAT, LayerDraft, Manifest, StoredExecDefaults};
use pandastack_model::{Fault, FaultKind, LayerId, SandboxId};
use pandastack_sys::reflink::clone_or_copy;
use pandastack_vmm::{BootImage, Machine, MachineSpec};
use pandastack_wire_fleet::{BootParams, LayerView};
use pandastack_wire_guest::GENERATION;

use super::{
    NoProgress,
    template::{BakeError, ReadyGuest, WarmUp, get_ready},
};
use crate::{
    net::{GATEWAY, GUEST},
    sandbox::{HostContext, MachineShape, PrepareError, StartingMachine, hold_machine, prepare_fault},
};

/// Boots and seals. Runs to its end even if the call is dropped.
pub async fn boot(context: &Arc<HostContext>, ask: BootParams) -> Result<LayerView, Fault> {
    let (work, scope) = (context.clone(), context.scope.clone());
    scope.run("boot a root", async move { boot_to_the_end(&work, ask).await }).await.map_err(Fault::bug)?
}

async fn boot_to_the_end(context: &Arc<HostContext>, ask: BootParams) -> Result<LayerView, Fault> {
    let layer = ask.layer;
    if let Some(made) = made_before(context, layer).await? {
        return Ok(made);
    }
    context.protect_layer(layer);
    let made = async {
        // The ledger's row needs a sandbox id. No sandbox has this one.
        context.ledger.sealing(layer, SandboxId::random()).await?;
        let made = boot_and_seal(context, ask).await?;
        context.ledger.keep(layer).await?;
        Ok(made)
    };
    let made = made.await;
    context.release_layer(layer).await;
    made
}

/// Returns a view of the layer if an earlier request made it. The view reports no own bytes.
async fn made_before(context: &Arc<HostContext>, layer: LayerId) -> Result<Option<LayerView>, Fault> {
    let known = context.ledger.layer(layer).await?.is_some();
    let view = LayerView { layer, own: pandastack_model::ByteSize::new(0), pause: std::time::Duration::ZERO };
    Ok((known && context.layers.contains(layer)).then_some(view))
}

async fn boot_and_seal(context: &Arc<HostContext>, ask: BootParams) -> Result<LayerView, Fault> {
    let kit = context.layers.boot_kit();
    if !kit.kernel.is_file() || !kit.initramfs.is_file() {
        let text = "this server has no kernel to boot; bake a template first: pandastack template bake mini";
        return Err(Fault::new(FaultKind::Unavailable, "host.no_kernel", text));
    }
    let disk = context.volumes.size(ask.volume).await?;
    let mut undo = Undo::new();
    let promised = context.promise(ask.memory, &mut undo);
    let starting = promised.map_err(|full| prepare_fault(&PrepareError::Full(full)))?;
    let shape = MachineShape::new(ask.memory, ask.cpus, disk, context.driver.profile().runtime);
    let machine_slot = match context.machine_slot(&shape, None).await {
        Ok(machine_slot) => machine_slot,
        Err(error) => {
            undo.unwind().await;
            return Err(prepare_fault(&error));
        }
    };
    let (spec, mut held) = machine_slot.into_parts();
    held.absorb(undo);
    let made = in_berth(context, &ask, spec, starting, disk, kit, &mut held).await;
    held.unwind().await;
    made
}

async fn in_berth(
    context: &Arc<HostContext>,
    ask: &BootParams,
    spec: MachineSpec,
    starting: StartingMachine,
    disk: pandastack_model::ByteSize,
    kit: pandastack_layers::BootKit,
    held: &mut Undo,
) -> Result<LayerView, Fault> {
    let draft = draft(context, ask).await?;
    let files = draft.files();
    let secret = random_bytes::<32>();
    let secret_hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let cmdline =
        format!("pandastack.secret={secret_hex} pandastack.net={GUEST}/30,{GATEWAY} pandastack.root=/dev/vda");
    let run_dir = spec.run_dir.clone();
    let spec = MachineSpec { disk: files.disk.clone(), runtime: None, ..spec };
    let image = BootImage { kernel: kit.kernel, initramfs: kit.initramfs, cmdline, mem: files.mem.clone() };
    let id = spec.id;
    let machine: Arc<dyn Machine> = Arc::from(context.driver.boot(spec, image).await.map_err(Fault::bug)?);
    drop(starting);
    hold_machine(&machine, held);
    context.ledger.started(id, machine.pid()).await?;
    let ReadyGuest { boot, link } = until_stopped(&context.scope, async {
        let nothing = WarmUp { commands: &[], kernels: &[], progress: &NoProgress };
        get_ready(&context.scope, nothing, &*machine, &secret, &run_dir, &files.dev).await.map_err(boot_fault)
    })
    .await?;
    machine.stop().await;
    if !context.is_protected(ask.layer) {
        return Err(Fault::new(FaultKind::Conflict, "layer.given_up", "the layer was released before it was finished"));
    }
    let manifest = Manifest {
        format: FORMAT,
        layer: ask.layer,
        origin: format!("root in {}", ask.volume),
        parent: None,
        inputs: None,
        profile: context.driver.profile(),
        guest_generation: GENERATION,
        link_secret: secret_hex,
        link,
        memory: ask.memory,
        cpus: ask.cpus,
        disk,
        boot_ms: boot.as_millis() as u64,
        defaults: Some(StoredExecDefaults::from(ask.defaults.clone())),
        volumes: Vec::new(),
        digests: None,
    };
    let sealed = context.scope.block("seal", move || draft.seal(manifest)).await.map_err(Fault::bug)?;
    sealed.map_err(Fault::bug)?;
    Ok(LayerView { layer: ask.layer, own: ask.memory, pause: std::time::Duration::ZERO })
}

/// Starts the layer with a copy of the volume, which must not be in use.
async fn draft(context: &Arc<HostContext>, ask: &BootParams) -> Result<LayerDraft, Fault> {
    let (store, layer) = (context.layers.clone(), ask.layer);
    let from = context.volumes.unused_file(ask.volume).await?;
    let copied = context.scope.block("copy a root", move || {
        let draft = store.draft_of(layer).map_err(Fault::bug)?;
        clone_or_copy(&from, &draft.files().disk).map_err(Fault::bug)?;
        Ok(draft)
    });
    copied.await.map_err(Fault::bug)?
}

/// Stops the work when the host closes.
async fn until_stopped<T>(scope: &Scope, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let token = scope.token();
    tokio::select! {
        done = work => done,
        () = token.cancelled() => Err(Fault::new(FaultKind::Unavailable, "host.closing", "the host is shutting down")),
    }
}

/// The usual cause is the root file system, so the owner gets the console output.
fn boot_fault(error: BakeError) -> Fault {
    let text = match &error {
        BakeError::Silent { .. } | BakeError::Died { .. } => error.to_string(),
        other => return Fault::bug(other),
    };
    Fault::new(FaultKind::Conflict, "template.no_boot", format!("the root file system does not boot: {text}"))
}
