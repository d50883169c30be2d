//! The control plane's shared state, how it opens, and the port that the edge calls.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;
use axum::Router;
use pandastack_billing::StripeClient;
use pandastack_database::DatabaseAddress;
use pandastack_door::{
    AttemptState, AuditRow, DoorBackend, Guard, IdempotencyKey, IdempotencyKeys, PlaceKind, Places, RequestRates,
    ServeSettings,
};
use pandastack_kit::{Clock, Scope, random_bytes, trace::SpanQueue};
use pandastack_mail::MailerError;
use pandastack_model::{Fault, SandboxId};
use pandastack_postgres_archive::Archive;
use pandastack_wire_fleet::{Caller, ControlPort, Credential, DatabaseLogin, HostPort, PreviewGrant, WorkspaceId};
use tokio::sync::mpsc;

use crate::{
    app::{
        CredentialCache, GoldenAttempts, OpenLinks, OrphanRetries, PreviewSigner, Promotions, ReconcileRequest,
        RunningDrills, ServerStarts, TermLocks, host_name, take_host_lease, taken_over,
    },
    bakes::TemplateBakes,
    boots::BootHistory,
    build::{Builds, ImageClient, ImageSettings},
    database_meters::DatabaseProxyReader,
    door,
    hooks::{DeliveriesInFlight, WebhookSender, WebhookSettings},
    limits::{
        ATTEMPTS_REMEMBERED, AUDIT_QUEUE_MAX, AUDIT_WAIT_MAX, FOLLOWERS_MAX, RECONCILE_QUEUE_MAX, SERVER_LEASE,
        SERVER_LEASE_DROP_MAX, STARTS_AT_ONCE,
    },
    loops::{self, EndedServers, UnwrittenEntry},
    mail::{MailSettings, OutgoingMail},
    meters::Meters,
    series::AllSeries,
    settings::{ControlSettings, DatabaseAddresses},
    sign_in::{SignIn, SignInError, SignInSettings},
    store::{LeaseTerm, ResourceKind, Store, StoreError},
    stripe::{self, BillingSettings},
    turns::{HeldWorkspaces, StartTurns},
};

/// The file of the SQLite database.
const DATABASE_FILE: &str = "control.db";
/// The file with the host's name.
const HOST_FILE: &str = "host-id";

const FOLLOWERS: PlaceKind =
    PlaceKind { name: "followed event streams", quota: "quota.followers", full: "events.too_many" };

/// The control plane. Clones are the same one.
#[derive(Clone)]
pub struct Control {
    pub(crate) store: Store,
    pub(crate) host: Arc<dyn HostPort>,
    pub(crate) scope: Scope,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Arc<ControlSettings>,
    pub(crate) access: CredentialChecks,
    pub(crate) sign_in: SignIn,
    /// Links that log in once.
    pub(crate) links: Arc<OpenLinks>,
    pub(crate) locks: RequestLocks,
    /// The archive of databases; set once, after the start. `None` in it: there is no archive.
    pub(crate) archive: Arc<OnceLock<Option<Archive>>>,
    pub(crate) drills: RunningDrills,
    pub(crate) server_starts: ServerStarts,
    pub(crate) golden_attempts: GoldenAttempts,
    pub(crate) templates: TemplateBuilding,
    pub(crate) webhooks: WebhookDelivery,
    pub(crate) usage: UsageFigures,
    pub(crate) front: FrontDoor,
    /// `None` if billing is off.
    pub(crate) stripe: Option<StripeClient>,
    /// `None` if this server sends no e-mail.
    pub(crate) mail: Option<OutgoingMail>,
    /// Queue of the task that updates sandbox rows.
    pub(crate) reconcile: mpsc::Sender<ReconcileRequest>,
}

/// Checks of credentials.
#[derive(Clone)]
pub(crate) struct CredentialChecks {
    pub(crate) cache: Arc<CredentialCache>,
    pub(crate) signer: Arc<PreviewSigner>,
}

