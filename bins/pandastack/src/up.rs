//! `pandastack up`: runs control, edge and host in one process, from start to clean stop.

mod announce;
mod bakes;
mod dashboard;
mod database_archive;
mod databases;
mod first_key;
mod images;
mod limits;
mod listener;
mod log;
mod machines;
mod mcp;
mod no_host;
mod sign_in;
mod telemetry;
mod tls;

use std::{io::Write as _, net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use pandastack_control::{
    AddressPolicy, Control, ControlPlace, DatabaseAddress, PostgresUrl, TemplateBakes, WebhookSettings, start_telemetry,
};
use pandastack_door::{serve_tls, with_hsts};
use pandastack_edge::Edge;
use pandastack_kit::{Scope, SystemClock, trace::SpanQueue};
use pandastack_model::PreviewSuffix;
use pandastack_vmm_qemu::TierChoice;
use pandastack_web::Dashboard;
use pandastack_wire_fleet::{ControlPort, HostPort};

use crate::{
    admin::take_staged,
    bake::clear_killed,
    data_folder::{DEFAULT_DATA_DIR, OpenedDataFolder},
    mail::MailArgs,
    notify,
    orphans::orphans_line,
    stop::asked_to_stop,
    stripe,
};
use announce::StartNotes;
use bakes::{BakeMachines, BakePlan};
use database_archive::ArchiveGateway;
use listener::{ApiListener, raise_descriptors};
use log::{LogFormat, start_log};

/// How long open requests may take to finish after Ctrl-C.
const CLOSE_DEADLINE: Duration = Duration::from_secs(10);

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
    #[command(flatten)]
    machines: machines::MachineArgs,
    /// Domain of public previews: PORT-SANDBOX.DOMAIN leads to that port
    #[arg(long, default_value = "localhost", env = "PANDASTACK_PREVIEW_SUFFIX", value_name = "DOMAIN")]
    preview_suffix: PreviewSuffix,
    #[command(flatten)]
    bakes: bakes::TemplateBakeArgs,
    #[command(flatten)]
    limits: limits::LimitArgs,
    /// Address of this server for people's browsers, such as https://pandastack.example.com. Links
    /// and logins at an identity provider use it. With https the default is the certificate's name
    #[arg(long, env = "PANDASTACK_PUBLIC_URL", value_name = "URL")]
    public_url: Option<String>,
    #[command(flatten)]
    sign_in: sign_in::SignInArgs,
    #[command(flatten)]
    tls: tls::TlsArgs,
    #[command(flatten)]
    databases: databases::DatabaseArgs,
    #[command(flatten)]
    database_archive: database_archive::ArchiveArgs,
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
    #[command(flatten)]
    images: images::ImageArgs,
    #[command(flatten)]
    telemetry: telemetry::TelemetryArgs,
    /// API key to create at the first start, instead of a random one
    #[arg(long, env = "PANDASTACK_BOOTSTRAP_KEY", hide = true, hide_env_values = true)]
    bootstrap_key: Option<String>,
}

/// What a server needs to begin to serve.
struct ServerStart<'a> {
    doorway: ApiListener,
    tier: &'a TierChoice,
    spans: Option<SpanQueue>,
    bakes: Option<BakePlan>,
}

