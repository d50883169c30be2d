//! `pandastack up`: runs control, edge and host in one process, from start to clean stop.

use std::{
    fs::DirBuilder,
    io::{IsTerminal as _, Write as _},
    net::SocketAddr,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use pandastack_control::{
    AddressPolicy, BootstrapKey, Control, ControlSettings, ImageSettings, OperatorLimit, RateSettings, TelemetryError,
    TelemetrySettings, TrustRoots, WebhookSettings, start_telemetry,
};
use pandastack_door::{ServeSettings, serve_with};
use pandastack_edge::Edge;
use pandastack_host::{Host, HostSettings, HostSetup, RecoveryReport, ShutdownMode, net::NetSettings};
use pandastack_kit::{Scope, SystemClock, trace::SpanQueue};
use pandastack_model::{ByteSize, PreviewSuffix, TemplateName, Tier};
use pandastack_sys::{oom, private};
use pandastack_vmm::Driver;
use pandastack_vmm_qemu::{Jail, QemuDriver, TierChoice, choose_tier};
use pandastack_wire_fleet::{ControlPort, HostPort};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    data_folder::{DEFAULT_DATA_DIR, OpenedDataFolder, warn_of_tier},
    stop::asked_to_stop,
};

/// How long open requests may take to finish after Ctrl-C.
const CLOSE_DEADLINE: Duration = Duration::from_secs(10);

/// File in the data folder for the first key, if the key is neither printed nor written to the
/// clients' configuration.
const FIRST_KEY: &str = "first-key";
/// Fewest open files that allow the server to run a handful of machines.
const DESCRIPTORS_MIN: u64 = 256;

#[derive(Args)]
pub struct UpArgs {
    /// Address and port that the API listens on
    #[arg(long, default_value = "127.0.0.1:8080", env = "PANDASTACK_LISTEN")]
    listen: SocketAddr,
    /// Folder for databases, templates and disks
    #[arg(long, env = "PANDASTACK_DATA_DIR", default_value = DEFAULT_DATA_DIR, value_name = "DIR")]
    data_dir: PathBuf,
    /// Do not write ~/.config/pandastack/config.json for the clients
    #[arg(long)]
    no_config: bool,
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
    /// Domain of public previews: PORT-SANDBOX.DOMAIN leads to that port
    #[arg(long, default_value = "localhost", env = "PANDASTACK_PREVIEW_SUFFIX", value_name = "DOMAIN")]
    preview_suffix: PreviewSuffix,
    /// Most sandboxes that one workspace may have at the same time
    #[arg(long, default_value_t = ControlSettings::default().sandboxes_max, value_name = "COUNT")]
    max_sandboxes: u64,
    /// Requests per second for one workspace; 0 means no limit. The default is 25, but the first
    /// workspace is then not limited
    #[arg(long, value_name = "PER_SECOND")]
    rate_limit: Option<u32>,
    /// Requests that one workspace may send at once after a pause
    #[arg(long, default_value_t = ControlSettings::default().rate.burst, value_name = "COUNT")]
    rate_burst: u32,
    /// Format of log lines: text, or json for programs
    #[arg(long, default_value = "text", env = "PANDASTACK_LOG_FORMAT", value_name = "text|json")]
    log_format: LogFormat,
    /// Let webhooks reach loopback and private addresses too. Every tenant can then make this
    /// server send requests to them
    #[arg(long, env = "PANDASTACK_WEBHOOK_ALLOW_PRIVATE")]
    webhook_allow_private: bool,
    /// Registry of images whose names do not include one
    #[arg(long, default_value = "docker.io", env = "PANDASTACK_IMAGE_REGISTRY", value_name = "HOST")]
    image_registry: String,
    /// Let builds fetch images from loopback and private addresses too. Every tenant can then make
    /// this server send requests to them
    #[arg(long, env = "PANDASTACK_IMAGE_ALLOW_PRIVATE")]
    image_allow_private: bool,
    /// Registry to use without TLS, as HOST:PORT; may be repeated. Registries on localhost never
    /// use TLS
    #[arg(long, value_name = "HOST")]
    image_plain_http: Vec<String>,
    /// PEM file with certificate authorities to trust for registries, in addition to those that
    /// this host trusts
    #[arg(long, env = "PANDASTACK_IMAGE_CA", value_name = "FILE")]
    image_ca: Option<PathBuf>,
    /// Send request spans to this OpenTelemetry collector, such as http://localhost:4318 (OTLP over
    /// HTTP in JSON)
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// HTTP headers to send to the collector with every request, as NAME=VALUE,…
    #[arg(long, env = "OTEL_EXPORTER_OTLP_HEADERS", hide = true, hide_env_values = true)]
    otlp_headers: Option<String>,
    /// Service name of this server in the collector
    #[arg(long, env = "OTEL_SERVICE_NAME", hide = true)]
    otlp_service: Option<String>,
    /// API key to create at the first start, instead of a random one
    #[arg(long, env = "PANDASTACK_BOOTSTRAP_KEY", hide = true, hide_env_values = true)]
    bootstrap_key: Option<String>,
}