/// Locks that span several steps of a request.
#[derive(Clone)]
pub(crate) struct RequestLocks {
    /// Taken for a tree while one of its copies is promoted.
    pub(crate) promotions: Arc<Promotions>,
    /// Taken for a sandbox while its egress rules or idle limit change.
    pub(crate) terms: Arc<TermLocks>,
    /// Taken while disk space is reserved for a volume, so that two requests cannot both get the
    /// last of a workspace's share.
    pub(crate) volumes: Arc<tokio::sync::Mutex<()>>,
    /// Taken while the sealed machine is made that databases start from.
    pub(crate) golden: Arc<tokio::sync::Mutex<()>>,
    /// Taken while a sandbox starts.
    pub(crate) starts: StartTurns,
    /// Taken while the sandboxes of a held workspace are put to sleep.
    pub(crate) held: HeldWorkspaces,
    /// Other servers that seem to have ended.
    pub(crate) ended: Arc<EndedServers>,
    /// Taken while what was put aside is looked after.
    pub(crate) orphans: Arc<tokio::sync::Mutex<OrphanRetries>>,
}

/// Builds of templates, and the images that they fetch.
#[derive(Clone)]
pub(crate) struct TemplateBuilding {
    pub(crate) builds: Arc<Builds>,
    pub(crate) images: Arc<ImageClient>,
    /// Templates of the server that are being made.
    pub(crate) bakes: TemplateBakes,
}

/// Deliveries to webhooks.
#[derive(Clone)]
pub(crate) struct WebhookDelivery {
    pub(crate) sender: Arc<WebhookSender>,
    pub(crate) flights: Arc<DeliveriesInFlight>,
}

/// Figures that are kept in memory.
#[derive(Clone, Default)]
pub(crate) struct UsageFigures {
    pub(crate) meters: Arc<Meters>,
    pub(crate) boots: Arc<BootHistory>,
    pub(crate) series: Arc<AllSeries>,
}

/// What the front door counts and queues.
#[derive(Clone)]
pub(crate) struct FrontDoor {
    pub(crate) rates: Arc<RequestRates>,
    /// Slots for clients that follow event streams.
    pub(crate) followers: Places,
    /// Slots for connections with a request in progress.
    pub(crate) connections: Places,
    /// Queue of the task that writes the audit trail.
    pub(crate) audit_entries: mpsc::Sender<UnwrittenEntry>,
    /// Queue for the spans of requests; `None` if spans are not exported.
    pub(crate) spans: Option<SpanQueue>,
    /// Counters of the proxy for PostgreSQL clients; `None` if this server has no proxy.
    pub(crate) database_proxy: Option<DatabaseProxyReader>,
}

/// Where control keeps its state.
#[derive(Clone, Debug)]
pub struct ControlPlace {
    pub database: DatabaseAddress,
    /// The folder of template builds. Not used without a host.
    pub builds: PathBuf,
    /// The file with the host's name, by which it takes its own leases over after a crash. Not used
    /// without a host.
    pub host_id: PathBuf,
}

impl ControlPlace {
    /// Keeps everything in one folder, with SQLite as the database.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            database: DatabaseAddress::File(folder.join(DATABASE_FILE)),
            builds: folder.join("builds"),
            host_id: folder.join(HOST_FILE),
        }
    }

    /// Keeps the rows in another database.
    #[must_use]
    pub fn with_database(self, database: DatabaseAddress) -> Self {
        Self { database, ..self }
    }

    /// Keeps nothing but rows, for a server without a host.
    pub fn without_folder(database: DatabaseAddress) -> Self {
        Self { database, builds: PathBuf::new(), host_id: PathBuf::new() }
    }
}

