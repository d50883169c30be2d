//! `pandastack up`: runs control, edge and host in one process, from start to clean stop.

mod first_key;
mod mcp;
mod no_host;
mod tls;

use std::{
    io::{IsTerminal as _, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use clap::Args;
use pandastack_control::{
    AddressPolicy, AuthMode, BootstrapKey, Control, ControlPlace, ControlSettings, DatabaseAddress, ImageSettings,
    JwtSettings, OidcSettings, OperatorLimit, PlanName, Plans, PostgresUrl, ProxyTrust, RateSettings, SignInSettings,
    TelemetryError, TelemetrySettings, TrustRoots, WebhookSettings, start_telemetry,
};
use pandastack_door::{Places, ServeSettings, serve_tls, with_hsts};
use pandastack_edge::Edge;
use pandastack_host::{Host, HostSettings, HostSetup, RecoveryReport, ShutdownMode, net::NetSettings};
use pandastack_kit::{Scope, Secret, SystemClock, trace::SpanQueue};
use pandastack_model::{ByteSize, PreviewSuffix, TemplateName, Tier};
use pandastack_sys::oom;
use pandastack_vmm::Driver;
use pandastack_vmm_qemu::{Jail, QemuDriver, TierChoice, choose_tier};
use pandastack_wire_fleet::{ControlPort, HostPort};
use tokio::net::TcpListener;

use crate::{
    admin::take_staged,
    data_folder::{DEFAULT_DATA_DIR, OpenedDataFolder, warn_of_tier},
    mail::MailArgs,
    notify,
    stop::asked_to_stop,
    stripe,
};
use first_key::{keep_first_key, key_line, write_config};

/// How long open requests may take to finish after Ctrl-C.
const CLOSE_DEADLINE: Duration = Duration::from_secs(10);

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
    /// PostgreSQL database for the server's rows: postgres://user:password@host:5432/name. Without
    /// it they are in a file of the data folder
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<PostgresUrl>,
    /// Serve everything that needs no sandbox, beside a server with a host on the same PostgreSQL
    /// database
    #[arg(long, env = "PANDASTACK_NO_HOST")]
    no_host: bool,
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
    /// File with the plans of workspaces; "pandastack admin quota plans" prints the built-in ones
    #[arg(long, env = "PANDASTACK_PLANS", value_name = "FILE")]
    plans: Option<PathBuf>,
    /// Plan of a workspace that has none of its own: free, pro, team or custom. The first workspace
    /// is then not limited
    #[arg(long, env = "PANDASTACK_DEFAULT_PLAN", default_value = "custom", value_name = "PLAN")]
    default_plan: PlanName,
    /// Requests per second for one workspace; 0 means no limit. The default is 25, but the first
    /// workspace is then not limited
    #[arg(long, value_name = "PER_SECOND")]
    rate_limit: Option<u32>,
    /// Requests that one workspace may send at once after a pause
    #[arg(long, default_value_t = ControlSettings::default().rate.burst, value_name = "COUNT")]
    rate_burst: u32,
    /// Address of this server for people's browsers, such as https://pandastack.example.com. Links
    /// and logins at an identity provider use it. With https the default is the certificate's name
    #[arg(long, env = "PANDASTACK_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
    /// Believe the last address of X-Forwarded-For, because a proxy is in front of this server
    #[arg(long, env = "PANDASTACK_BEHIND_PROXY")]
    behind_proxy: bool,
    /// Whether credentials are checked. With stub, for development, a request without an API key is
    /// one of a fixed user; the server must then listen on a loopback address
    #[arg(long, env = "PANDASTACK_AUTH_MODE", default_value = "checked", value_name = "checked|stub")]
    auth_mode: AuthModeArg,
    /// Key set (JWKS) of an identity provider whose tokens are accepted as they are
    #[arg(long, env = "PANDASTACK_JWKS_URL", value_name = "URL")]
    jwks_url: Option<String>,
    /// Issuer that those tokens must have
    #[arg(long, env = "PANDASTACK_JWT_ISSUER", value_name = "URL", requires = "jwks_url")]
    jwt_issuer: Option<String>,
    /// Audience that those tokens must name. Without it, tokens for every other client of the
    /// provider are accepted too
    #[arg(long, env = "PANDASTACK_JWT_AUDIENCE", value_name = "NAME", requires = "jwks_url")]
    jwt_audience: Option<String>,
    /// Identity provider (OpenID Connect) at which people log in, such as
    /// https://accounts.example.com. Its redirect address is PUBLIC_URL/v1/auth/oidc/callback
    #[arg(long, env = "PANDASTACK_OIDC_ISSUER", value_name = "URL", requires = "oidc_client_id")]
    oidc_issuer: Option<String>,
    /// This server's client id at the identity provider
    #[arg(long, env = "PANDASTACK_OIDC_CLIENT_ID", value_name = "ID")]
    oidc_client_id: Option<String>,
    /// This server's client secret at the identity provider
    #[arg(long, env = "PANDASTACK_OIDC_CLIENT_SECRET", hide_env_values = true, value_name = "SECRET")]
    oidc_client_secret: Option<String>,
    #[command(flatten)]
    tls: tls::TlsArgs,
    #[command(flatten)]
    mail: MailArgs,
    #[command(flatten)]
    mcp: mcp::McpServerArgs,
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

/// Whether credentials are checked.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AuthModeArg {
    #[value(alias = "jwt")]
    Checked,
    Stub,
}

impl From<AuthModeArg> for AuthMode {
    fn from(mode: AuthModeArg) -> Self {
        match mode {
            AuthModeArg::Checked => AuthMode::Checked,
            AuthModeArg::Stub => AuthMode::Stub,
        }
    }
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
        self.check_auth_mode()?;
        let descriptors = raise_descriptors()?;
        if self.no_host {
            return self.run_without_host(descriptors).await;
        }
        let telemetry = self.telemetry()?;
        let tier = choose_tier(self.tier, self.require_isolation)?;
        let place = OpenedDataFolder::open(&self.data_dir)?;
        let lock = place.lock()?;
        // Bind before anything starts: a port in use must not affect the machines of another
        // server.
        let doorway = self.open_door(descriptors, Some(&self.data_dir)).await?;
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
        let state = self.control_place(place).await?;
        let control = self.open_control(&state, host.clone(), scope, (&doorway, spans)).await?;
        let key = control.bootstrap(self.bootstrap_key.clone()).await?;
        self.announce(place, &key, &format!("{} ({})", tier.tier, tier.reason), &doorway)?;
        self.start_serving(&control, host, scope, doorway)?;
        notify::ready(scope);
        asked_to_stop().await;
        notify::stopping();
        tell("stopping; press Ctrl-C again to stop at once");
        Ok(control)
    }

    /// Opens control with the operator's settings.
    async fn open_control(
        &self,
        state: &ControlPlace,
        host: Arc<dyn HostPort>,
        scope: &Scope,
        (doorway, spans): (&ApiListener, Option<SpanQueue>),
    ) -> Result<Control> {
        let (images, billing) = (self.image_settings()?, stripe::settings()?);
        let mail = self.mail.settings(doorway.public_url.as_deref())?;
        let control = Control::open(state, host, scope.clone(), Arc::new(SystemClock)).await?;
        let control = control.with_settings(self.control_settings()?);
        let control =
            control.with_sign_in(self.sign_in_settings(doorway.public_url.as_deref())?).context("set up logins")?;
        let reach = if self.webhook_allow_private { AddressPolicy::Private } else { AddressPolicy::Public };
        let control = control.with_webhooks(WebhookSettings { reach, ..WebhookSettings::default() });
        let connections = doorway.places.clone();
        let control = control.with_images(images).with_spans(spans).with_connections(connections);
        let control = match billing {
            Some(settings) => control.with_billing(settings),
            None => control,
        };
        let control = match mail {
            Some(settings) => control.with_mail(settings).context("set up e-mail")?,
            None => control,
        };
        Ok(control.with_metering())
    }

    /// Starts to answer requests.
    fn start_serving(
        &self,
        control: &Control,
        host: Arc<dyn HostPort>,
        scope: &Scope,
        doorway: ApiListener,
    ) -> Result<()> {
        let url = doorway.url()?;
        let edge = Edge::new(Arc::new(control.clone()) as Arc<dyn ControlPort>, host, scope.clone());
        let edge = edge.with_previews(self.preview_suffix.clone()).with_connections(doorway.places);
        let app = control.guard(control.router().merge(edge.router_around(|routes| control.keyed(routes))));
        let (public_url, issuer) = (doorway.public_url.as_deref(), self.jwt_issuer.as_deref());
        let app = self.mcp.add_to(app, control, public_url, issuer);
        // Not for previews: their host names are the tenants'.
        let (app, tls) = match doorway.https {
            Some(https) => (with_hsts(app, https.hsts_max_age), Some(https.start(&url, doorway.settings, scope)?)),
            None => (app, None),
        };
        let app = edge.before(app);
        scope.start("serve", serve_tls(doorway.listener, tls, app, scope.clone(), doorway.settings));
        Ok(())
    }

    /// Binds the listener of the API and loads its certificates.
    async fn open_door(&self, descriptors: u64, data_dir: Option<&Path>) -> Result<ApiListener> {
        let https = self.tls.prepare(self.listen, data_dir).await?;
        let listener = self.bind().await?;
        let settings = ServeSettings::within(descriptors);
        let port = listener.local_addr()?.port();
        let by_name = || https.as_ref().and_then(|https| https.public_url(port));
        let public_url = self.public_url.clone().or_else(by_name);
        if let Some(https) = &https {
            https.warn(public_url.as_deref(), &self.preview_suffix.to_string());
        }
        Ok(ApiListener { listener, places: settings.places(), settings, descriptors, https, public_url })
    }

    /// Binds the listener of the API.
    async fn bind(&self) -> Result<TcpListener> {
        TcpListener::bind(self.listen).await.with_context(|| {
            format!("listen on {}; is another server running? Choose another address with --listen", self.listen)
        })
    }

    /// Returns where control keeps its state, after a staged backup was put back.
    async fn control_place(&self, place: &OpenedDataFolder) -> Result<ControlPlace> {
        let state = ControlPlace::in_folder(&place.data_dir);
        if let Some(url) = &self.database_url {
            return Ok(state.with_database(DatabaseAddress::Server(url.clone())));
        }
        if let DatabaseAddress::File(path) = &state.database
            && take_staged(path).await?
        {
            tell("restored the database from the staged backup");
        }
        Ok(state)
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

    fn sign_in_settings(&self, public_url: Option<&str>) -> Result<SignInSettings> {
        let jwt = self.jwks_url.clone().map(|jwks_url| JwtSettings {
            jwks_url,
            issuer: self.jwt_issuer.clone(),
            audience: self.jwt_audience.clone(),
        });
        if jwt.is_some() && self.jwt_audience.is_none() {
            tell("WARNING: no --jwt-audience: tokens that the provider made for other clients are accepted too");
        }
        if self.oidc_client_id.is_some() && public_url.is_none() {
            bail!("--oidc-client-id needs the address of this server: set --public-url");
        }
        let oidc = match (&self.oidc_issuer, &self.oidc_client_id, public_url) {
            (Some(issuer), Some(client_id), Some(base)) => Some(OidcSettings {
                issuer: issuer.clone(),
                client_id: client_id.clone(),
                client_secret: Secret::new(self.oidc_client_secret.clone().unwrap_or_default()),
                redirect_url: format!("{}/v1/auth/oidc/callback", base.trim_end_matches('/')),
                scopes: OidcSettings::SCOPES.map(str::to_owned).to_vec(),
            }),
            _ => None,
        };
        let proxy = if self.behind_proxy { ProxyTrust::Last } else { ProxyTrust::None };
        let (dashboard_url, mode) = (public_url.map(str::to_owned), self.auth_mode.into());
        Ok(SignInSettings { jwt, oidc, dashboard_url, proxy, mode, ..SignInSettings::default() })
    }

    /// Without authentication, only programs of this machine may reach the server.
    fn check_auth_mode(&self) -> Result<()> {
        if self.auth_mode == AuthModeArg::Checked {
            return Ok(());
        }
        if !self.listen.ip().is_loopback() || self.behind_proxy {
            bail!(
                "--auth-mode stub lets everybody in who reaches this server: listen on a loopback address such as \
                 127.0.0.1:8080, without --behind-proxy"
            );
        }
        tell("WARNING: --auth-mode stub: every program of this machine can do everything; for development only");
        Ok(())
    }

    fn control_settings(&self) -> Result<ControlSettings> {
        let usual = ControlSettings::default();
        let rate = RateSettings {
            per_second: self.rate_limit.unwrap_or(usual.rate.per_second),
            burst: self.rate_burst,
            // An explicit rate limit applies to everybody. The default must not slow down an
            // operator who uses the server alone.
            operator: if self.rate_limit.is_some() { OperatorLimit::Limited } else { OperatorLimit::Free },
        };
        let plans = match &self.plans {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
                Plans::parse(&text).with_context(|| format!("read the plans in {}", path.display()))?
            }
            None => usual.plans,
        };
        Ok(ControlSettings {
            sandboxes_max: self.max_sandboxes,
            rate,
            plans,
            default_plan: self.default_plan,
            preview_suffix: self.preview_suffix.clone(),
        })
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
        let url = doorway.url()?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "pandastack {} on {url}", env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "  isolation  {tier}")?;
        let scheme = doorway.scheme();
        writeln!(out, "  previews   {scheme}://PORT-SANDBOX.{}:{}", self.preview_suffix, address.port())?;
        if let Some(https) = &doorway.https {
            writeln!(out, "  https      {}", https.summary())?;
        }
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
                let kept = keep_first_key(&place.data_dir, key)?;
                return Err(error.context(format!("the new API key is in {}", kept.display())));
            }
        };
        let is_terminal = std::io::stdout().is_terminal();
        let kept = match &config {
            Some(path) => path.clone(),
            None if is_terminal => PathBuf::new(),
            None => keep_first_key(&place.data_dir, key)?,
        };
        writeln!(out, "  key        {}", key_line(key, is_terminal, &kept))?;
        if let Some(path) = config {
            writeln!(out, "  clients    configured by {}", path.display())?;
        }
        writeln!(out, "  ready; stop with Ctrl-C")?;
        Ok(())
    }
}

/// The listener of the API, its connection limits and its certificates.
struct ApiListener {
    listener: TcpListener,
    settings: ServeSettings,
    places: Places,
    /// Most files that this process may open.
    descriptors: u64,
    https: Option<tls::HttpsSetup>,
    /// The address for people, if it is known.
    public_url: Option<String>,
}

impl ApiListener {
    fn scheme(&self) -> &'static str {
        if self.https.is_some() { "https" } else { "http" }
    }

    /// The address for clients on this computer. With https it must be the certificate's name.
    fn url(&self) -> Result<String> {
        match (&self.https, &self.public_url) {
            (Some(_), Some(url)) => Ok(url.trim_end_matches('/').to_owned()),
            _ => Ok(format!("{}://{}", self.scheme(), self.listener.local_addr()?)),
        }
    }
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