/// Format of log lines.
#[derive(Clone, Copy, clap::ValueEnum)]
enum LogFormat {
    Text,
    Json,
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

impl UpArgs {
    pub async fn run(self) -> Result<ExitCode> {
        start_log(self.log_format);
        let descriptors = raise_descriptors()?;
        let telemetry = self.telemetry()?;
        let tier = choose_tier(self.tier, self.require_isolation)?;
        let place = OpenedDataFolder::open(&self.data_dir)?;
        let lock = place.lock()?;
        // Bind before anything starts: a port in use must not affect the machines of another
        // server.
        let listener = TcpListener::bind(self.listen).await.with_context(|| {
            format!("listen on {}; is another server running? Choose another address with --listen", self.listen)
        })?;
        let scope = Scope::new();
        // A separate scope: the tasks that supervise machines must outlive the last request,
        // because machines are closed after it.
        let machines = Scope::new();
        // Closed last, so that spans of the shutdown are sent too.
        let collecting = Scope::new();
        let spans = telemetry.map(|settings| start_telemetry(settings, &collecting));
        if self.jail == Jail::None {
            tell(
                "WARNING: --jail none: machine processes run as root; a guest that escapes its machine controls this \
                 host",
            );
        }
        if let Some(warning) = tier.tier.warning() {
            tell(&format!("WARNING: isolation {}: {}", tier.tier, warn_of_tier(warning)));
        }
        let driver = QemuDriver::new(tier.tier, &place.bundles(), machines.clone())?.with_jail(self.jail);
        let driver = self.spare_the_server(driver)?;
        // Deletes runtimes that no layer needs any more.
        let layers = place.layers.layers().into_iter().filter_map(|layer| place.layers.manifest(layer).ok());
        driver.collect(&layers.map(|manifest| manifest.profile.runtime).collect());
        let driver: Arc<dyn Driver> = Arc::new(driver);
        let host = Arc::new(self.start_host(&place, driver, descriptors).await?);
        let doorway = ApiListener { listener, settings: ServeSettings::within(descriptors), descriptors };
        let served = self.serve(&place, host.clone(), &scope, doorway, &tier, spans).await;
        // Always runs, also if serving failed.
        let close = async {
            scope.close(CLOSE_DEADLINE).await;
            host.close_as(match self.on_stop {
                OnStop::Sleep => ShutdownMode::Sleep,
                OnStop::Leave => ShutdownMode::Running,
                OnStop::Remove => ShutdownMode::Remove,
            })
            .await;
            machines.close(CLOSE_DEADLINE).await;
            collecting.close(CLOSE_DEADLINE).await;
            if let Ok(control) = &served {
                control.close().await;
            }
        };
        tokio::select! {
            () = close => {}
            () = asked_to_stop() => tell("stopped at once; the next start cleans up"),
        }
        place.volume.close();
        drop(lock);
        served.map(|_| ExitCode::SUCCESS)
    }

    /// Starts the API and serves until a stop is requested.
    async fn serve(
        &self,
        place: &OpenedDataFolder,
        host: Arc<dyn HostPort>,
        scope: &Scope,
        doorway: ApiListener,
        tier: &TierChoice,
        spans: Option<SpanQueue>,
    ) -> Result<Control> {
        let images = self.image_settings()?;
        let database = place.data_dir.join("control.db");
        let control = Control::open(&database, host.clone(), scope.clone(), Arc::new(SystemClock)).await?;
        let control = control.with_settings(self.control_settings());
        let reach = if self.webhook_allow_private { AddressPolicy::Private } else { AddressPolicy::Public };
        let control = control.with_webhooks(WebhookSettings { reach, ..WebhookSettings::default() });
        let connections = doorway.settings.places();
        let control = control.with_images(images).with_spans(spans).with_connections(connections.clone());
        let key = control.bootstrap(self.bootstrap_key.clone()).await?;
        let edge = Edge::new(Arc::new(control.clone()) as Arc<dyn ControlPort>, host, scope.clone());
        let edge = edge.with_previews(self.preview_suffix.clone()).with_connections(connections);
        let app =
            edge.before(control.guard(control.router().merge(edge.router_around(|routes| control.keyed(routes)))));
        self.announce(place, &key, &format!("{} ({})", tier.tier, tier.reason), &doorway)?;
        let ApiListener { listener, settings, .. } = doorway;
        scope.start("serve", serve_with(listener, app, scope.clone(), settings));
        asked_to_stop().await;
        tell("stopping; press Ctrl-C again to stop at once");
        Ok(control)
    }

