//! Starts machines: process, monitor, and for a restore the load of device state.

use std::{fs::File, path::Path};

use async_trait::async_trait;
use pandastack_kit::Scope;
use pandastack_model::Tier;
use pandastack_sys::netns::Netns;
use pandastack_vmm::{BootImage, Driver, LayerFiles, Machine, MachineError, MachineProfile, MachineSpec, StartError};
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use crate::{
    bundle::{Bundle, BundleError},
    command::{MACHINE_TYPE, Origin, STATE_FD, Shape, arguments, kernel_parameters},
    limits::{LOAD_DEADLINE, START_DEADLINE},
    machine::QemuMachine,
    process::{Launch, Process, monitor_socket},
    qmp::Qmp,
};

/// CPU of every guest: the x86-64-v2 baseline, so that a layer can move between hosts, with a random generator.
/// `arat` says that the CPU's timer never stops; without it the guest's kernel falls back to 250 ticks a second for ever.
const CPU_PROFILE: &str = "Nehalem-v1,+rdrand,+rdseed,+rdtscp,+aes,+pclmulqdq,+arat,-vme";

/// Added where the guest lives by the host's own clock counter. With KVM it would tie a layer to one host's frequency.
const EMULATED_CLOCK: &str = ",+invtsc";

/// The driver cannot be set up on this host.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error("the host does not tell its clock frequency in /proc/cpuinfo")]
    NoClock,
}

/// Makes QEMU machines of one tier from one runtime bundle.
pub struct QemuDriver {
    bundle: Bundle,
    shape: Shape,
    scope: Scope,
}

impl QemuDriver {
    /// Prepares the runtime bundle under a folder and settles the machine's shape.
    pub fn new(tier: Tier, bundles: &Path, scope: Scope) -> Result<Self, SetUpError> {
        let bundle = Bundle::ensure(tier, bundles)?;
        let (tsc_khz, cpu_profile) = match tier {
            Tier::Kvm => (None, CPU_PROFILE.to_owned()),
            Tier::Emulated | Tier::Fake => {
                (Some(host_khz().ok_or(SetUpError::NoClock)?), format!("{CPU_PROFILE}{EMULATED_CLOCK}"))
            }
        };
        Ok(Self { bundle, shape: Shape { tier, cpu_profile, tsc_khz }, scope })
    }

    /// The runtime bundle in use.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    async fn start(
        &self,
        spec: MachineSpec,
        origin: Origin<'_>,
        state: Option<File>,
    ) -> Result<QemuMachine, StartError> {
        let netns = Netns::open(&spec.network.netns)
            .map_err(|cause| StartError::Network { netns: spec.network.netns.clone(), cause })?;
        let launch = Launch {
            bundle: &self.bundle,
            arguments: arguments(&spec, &self.shape, &origin),
            netns: &netns,
            run_dir: &spec.run_dir,
            state,
        };
        let process = Process::start(launch, &self.scope)?;
        let monitor = monitor_socket(&spec.run_dir);
        let connect = Qmp::connect(&monitor, &self.scope);
        match tokio::time::timeout(START_DEADLINE, connect).await {
            Ok(Ok(qmp)) => {
                Ok(QemuMachine { id: spec.id, process, qmp, netns, network: spec.network, scope: self.scope.clone() })
            }
            Ok(Err(error)) => {
                process.kill().await;
                let log = process.last_words();
                Err(StartError::Died { log: if log.is_empty() { error.to_string() } else { log } })
            }
            Err(_) => {
                process.kill().await;
                Err(StartError::Deadline { deadline_ms: START_DEADLINE.as_millis() as u64 })
            }
        }
    }
}

#[async_trait]
impl Driver for QemuDriver {
    fn tier(&self) -> Tier {
        self.shape.tier
    }

    fn profile(&self) -> MachineProfile {
        MachineProfile {
            driver: if self.shape.tier == Tier::Kvm { "qemu-kvm" } else { "qemu-tcg" }.to_owned(),
            runtime: self.bundle.digest().to_owned(),
            machine_type: MACHINE_TYPE.to_owned(),
            cpu_profile: self.shape.cpu_profile.clone(),
            tsc_khz: self.shape.tsc_khz,
        }
    }

    fn kernel_parameters(&self) -> String {
        kernel_parameters(&self.shape, "")
    }

    async fn boot(&self, spec: MachineSpec, image: BootImage) -> Result<Box<dyn Machine>, StartError> {
        Ok(Box::new(self.start(spec, Origin::Boot(&image), None).await?))
    }

    async fn restore(&self, spec: MachineSpec, layer: &LayerFiles) -> Result<Box<dyn Machine>, StartError> {
        let state = File::open(&layer.dev)
            .map_err(|cause| StartError::Load { reason: format!("open {}: {cause}", layer.dev.display()) })?;
        let machine = self.start(spec, Origin::Restore { mem: &layer.mem }, Some(state)).await?;
        match load(&machine.qmp).await {
            Ok(()) => Ok(Box::new(machine)),
            Err(error) => {
                machine.process.kill().await;
                Err(error)
            }
        }
    }

    async fn adopt(&self, _spec: MachineSpec, pid: Option<u32>) -> Result<Box<dyn Machine>, StartError> {
        Err(StartError::Stranger { pid: pid.unwrap_or_default() })
    }
}

async fn load(qmp: &Qmp) -> Result<(), StartError> {
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
                        return Err(StartError::Load {
                            reason: "the saved state does not fit this machine".to_owned(),
                        });
                    }
                    _ => {}
                },
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    return Err(MachineError::Dead { reason: "the monitor closed".to_owned() }.into());
                }
            }
        }
    };
    tokio::time::timeout(LOAD_DEADLINE, finished)
        .await
        .map_err(|_| StartError::Deadline { deadline_ms: LOAD_DEADLINE.as_millis() as u64 })?
}

/// Reads the host's clock frequency, which emulated guests see unchanged.
fn host_khz() -> Option<u64> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = cpuinfo.lines().find(|line| line.starts_with("cpu MHz"))?;
    let mhz: f64 = line.split(':').nth(1)?.trim().parse().ok()?;
    Some((mhz * 1000.0) as u64)
}
