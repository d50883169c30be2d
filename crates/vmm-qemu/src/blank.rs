//! Starts a process in two steps. It starts, reads its arguments, and opens its memory file; the
//! jail's filter holds that call. Until the call is answered, the process can wait for any layer of
//! its size, with most of its start done.
//!
//! ```text
//! begin ......... memory is opened (held)    | memory passed, machine built, device state loaded
//!        in advance, if blanks are kept      |            when a layer is wanted
//! ```

use std::{
    fs::{self, File},
    io,
    os::fd::AsFd,
    path::PathBuf,
    sync::Arc,
};

use async_trait::async_trait;
use pandastack_kit::Scope;
use pandastack_sys::{filter::SeccompListener, netns::Netns};
use pandastack_vmm::{Blank, LayerFiles, Machine, MachineError, MachineSpec, MachineStartError, MachineState, Power};
use serde_json::json;
use tokio::sync::{broadcast::error::RecvError, watch};

use crate::{
    command::STATE_FD,
    limits::{LOAD_DEADLINE, START_DEADLINE},
    machine::QemuMachine,
    process::{StartedProcess, monitor_socket},
    qmp::Qmp,
    room::CpuSwitch,
    state::check_length,
};

/// A started process.
pub struct BlankProcess {
    pub started: StartedProcess,
    pub spec: MachineSpec,
    pub netns: Netns,
    pub scope: Scope,
}

impl BlankProcess {
    /// Passes the memory to the process, if it waits for it, and waits until its monitor answers.
    /// The CPUs then run or wait for a command, as the arguments say.
    pub async fn finish(self, memory: File, power: Power) -> Result<QemuMachine, MachineStartError> {
        let BlankProcess { started: StartedProcess { process, entering, opens }, spec, netns, scope } = self;
        if let Some(listener) = opens {
            hand_over(listener, memory, &scope);
        }
        let monitor = monitor_socket(&spec.run_dir);
        let connect = tokio::time::timeout(START_DEADLINE, Qmp::connect(&monitor, &scope)).await;
        let limited = entering.done().await;
        match connect {
            Ok(Ok(qmp)) if limited.is_ok() => {
                let qmp = Arc::new(qmp);
                let switch = CpuSwitch::new(spec.id, qmp.clone(), power, &scope);
                Ok(QemuMachine { id: spec.id, process, qmp, switch, netns, network: spec.network, scope })
            }
            connect => {
                process.kill().await;
                Err(match (connect, limited) {
                    (Ok(Err(error)), _) => {
                        let log = process.log_tail();
                        MachineStartError::Died { log: if log.is_empty() { error.to_string() } else { log } }
                    }
                    (_, Err(error)) => error,
                    (_, Ok(())) => MachineStartError::Deadline { deadline_ms: START_DEADLINE.as_millis() as u64 },
                })
            }
        }
    }

    /// As [`BlankProcess::finish`], and loads the device state that the process inherited.
    pub async fn load(self, memory: File) -> Result<Box<dyn Machine>, MachineStartError> {
        let machine = self.finish(memory, Power::Paused).await?;
        match load(&machine.qmp).await {
            Ok(()) => Ok(Box::new(machine)),
            Err(error) => {
                machine.process.kill().await;
                Err(error)
            }
        }
    }
}

/// A process that waits for its layer.
pub struct QemuBlank(pub BlankProcess);

#[async_trait]
impl Blank for QemuBlank {
    fn pid(&self) -> Option<u32> {
        Some(self.0.started.process.pid())
    }

    fn watch(&self) -> watch::Receiver<MachineState> {
        self.0.started.process.watch()
    }

    async fn restore(self: Box<Self>, layer: &LayerFiles) -> Result<Box<dyn Machine>, MachineStartError> {
        let filled = open_memory(layer).and_then(|memory| {
            let copied = open_state(&layer.dev)
                .and_then(|_| fs::copy(&layer.dev, state_file(&self.0.spec)).map_err(load_error("copy", &layer.dev)));
            copied?;
            Ok(memory)
        });
        match filled {
            Ok(memory) => self.0.load(memory).await,
            Err(error) => {
                self.stop().await;
                Err(error)
            }
        }
    }

    async fn stop(&self) {
        self.0.started.process.kill().await;
    }
}

/// Path of a machine's device state. The process inherits it empty; it is filled when the layer is
/// known.
fn state_file(spec: &MachineSpec) -> PathBuf {
    spec.run_dir.join("state")
}

/// Makes the file for a machine's device state, and opens it for reading.
pub fn make_state(spec: &MachineSpec) -> Result<File, MachineStartError> {
    let file = state_file(spec);
    File::create(&file).and_then(|_| File::open(&file)).map_err(MachineStartError::Spawn)
}

/// Opens a layer's device state.
pub fn open_state(file: &std::path::Path) -> Result<File, MachineStartError> {
    let state = File::open(file).map_err(load_error("open", file))?;
    state.metadata().and_then(|meta| check_length(meta.len())).map_err(load_error("load", file))?;
    Ok(state)
}

/// Opens a layer's memory read-only, because all machines of the layer share it.
pub fn open_memory(layer: &LayerFiles) -> Result<File, MachineStartError> {
    File::open(&layer.mem).map_err(load_error("open", &layer.mem))
}

fn load_error<'a>(action: &'a str, file: &'a std::path::Path) -> impl FnOnce(io::Error) -> MachineStartError + use<'a> {
    move |cause| MachineStartError::Load { reason: format!("{action} {}: {cause}", file.display()) }
}

/// Passes the memory to a process that opens it. If that fails, the process reports the error.
fn hand_over(listener: SeccompListener, memory: File, scope: &Scope) {
    let inner = scope.clone();
    scope.start("machine-memory", async move {
        let answer = move || listener.answer_with(memory.as_fd(), START_DEADLINE);
        if let Ok(Err(error)) = inner.block("machine-memory", answer).await {
            tracing::warn!(%error, "could not pass a machine process its memory");
        }
    });
}

async fn load(qmp: &Qmp) -> Result<(), MachineStartError> {
    let capabilities = json!({ "capabilities": [{ "capability": "events", "state": true }] });
    qmp.execute("migrate-set-capabilities", capabilities).await?;
    let mut events = qmp.events();
    qmp.execute("migrate-incoming", json!({ "uri": format!("fd:{STATE_FD}") })).await?;
    let finished = async {
        loop {
            match events.recv().await {
                Ok(event) if event.name == "MIGRATION" => match event.data["status"].as_str() {
                    Some("completed") => return Ok(()),
                    Some("failed") => {
                        return Err(MachineStartError::Load {
                            reason: "the saved state does not match this machine".to_owned(),
                        });
                    }
                    _ => {}
                },
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    return Err(MachineError::Dead { reason: "the monitor connection was closed".to_owned() }.into());
                }
            }
        }
    };
    tokio::time::timeout(LOAD_DEADLINE, finished)
        .await
        .map_err(|_| MachineStartError::Deadline { deadline_ms: LOAD_DEADLINE.as_millis() as u64 })?
}