/// Why control did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("open the control database")]
    Database(#[source] StoreError),
    #[error("set up logins")]
    SignIn(#[source] SignInError),
    #[error("open the folder of builds")]
    Builds(#[source] std::io::Error),
    #[error("read the host's name")]
    HostName(#[source] std::io::Error),
    #[error(
        "another server with a host uses this database; start this one with --no-host, or stop the other one (if it \
         was killed, try again in {seconds} s)"
    )]
    SecondHost { seconds: u64 },
    #[error("compare the database with the host")]
    Compare(#[source] StoreError),
    #[error("settle the restore of the database, before anything on the host is changed")]
    Restore(#[source] Fault),
}

impl Control {
    /// Opens the database, reconciles it with the host, and starts to follow the host's events. A
    /// server without a host leaves the rows of sandboxes to the server that has it.
    pub async fn open(
        place: &ControlPlace,
        host: Arc<dyn HostPort>,
        scope: Scope,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let mut store = Store::open(&place.database, clock.now_ns()).await.map_err(OpenError::Database)?;
        if host.is_here() {
            store = store.with_lease_holder(&host_name(&place.host_id).map_err(OpenError::HostName)?);
            take_host_lease(&store, clock.now_ns()).await?;
        }
        let key = store.preview_key(random_bytes(), clock.now_ns()).await.map_err(OpenError::Database)?;
        let builds = match host.is_here() {
            true => Builds::open(&place.builds, scope.clone()).map_err(OpenError::Builds)?,
            false => Builds::at(&place.builds, scope.clone()),
        };
        let sign_in = SignIn::new(SignInSettings::default(), clock.clone(), &scope).map_err(OpenError::SignIn)?;
        let revoked = store.last_revocation().await.map_err(OpenError::Database)?;
        let (reconcile, unreconciled) = mpsc::channel(RECONCILE_QUEUE_MAX);
        let (audit_entries, unwritten) = mpsc::channel(AUDIT_QUEUE_MAX);
        let WebhookSettings { reach, roots } = WebhookSettings::default();
        let control = Self {
            store,
            host,
            access: CredentialChecks { cache: Arc::default(), signer: Arc::new(PreviewSigner::new(key)) },
            sign_in,
            links: Arc::default(),
            locks: RequestLocks {
                promotions: Arc::default(),
                terms: Arc::default(),
                volumes: Arc::default(),
                golden: Arc::default(),
                starts: StartTurns::new(STARTS_AT_ONCE),
                held: HeldWorkspaces::default(),
                ended: Arc::default(),
                orphans: Arc::default(),
            },
            archive: Arc::default(),
            drills: RunningDrills::default(),
            server_starts: ServerStarts::default(),
            golden_attempts: GoldenAttempts::default(),
            templates: TemplateBuilding {
                builds: Arc::new(builds),
                images: Arc::new(ImageClient::new(ImageSettings::default(), scope.clone())),
                bakes: TemplateBakes::default(),
            },
            webhooks: WebhookDelivery {
                sender: Arc::new(WebhookSender::new(reach, roots, scope.clone())),
                flights: Arc::default(),
            },
            usage: UsageFigures::default(),
            front: FrontDoor {
                rates: Arc::default(),
                followers: Places::new(FOLLOWERS, FOLLOWERS_MAX),
                connections: ServeSettings::default().places(),
                audit_entries,
                spans: None,
                database_proxy: None,
            },
            stripe: None,
            mail: None,
            reconcile,
            settings: Arc::default(),
            scope,
            clock,
        };
        control.begin_lease().await.map_err(OpenError::Database)?;
        if control.host.is_here() {
            control.follow_host(unreconciled).await?;
        }
        loops::prune(&control).await;
        control.scope.start("audit trail", loops::write_trail(control.clone(), unwritten));
        control.scope.start("samples", loops::sample(control.clone()));
        control.scope.start("revocations", loops::follow_revocations(control.clone(), revoked));
        control.scope.start("old logins", loops::prune_access(control.clone()));
        Ok(control)
    }

    /// Shows other servers that this one runs, and starts to look for those that have ended. Before
    /// the first request: without a lease the server would seem to have ended.
    async fn begin_lease(&self) -> Result<(), StoreError> {
        let term = LeaseTerm::new(self.clock.now_ns(), SERVER_LEASE);
        self.store.take_lease(&self.store.server_lease(), term).await?;
        self.scope.start("server lease", loops::hold_server(self.clone()));
        self.scope.start("ended servers", loops::finish_for_ended(self.clone()));
        Ok(())
    }

    /// Reconciles the rows with the host, and starts to follow its events.
    async fn follow_host(&self, unreconciled: mpsc::Receiver<ReconcileRequest>) -> Result<(), OpenError> {
        self.scope.start("host lease", loops::hold_host(self.clone()));
        // Subscribe before the comparison, so that no event is lost between the two.
        let events = self.host.events();
        let restored = self.settle_restore().await.map_err(OpenError::Restore)?;
        loops::compare(self, restored.as_ref()).await.map_err(OpenError::Compare)?;
        loops::finish(self).await.map_err(OpenError::Compare)?;
        self.scope.start("what was put aside", loops::look_after_orphans(self.clone()));
        let listener = self.clone();
        self.scope.start("host events", async move { loops::listen(listener, events, unreconciled).await });
        Ok(())
    }

    /// Sets the archive of databases, or that there is none, and starts to look after databases.
    /// Restores wait for it.
    pub fn with_database_archive(self, archive: Option<Archive>) -> Self {
        let has_archive = archive.is_some();
        if self.archive.set(archive).is_err() {
            tracing::error!("the archive of databases was set twice");
        }
        if self.host.is_here() {
            self.scope.start("look after databases", self.clone().care_for_databases());
            if has_archive {
                self.scope.start("follow the archive", self.clone().follow_archive());
            }
        }
        self
    }

    /// Starts to deliver events to webhooks. Until this call events stay in the outbox, and
    /// webhooks may reach only the public internet.
    pub fn with_webhooks(mut self, settings: WebhookSettings) -> Self {
        let WebhookSettings { reach, roots } = settings;
        self.webhooks.sender = Arc::new(WebhookSender::new(reach, roots, self.scope.clone()));
        let courier = self.clone();
        self.scope.start("webhooks", async move { loops::deliver(courier).await });
        self
    }

    /// Fetches images under the operator's settings. Until this call only registries on the
    /// public internet are allowed, and an image name must contain its registry.
    pub fn with_images(mut self, settings: ImageSettings) -> Self {
        self.templates.images = Arc::new(ImageClient::new(settings, self.scope.clone()));
        self
    }

    /// Shows the templates on a board beside those of the host. Call it before the first request.
    pub fn with_bakes(mut self, bakes: TemplateBakes) -> Self {
        self.templates.bakes = bakes;
        self
    }

    /// Lets people log in under the operator's settings. Call it before the first request; until
    /// then only passwords work.
    pub fn with_sign_in(mut self, settings: SignInSettings) -> Result<Self, SignInError> {
        self.sign_in = SignIn::new(settings, self.clock.clone(), &self.scope)?;
        Ok(self)
    }

    /// Connects the server to Stripe. Call it before the first request; until then billing is off.
    pub fn with_billing(mut self, settings: BillingSettings) -> Self {
        self.stripe = Some(stripe::client(settings, &self.scope));
        self
    }

    /// Sends e-mail. Call it before the first request; until then no letter is written.
    pub fn with_mail(mut self, settings: MailSettings) -> Result<Self, MailerError> {
        self.mail = Some(OutgoingMail::start(settings, &self.scope)?);
        Ok(self)
    }

    /// Starts to meter usage. Until this call usage is counted only on request.
    pub fn with_metering(self) -> Self {
        self.scope.start("metering", loops::meter(self.clone()));
        self
    }

    /// Records spans of requests. Call it before the first request; the default records none.
    pub fn with_spans(mut self, spans: Option<SpanQueue>) -> Self {
        self.front.spans = spans;
        self
    }

    /// Shows the counters of the proxy for PostgreSQL clients in the metrics.
    pub fn with_database_proxy(mut self, reader: DatabaseProxyReader) -> Self {
        self.front.database_proxy = Some(reader);
        self
    }

    /// Returns the routes of this room with their middleware.
    pub fn router(&self) -> Router {
        door::router(self.clone())
    }

    /// Adds support for idempotency keys to another room's creating routes.
    pub fn keyed<S: Clone + Send + Sync + 'static>(&self, routes: Router<S>) -> Router<S> {
        self.idempotency_keys().layer(routes)
    }

    /// Returns the idempotency keys of creating requests.
    pub(crate) fn idempotency_keys(&self) -> IdempotencyKeys {
        IdempotencyKeys::new(Arc::new(self.clone()), self.scope.clone())
    }

    /// Returns every path of this room. A test compares them with the API document.
    pub fn paths() -> Vec<&'static str> {
        door::routes().paths().to_vec()
    }

    /// Replaces the default settings. Call it before the first request.
    pub fn with_settings(self, settings: ControlSettings) -> Self {
        Self { settings: Arc::new(settings), ..self }
    }

    /// Sets where clients reach managed databases. Call it before the first request.
    pub fn with_database_addresses(self, databases: DatabaseAddresses) -> Self {
        let settings = ControlSettings { databases, ..(*self.settings).clone() };
        self.with_settings(settings)
    }

    /// Changes the number of event followers allowed at once. Call it before the first request.
    pub fn with_followers(mut self, followers: usize) -> Self {
        self.front.followers = Places::new(FOLLOWERS, followers);
        self
    }

    /// Shares the connection slots with another room's routes. Call it before the first request.
    pub fn with_connections(mut self, connections: Places) -> Self {
        self.front.connections = connections;
        self
    }

    /// Wraps all routes of the server in the middleware that every request passes.
    pub fn guard(&self, app: Router) -> Router {
        let FrontDoor { rates, connections, spans, .. } = self.front.clone();
        let guard = Guard {
            backend: Arc::new(self.clone()),
            clock: self.clock.clone(),
            connections,
            rate: self.settings.rate,
            rates,
            proxy: self.sign_in.proxy,
            meters: self.usage.meters.requests.clone(),
            spans,
        };
        guard.layer(app)
    }

    /// Closes the database. Requests after this fail. Others may then finish what was not finished.
    pub async fn close(&self) {
        let name = self.store.server_lease();
        match tokio::time::timeout(SERVER_LEASE_DROP_MAX, self.store.drop_lease(&name)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "could not give up the lease of this server"),
            Err(_) => tracing::debug!("no time to give up the lease of this server"),
        }
        self.store.close().await;
    }
}