    /// Reads the telemetry settings. The OpenTelemetry specification treats an empty variable as
    /// unset.
    fn telemetry(&self) -> Result<Option<TelemetrySettings>, TelemetryError> {
        let [headers, service] = [&self.otlp_headers, &self.otlp_service].map(Option::as_deref);
        let endpoint = self.otlp_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty());
        endpoint.map(|endpoint| TelemetrySettings::new(endpoint, headers, service)).transpose()
    }

    fn image_settings(&self) -> Result<ImageSettings> {
        let roots = self.image_ca.as_deref().map(TrustRoots::host_and).transpose().context("read --image-ca")?;
        Ok(ImageSettings {
            reach: if self.image_allow_private { AddressPolicy::Private } else { AddressPolicy::Public },
            registry: Some(self.image_registry.clone()),
            plain: self.image_plain_http.clone(),
            roots: roots.unwrap_or_default(),
        })
    }

    fn control_settings(&self) -> ControlSettings {
        let usual = ControlSettings::default();
        let rate = RateSettings {
            per_second: self.rate_limit.unwrap_or(usual.rate.per_second),
            burst: self.rate_burst,
            // An explicit rate limit applies to everybody. The default must not slow down an
            // operator who uses the server alone.
            operator: if self.rate_limit.is_some() { OperatorLimit::Limited } else { OperatorLimit::Free },
        };
        ControlSettings { sandboxes_max: self.max_sandboxes, rate, preview_suffix: self.preview_suffix.clone() }
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

    async fn start_host(&self, place: &OpenedDataFolder, driver: Arc<dyn Driver>, descriptors: u64) -> Result<Host> {
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

    /// Writes the clients' configuration and returns its path, unless `--no-config` is set.
    fn write_config(&self, url: &str, key: &BootstrapKey) -> Result<Option<PathBuf>> {
        if self.no_config {
            return Ok(None);
        }
        let home = std::env::var_os("HOME").context("HOME is not set; set it or use --no-config")?;
        let key = match key {
            BootstrapKey::Given(key) | BootstrapKey::Made(key) => Some(key.reveal().as_str()),
            BootstrapKey::Kept { .. } | BootstrapKey::Revoked { .. } => None,
        };
        write_config(Path::new(&home), url, key).map(Some)
    }

    fn announce(&self, place: &OpenedDataFolder, key: &BootstrapKey, tier: &str, doorway: &ApiListener) -> Result<()> {
        let address = doorway.listener.local_addr()?;
        let url = format!("http://{address}");
        let mut out = std::io::stdout().lock();
        writeln!(out, "pandastack {} on {url}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "  isolation  {tier}")?;
        writeln!(out, "  previews   http://PORT-SANDBOX.{}:{}", self.preview_suffix, address.port())?;
        writeln!(out, "  data       {}", place.data_dir.display())?;
        let (connections, descriptors) = (doorway.settings.connections_max, doorway.descriptors);
        writeln!(out, "  limits     {connections} connections at once, of {descriptors} open files")?;
        if let Ok(Some(telemetry)) = self.telemetry() {
            writeln!(out, "  spans      {}", telemetry.address())?;
        }
        let templates: Vec<String> = place.layers.templates().iter().map(|(name, _)| name.to_string()).collect();
        match templates.is_empty() {
            true => writeln!(
                out,
                "  templates  none; bake one with: pandastack template bake base --data-dir {}",
                place.data_dir.display()
            ),
            false => writeln!(out, "  templates  {}", templates.join(", ")),
        }?;
        let config = match self.write_config(&url, key) {
            Ok(config) => config,
            // The key is known only now. If the clients cannot get it, it is stored for the
            // operator.
            Err(error) => {
                let kept = keep_first_key(place, key)?;
                return Err(error.context(format!("the new API key is in {}", kept.display())));
            }
        };
        let is_terminal = std::io::stdout().is_terminal();
        let kept = match &config {
            Some(path) => path.clone(),
            None if is_terminal => PathBuf::new(),
            None => keep_first_key(place, key)?,
        };
        writeln!(out, "  key        {}", key_line(key, is_terminal, &kept))?;
        if let Some(path) = config {
            writeln!(out, "  clients    configured by {}", path.display())?;
        }
        writeln!(out, "  ready; stop with Ctrl-C")?;
        Ok(())
    }
}

/// Describes the first key. The key is a secret: it is printed only to a terminal, never to a
/// journal or a log file.
fn key_line(key: &BootstrapKey, is_terminal: bool, kept: &Path) -> String {
    match key {
        BootstrapKey::Given(_) => "as given in PANDASTACK_BOOTSTRAP_KEY".to_owned(),
        BootstrapKey::Made(key) if is_terminal => format!("{} (shown only once)", key.reveal()),
        BootstrapKey::Made(_) => format!("created; stored in {}", kept.display()),
        BootstrapKey::Revoked { prefix } => {
            format!("{prefix}… from PANDASTACK_BOOTSTRAP_KEY was revoked and does not work")
        }
        BootstrapKey::Kept { prefix } => format!("{prefix}… (created at an earlier start)"),
    }
}

/// Stores a new key in the data folder, for operators who see neither the terminal nor the
/// clients' configuration.
fn keep_first_key(place: &OpenedDataFolder, key: &BootstrapKey) -> Result<PathBuf> {
    let path = place.data_dir.join(FIRST_KEY);
    if let BootstrapKey::Made(key) = key {
        private::replace(&path, format!("{}\n", key.reveal()).as_bytes()).context("store the first API key")?;
    }
    Ok(path)
}

/// The listener of the API and its connection limits.
struct ApiListener {
    listener: TcpListener,
    settings: ServeSettings,
    /// Most files that this process may open.
    descriptors: u64,
}

/// Raises the limit of open files as far as useful and allowed, and returns it.
fn raise_descriptors() -> Result<u64> {
    let descriptors = pandastack_sys::descriptors::raise_limit().context("raise the limit of open files")?;
    if descriptors < DESCRIPTORS_MIN {
        bail!(
            "this process may open only {descriptors} files, but the server needs {DESCRIPTORS_MIN}; raise the limit \
             with `ulimit -n`"
        );
    }
    if ServeSettings::within(descriptors) != ServeSettings::default() {
        let connections = ServeSettings::within(descriptors).connections_max;
        tell(&format!(
            "WARNING: this process may open only {descriptors} files, so it serves only {connections} connections at \
             once and fewer machines; raise the hard limit with `ulimit -Hn` or LimitNOFILE"
        ));
    }
    Ok(descriptors)
}

/// Writes the configuration that the clients read. Keeps all other fields of the file.
fn write_config(home: &Path, url: &str, key: Option<&str>) -> Result<PathBuf> {
    let path = home.join(".config/pandastack/config.json");
    let kept = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let mut config = kept.filter(Value::is_object).unwrap_or_else(|| json!({}));
    config["api_url"] = json!(url);
    config["apiUrl"] = json!(url);
    if let Some(key) = key {
        config["token"] = json!(key);
        config["api_key"] = json!(key);
    }
    let folder = path.parent().context("find the configuration folder")?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder).context("create the configuration folder")?;
    private::replace(&path, &serde_json::to_vec_pretty(&config)?).context("write the clients' configuration")?;
    Ok(path)
}

/// Writes a message to standard error. A write error must not stop the server or its shutdown, so
/// it is ignored.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn start_log(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PANDASTACK_LOG").unwrap_or_else(|_| "warn".into());
    // If a log line cannot be written, tracing would report that on the same stream, and that
    // report would panic.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).log_internal_errors(false);
    match format {
        LogFormat::Json => log.json().init(),
        LogFormat::Text if std::io::stderr().is_terminal() => log.init(),
        LogFormat::Text => log.with_ansi(false).init(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

    use pandastack_kit::Secret;

    use super::*;

    #[test]
    fn the_clients_configuration_is_private_keeps_the_rest_and_follows_no_link() {
        let home = std::env::temp_dir().join(format!("pandastack-home-{}", std::process::id()));
        let folder = home.join(".config/pandastack");
        std::fs::create_dir_all(&folder).unwrap();
        let victim = home.join("victim");
        std::fs::write(&victim, "untouched").unwrap();
        // The temporary names that older and current versions use.
        for trap in ["config.new", "config.json.new"] {
            std::os::unix::fs::symlink(&victim, folder.join(trap)).unwrap();
        }
        std::fs::write(folder.join("config.json"), r#"{"theme":"dark","token":"old"}"#).unwrap();
        let path = write_config(&home, "http://127.0.0.1:1", Some("pds_secret")).unwrap();
        assert_eq!(private::open_mode(&path), None);
        let config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((&config["theme"], &config["token"]), (&json!("dark"), &json!("pds_secret")));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
        std::fs::remove_dir_all(&home).unwrap();
    }

    #[test]
    fn the_first_key_is_printed_to_a_person_and_to_nobody_else() {
        let made = BootstrapKey::Made(Secret::new("pds_secret".to_owned()));
        let kept = Path::new("/data/first-key");
        assert!(key_line(&made, true, kept).contains("pds_secret"));
        let line = key_line(&made, false, kept);
        assert!(!line.contains("pds_secret") && line.contains("/data/first-key"), "{line}");
        let given = BootstrapKey::Given(Secret::new("pds_secret".to_owned()));
        assert!(!key_line(&given, true, kept).contains("pds_secret"));
    }
}