impl UpArgs {
    pub async fn run(self) -> Result<ExitCode> {
        start_log(self.log_format);
        self.sign_in.check_auth_mode(self.listen)?;
        let descriptors = raise_descriptors()?;
        if self.no_host {
            return self.run_without_host(descriptors).await;
        }
        let telemetry = self.telemetry.settings()?;
        let tier = self.machines.choose_tier()?;
        let bakes = self.bakes.plan()?;
        let place = OpenedDataFolder::open(&self.data_dir)?;
        let lock = place.lock()?;
        clear_killed(&place).await.context("clean up after a killed bake")?;
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
        self.machines.warn(tier.tier);
        let driver = self.machines.driver(tier.tier, &place, &machines)?;
        let gateway = Arc::new(ArchiveGateway::default());
        let host = self.machines.start_host(&place, driver, gateway.clone(), descriptors).await?;
        let host = Arc::new(host);
        let start = ServerStart { doorway, tier: &tier, spans, bakes };
        let served = self.serve(&place, (host.clone(), &gateway), &scope, start).await;
        // Always runs, also if serving failed.
        let close = async {
            scope.close(CLOSE_DEADLINE).await;
            host.close_as(self.machines.shutdown_mode()).await;
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
        (host, gateway): (Arc<dyn HostPort>, &ArchiveGateway),
        scope: &Scope,
        start: ServerStart<'_>,
    ) -> Result<Control> {
        let ServerStart { doorway, tier, spans, bakes } = start;
        let state = self.control_place(place).await?;
        let https = doorway.https.as_ref().map(|https| &https.set);
        let databases = self.databases.open(&place.data_dir, doorway.public_url.as_deref(), https).await?;
        let control = self.open_control(&state, host.clone(), scope, (&doorway, spans)).await?;
        let control =
            control.with_database_addresses(databases.addresses.clone()).with_database_proxy(databases.reader());
        let control = self.database_archive.start(&place.data_dir, control, gateway, scope)?;
        let board = TemplateBakes::default();
        let control = control.with_bakes(board.clone());
        let bakes = bakes.map(|plan| plan.announce(place, &board));
        let names = self.look_up_names(&databases).await;
        let unprepared = control.unprepared_templates().await;
        let control = control.with_prepared_databases();
        let key = control.bootstrap(self.bootstrap_key.clone()).await?;
        // Before it is announced: a signal would end a process that does not listen yet.
        let stop = asked_to_stop();
        let link = control.operator_link();
        if let Some(line) = orphans_line(&control.count_orphans().await?, &self.data_dir) {
            tell(&line);
        }
        let started = StartNotes {
            tier: format!("{} ({})", tier.tier, tier.reason),
            doorway: &doorway,
            databases: &databases,
            baking: bakes.as_ref().map(BakePlan::names).unwrap_or_default(),
            names,
            unprepared: &unprepared,
        };
        self.announce(place, (&key, link), &started)?;
        databases.start(Arc::new(control.clone()), host.clone(), scope)?;
        self.start_serving(&control, host, scope, doorway)?;
        notify::ready(scope);
        if let Some(plan) = bakes {
            plan.start(place, BakeMachines { tier: tier.tier, jail: self.machines.jail() }, board, scope);
        }
        stop.await;
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
        let (images, billing) = (self.images.settings()?, stripe::settings()?);
        let mail = self.mail.settings(doorway.public_url.as_deref())?;
        let control = Control::open(state, host, scope.clone(), Arc::new(SystemClock)).await?;
        let control = control.with_settings(self.limits.settings(&self.preview_suffix)?);
        let control =
            control.with_sign_in(self.sign_in.settings(doorway.public_url.as_deref())?).context("set up logins")?;
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
        let edge = edge.with_previews(self.preview_suffix.clone()).with_connections(doorway.places.clone());
        let app = control.guard(control.router().merge(edge.router_around(|routes| control.keyed(routes))));
        let (public_url, issuer) = (doorway.public_url.as_deref(), self.sign_in.jwt_issuer());
        let app = self.mcp.add_to(app, control, public_url, issuer);
        let app = Dashboard::new(doorway.places).before(app);
        // Not for previews: their host names are the tenants'.
        let (app, tls) = match doorway.https {
            Some(https) => (with_hsts(app, https.hsts_max_age), Some(https.start(&url, doorway.settings, scope)?)),
            None => (app, None),
        };
        let app = edge.before(app);
        scope.start("serve", serve_tls(doorway.listener, tls, app, scope.clone(), doorway.settings));
        Ok(())
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
}

/// Writes a message to standard error. A write error must not stop the server or its shutdown, so
/// it is ignored.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