#[async_trait]
impl ControlPort for Control {
    async fn authenticate(&self, credential: Credential<'_>) -> Result<Caller, Fault> {
        self.caller(credential).await
    }

    async fn admit(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault> {
        self.reachable(caller, sandbox).await
    }

    async fn admit_look(&self, caller: &Caller, sandbox: SandboxId) -> Result<(), Fault> {
        self.store.state(&caller.workspace, sandbox).await?.map(drop).ok_or_else(Fault::no_sandbox)
    }

    async fn admit_anyone(&self, sandbox: SandboxId) -> Result<(), Fault> {
        self.reachable_by_anyone(sandbox).await
    }

    async fn open_preview(&self, token: &str) -> Result<PreviewGrant, Fault> {
        self.read_preview(token).await
    }

    async fn admit_database(&self, database: SandboxId) -> Result<DatabaseLogin, Fault> {
        self.admit_to_database(database).await
    }

    async fn open_broker(&self, database: SandboxId, token: &str) -> Result<DatabaseLogin, Fault> {
        self.broker_login(database, token).await
    }

    async fn revive_database(&self, database: SandboxId) -> Result<(), Fault> {
        self.start_database_server(database).await
    }
}

#[async_trait]
impl DoorBackend for Control {
    async fn record(&self, entry: AuditRow) {
        // First, because a client that hangs up ends this work. Waits briefly for room; after that
        // the request is only logged.
        let unwritten = UnwrittenEntry::Request(entry.clone());
        if let Err(error) = self.front.audit_entries.send_timeout(unwritten, AUDIT_WAIT_MAX).await {
            tracing::warn!(%error, "could not add a request to the audit trail");
        }
        self.tell_request(&entry).await;
    }

