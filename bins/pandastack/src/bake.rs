//! `pandastack template …`: bakes templates into a local data folder. Passes every other
//! subcommand on to the client commands, which call a server.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use pandastack_host::{
    Ledger, RecoverError,
    bake::{BakeProgress, BakeSetup, BakedTemplate, Recipe, RootFsInputs, bake, builtin, ensure_rootfs},
    clear_abandoned,
    net::{NetPool, NetSettings},
};
use pandastack_kit::Scope;
use pandastack_model::{LayerId, Tier};
use pandastack_vmm::Driver;
use pandastack_vmm_qemu::{Jail, QemuDriver, choose_tier};
use pandastack_wire_public::DatabaseSize;
use serde_json::json;

use crate::{
    data_folder::{DEFAULT_DATA_DIR, OpenedDataFolder, cache_dir},
    progress::ProgressSteps,
    stop::asked_to_stop,
};

/// The host's CA bundle, at the path that Debian and its derivatives use.
const HOST_CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// How long the tasks of a bake may take to end.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

#[derive(Subcommand)]
pub enum TemplateArgs {
    /// Bake a template from a recipe: packages, first boot, sealed layer. Quick when nothing
    /// changed
    Bake(BakeArgs),
    #[command(flatten)]
    Served(pandastack_cli::TemplateCommand),
}

