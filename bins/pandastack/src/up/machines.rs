//! The machines of `pandastack up`: their isolation, how many are kept ready, the memory they may
//! use, and what a stop does to them.

use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use pandastack_host::{Host, HostSettings, HostSetup, RecoveryReport, ShutdownMode, net::NetSettings};
use pandastack_kit::Scope;
use pandastack_model::{ByteSize, TemplateName, Tier};
use pandastack_sys::oom;
use pandastack_vmm::Driver;
use pandastack_vmm_qemu::{Jail, QemuDriver, TierChoice, choose_tier};
use pandastack_wire_fleet::GatewayService;

use super::tell;
use crate::data_folder::{OpenedDataFolder, warn_of_tier};

#[derive(Args)]
pub struct MachineArgs {
    /// Pin the tier: kvm or emulated. By default the strongest tier that works is used
    #[arg(long)]
    tier: Option<Tier>,
    /// Refuse to start below this tier
    #[arg(long, value_name = "TIER")]
    require_isolation: Option<Tier>,
    /// Isolation of machine processes from this host: full, or none if full is not possible
    #[arg(long, default_value_t, value_name = "full|none")]
    jail: Jail,
    /// Standby machines to keep for each template
    #[arg(long, default_value_t = 2)]
    standby: usize,
    /// Blank processes to keep for each machine size (22 MB each). Forks, wakes and cold creates
    /// start from them, whatever their layer
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    blanks: usize,
    /// Standby machines to keep for one template, as NAME=COUNT; may be repeated
    #[arg(long, value_name = "NAME=COUNT", value_parser = parse_warm)]
    warm: Vec<(TemplateName, usize)>,
    /// What happens to running sandboxes on a stop: sleep (they wake with the next start), leave
    /// (their machines keep running and the next start takes them over) or remove
    #[arg(long, default_value = "sleep", value_name = "WHAT")]
    on_stop: OnStop,
    /// Memory of this host to keep free, in MiB; creates that would exceed it are refused
    #[arg(long, default_value_t = 512, value_name = "MIB")]
    memory_reserve: u64,
    /// Limit of the memory of all guests together, in percent of this host's memory
    #[arg(long, default_value_t = 400, value_name = "PERCENT")]
    overcommit: u64,
}

/// What happens to running sandboxes when the server stops.
#[derive(Clone, Copy, clap::ValueEnum)]
enum OnStop {
    Sleep,
    Leave,
    Remove,
}

fn parse_warm(text: &str) -> Result<(TemplateName, usize)> {
    let (name, count) = text.split_once('=').context("use NAME=COUNT")?;
    Ok((name.parse()?, count.parse().context("COUNT must be a number")?))
}

impl MachineArgs {
    pub fn choose_tier(&self) -> Result<TierChoice> {
        Ok(choose_tier(self.tier, self.require_isolation)?)
    }

    /// Warns of isolation that is weaker than it could be.
    pub fn warn(&self, tier: Tier) {
        if self.jail == Jail::None {
            tell(
                "WARNING: --jail none: machine processes run as root; a guest that escapes its machine controls this \
                 host",
            );
        }
        if let Some(warning) = tier.warning() {
            tell(&format!("WARNING: isolation {tier}: {}", warn_of_tier(warning)));
        }
    }

    /// Makes the driver, and deletes runtimes that no layer needs any more. `scope` gets the tasks
    /// that supervise machines.
    pub fn driver(&self, tier: Tier, place: &OpenedDataFolder, scope: &Scope) -> Result<Arc<dyn Driver>> {
        let driver = QemuDriver::new(tier, &place.bundles(), scope.clone())?.with_jail(self.jail);
        let driver = self.spare_the_server(driver)?;
        let layers = place.layers.layers().into_iter().filter_map(|layer| place.layers.manifest(layer).ok());
        driver.collect(&layers.map(|manifest| manifest.profile.runtime).collect());
        Ok(Arc::new(driver))
    }

    /// Protects this server from machines that use all their memory at once. Together they may use
    /// the host's memory minus the reserve, and the kernel kills them first.
    fn spare_the_server(&self, driver: QemuDriver) -> Result<QemuDriver> {
        if let Err(error) = oom::set_score(std::process::id(), oom::SERVER_SCORE) {
            tracing::info!(%error, "could not protect this server from the OOM killer");
        }
        let total = oom::host_memory().context("read the host's memory")?;
        Ok(match total.checked_sub(ByteSize::mib(self.memory_reserve).get()) {
            None | Some(0) => driver,
            Some(bytes) => driver.with_memory_of_all(bytes),
        })
    }

    pub async fn start_host(
        &self,
        place: &OpenedDataFolder,
        driver: Arc<dyn Driver>,
        gateway: Arc<dyn GatewayService>,
        descriptors: u64,
    ) -> Result<Host> {
        let host = Host::start(HostSetup {
            driver,
            layers: place.layers.clone(),
            volume: place.volume.clone(),
            net: NetSettings::of(place.instance.clone()).within(descriptors),
            ledger: place.data_dir.join("ledger.db"),
            run_root: place.run_root(),
            settings: HostSettings {
                standby: self.standby,
                blanks: self.blanks,
                warm: self.warm.iter().cloned().collect(),
                memory_reserve: ByteSize::mib(self.memory_reserve),
                overcommit_percent: self.overcommit,
                gateway: Some(gateway),
                ..HostSettings::default()
            },
        })
        .await
        .context("start the host")?;
        if !host.recovered().is_empty() {
            let RecoveryReport { adopted, asleep, machines, disks, folders: _ } = host.recovered();
            tell(&format!(
                "recovered from the last run: {adopted} sandboxes running, {asleep} hibernated; ended {machines} \
                 orphaned machines, removed {disks} orphaned disks"
            ));
        }
        Ok(host)
    }

    /// Isolation of machine processes.
    pub fn jail(&self) -> Jail {
        self.jail
    }

    pub fn shutdown_mode(&self) -> ShutdownMode {
        match self.on_stop {
            OnStop::Sleep => ShutdownMode::Sleep,
            OnStop::Leave => ShutdownMode::Running,
            OnStop::Remove => ShutdownMode::Remove,
        }
    }
}