    fn record_at_once(&self, entry: AuditRow) {
        self.tell_cut_request(&entry);
        if let Err(error) = self.front.audit_entries.try_send(UnwrittenEntry::Request(entry)) {
            tracing::warn!(%error, "could not add a request to the audit trail");
        }
    }

    fn count_request(&self, workspace: &WorkspaceId, status: u16, took: Duration) {
        // Figures are shown by the server with the host.
        if self.host.is_here() {
            self.usage.series.add_request(workspace, status, took, self.clock.now_ns());
        }
    }

    async fn begin_attempt(&self, attempt: &IdempotencyKey, digest: &str) -> Result<AttemptState, Fault> {
        let now_ns = self.clock.now_ns();
        let since_ns = now_ns.saturating_sub(ATTEMPTS_REMEMBERED.as_nanos() as u64);
        Ok(self.store.begin_attempt(attempt, digest, now_ns, since_ns).await?)
    }

    async fn answer_attempt(&self, attempt: &IdempotencyKey, status: u16, body: Option<&[u8]>) -> Result<(), Fault> {
        if self.store.answer_attempt(attempt, status, body).await? { Ok(()) } else { Err(taken_over()) }
    }

    async fn drop_attempt(&self, attempt: &IdempotencyKey) -> Result<(), Fault> {
        Ok(self.store.drop_attempt(attempt).await?)
    }

    async fn note_made_in_guest(&self, caller: &Caller, path: String) -> Result<(), Fault> {
        self.note_made(caller, ResourceKind::InGuest, &[path]).await
    }
}