#[derive(Args)]
pub struct BakeArgs {
    /// A built-in recipe (mini, base, code-interpreter, agent, claude-agent, browser, postgres-16,
    /// postgres-16-4g, postgres-16-16g), or a name of the recipe given by --recipe
    name: String,
    /// Folder with recipe.toml and, optionally, customize.sh
    #[arg(long, value_name = "DIR")]
    recipe: Option<PathBuf>,
    /// Trust the host's CA certificates inside the machine (for networks with a TLS-inspecting
    /// proxy)
    #[arg(long)]
    host_ca: bool,
    /// Data folder of the server that will use the template
    #[arg(long, env = "PANDASTACK_DATA_DIR", default_value = DEFAULT_DATA_DIR, value_name = "DIR")]
    data_dir: PathBuf,
    /// Pin the tier: kvm or emulated
    #[arg(long)]
    tier: Option<Tier>,
    /// Isolation of machine processes from this host: full, or none if full is not possible
    #[arg(long, default_value_t, value_name = "full|none")]
    jail: Jail,
    /// Path of the guest agent binary; by default the one next to this program
    #[arg(long, env = "PANDASTACK_GUESTD", value_name = "FILE")]
    agent: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl TemplateArgs {
    pub async fn run(self, global: &pandastack_cli::GlobalArgs) -> Result<ExitCode> {
        match self {
            TemplateArgs::Bake(bake) => bake.run().await,
            TemplateArgs::Served(command) => pandastack_cli::execute_template(command, global).await,
        }
    }
}

impl BakeArgs {
    async fn run(self) -> Result<ExitCode> {
        let recipe = match &self.recipe {
            Some(folder) => {
                let recipe = Recipe::read(folder)?;
                let Some(found) = recipe.named(&self.name) else {
                    bail!("the recipe has the name {}, not {}", recipe.names().join(" or "), self.name);
                };
                found
            }
            None => builtin(&self.name)?,
        };
        let agent = find_agent(self.agent.as_deref())?;
        let place = OpenedDataFolder::open(&self.data_dir)?;
        let steps = ProgressSteps::new();
        let tier = choose_tier(self.tier, None)?;
        steps.line(&tier.reason);
        if self.jail == Jail::None {
            steps.line("WARNING: --jail none: the machine process runs as root without isolation from this host");
        }
        let host_ca = self.host_ca.then_some(Path::new(HOST_CERTIFICATES));
        let job = BakeJob { recipe: &recipe, agent: &agent, host_ca, tier: tier.tier, jail: self.jail };
        let baked = job.run(&place, &steps, asked_to_stop()).await;
        steps.finish(baked.is_ok());
        // Deletes layers that no template name refers to. Only with the lock: a running server may
        // still use them. Machines that a stopped server left running keep theirs.
        if baked.is_ok()
            && let Ok(_alone) = place.lock()
        {
            match needed_layers(&place).await {
                Ok(in_use) => drop(place.layers.collect(&in_use)),
                Err(error) => steps.line(&format!("unused layers were not deleted: {error:#}")),
            }
        }
        place.volume.close();
        let baked = baked?;
        if self.json {
            let names: Vec<String> = recipe.aliases.iter().chain([&recipe.name]).map(ToString::to_string).collect();
            let boot_ms = baked.boot.as_millis() as u64;
            println!("{}", json!({ "layer": baked.layer, "names": names, "cached": baked.cached, "boot_ms": boot_ms }));
        } else {
            let how = if baked.cached { "is up to date" } else { "baked" };
            println!("template {} {how}: {} (first boot {:.1} s)", recipe.name, baked.layer, baked.boot.as_secs_f32());
            if DatabaseSize::ALL.iter().any(|size| size.template() == recipe.name.as_str()) {
                println!("a server with this data folder prepares databases of it; see: pandastack template list");
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A bake of one template. A process runs one at a time: the names of what it makes on the host
/// come from the process id.
pub struct BakeJob<'a> {
    pub recipe: &'a Recipe,
    pub agent: &'a Path,
    /// Certificates that the machine trusts in addition to its own.
    pub host_ca: Option<&'a Path>,
    pub tier: Tier,
    pub jail: Jail,
}

impl BakeJob<'_> {
    /// Bakes, beside a server or in one. Cleans up after a failure, after a stop, and after bakes
    /// that were killed.
    pub async fn run(
        &self,
        place: &OpenedDataFolder,
        steps: &dyn BakeProgress,
        stop: impl Future<Output = ()>,
    ) -> Result<BakedTemplate> {
        clear_killed(place).await.context("clean up after a killed bake")?;
        let scope = Scope::new();
        let baked = tokio::select! {
            baked = self.bake(place, &scope, steps) => baked,
            () = stop => Err(anyhow!("stopped; no template was baked")),
        };
        if baked.is_err() {
            let names = BakeNames::of(place, std::process::id());
            names.clear(place).await.context("clean up after this bake")?;
            scope.close(CLOSE_DEADLINE).await;
            // Again: a task that was at work may have finished a network slot meanwhile.
            names.clear(place).await.context("clean up after this bake")?;
        }
        baked
    }

    async fn bake(&self, place: &OpenedDataFolder, scope: &Scope, steps: &dyn BakeProgress) -> Result<BakedTemplate> {
        let cache = cache_dir();
        let inputs = RootFsInputs { recipe: self.recipe, cache: &cache, host_ca: self.host_ca };
        let root = ensure_rootfs(inputs, steps).await?;
        let driver = QemuDriver::new(self.tier, &place.bundles(), scope.clone())?.with_jail(self.jail);
        let driver: Arc<dyn Driver> = Arc::new(driver);
        let BakeNames { run_dir, network } = BakeNames::of(place, std::process::id());
        let net = NetPool::start(NetSettings { ready: 0, ..NetSettings::of(network) }, scope)
            .await
            .context("set up the network")?;
        let parts = BakeSetup {
            driver,
            layers: place.layers.clone(),
            volume: place.volume.clone(),
            net: net.clone(),
            agent: self.agent.to_owned(),
            run_dir: run_dir.clone(),
            scope: scope.clone(),
        };
        let baked = bake(&parts, self.recipe, &root, steps).await;
        let closed = net.close().await;
        let _ = std::fs::remove_dir(&run_dir);
        let baked = baked?;
        closed.context("release the network")?;
        Ok(baked)
    }
}

/// Run folder and network name of a bake. Both contain the process id, so they never collide with
/// a server on the same data folder. If that process is gone, its leftovers can be removed.
struct BakeNames {
    run_dir: PathBuf,
    network: String,
}

impl BakeNames {
    fn of(place: &OpenedDataFolder, process: u32) -> Self {
        let run_dir = place.run_root().with_extension(format!("bake-{process}"));
        Self { run_dir, network: format!("{} bake {process}", place.instance) }
    }

    /// Removes everything that has these names.
    async fn clear(&self, place: &OpenedDataFolder) -> Result<(), RecoverError> {
        clear_abandoned(&self.run_dir, &place.layers, &self.network).await
    }
}

/// Removes the leftovers of killed bakes of this data folder: a machine that still runs, its disk
/// and its network.
pub async fn clear_killed(place: &OpenedDataFolder) -> Result<()> {
    let own = place.run_root();
    let (Some(folder), Some(name)) = (own.parent(), own.file_name()) else { return Ok(()) };
    let mark = format!("{}.bake-", name.to_string_lossy());
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let process = entry.file_name().to_str().and_then(|name| name.strip_prefix(&mark)?.parse::<u32>().ok());
        let Some(process) = process.filter(|process| !Path::new("/proc").join(process.to_string()).exists()) else {
            continue;
        };
        BakeNames::of(place, process).clear(place).await?;
    }
    Ok(())
}

/// Layers of sleeping sandboxes, of snapshots and of workspace templates, and layers of machines
/// that a server left running and the next server takes over.
async fn needed_layers(place: &OpenedDataFolder) -> Result<HashSet<LayerId>> {
    let path = place.data_dir.join("ledger.db");
    if !path.exists() {
        return Ok(HashSet::new());
    }
    let ledger = Ledger::open(&path).await.context("open the ledger")?;
    let layers = ledger.needed_layers().await.context("list layers");
    ledger.close().await;
    layers
}

/// Where packages install the agent, seen from the folder of this program.
const INSTALLED_AGENT: &str = "../lib/pandastack/pandastack-guestd";

/// Finds the guest agent: at the given path, next to this program, or where packages install it.
pub fn find_agent(told: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = told {
        return Ok(path.to_owned());
    }
    let program = std::env::current_exe().context("find this program")?;
    let beside = program.with_file_name("pandastack-guestd");
    for path in [&beside, &program.with_file_name(INSTALLED_AGENT)] {
        if path.is_file() {
            return Ok(path.clone());
        }
    }
    bail!(
        "the guest agent is not next to this program ({}); build it with `make build`, install it, or name it with \
         --agent",
        beside.display()
    )
}
