//! The control plane's shared state, how it opens, and the port that the edge calls.

use std::{path::Path, sync::Arc};

use async_trait::async_trait;
use axum::{Router, middleware::from_fn_with_state};
use pandastack_door::{Counted, Places, ServeSettings};
use pandastack_kit::{Clock, Scope, random_bytes, trace::SpanQueue};
use pandastack_model::{Fault, SandboxId};
use pandastack_wire_fleet::{Caller, ControlPort, HostPort, PreviewGrant};
use tokio::sync::mpsc;

use crate::{
    app::{KeyCache, PreviewSigner, Promotions, Settle, TermLocks},
    boots::Boots,
    build::{Builds, ImageSettings, Images},
    door,
    guard::{self, Meters, Rates},
    hooks::{Flights, Sender, WebhookSettings},
    limits::{AUDIT_QUEUE_MAX, FOLLOWERS_MAX, SETTLE_QUEUE_MAX},
    loops,
    series::AllSeries,
    settings::ControlSettings,
    store::{AuditRow, Store, StoreError},
};

const FOLLOWERS: Counted =
    Counted { name: "followed event streams", quota: "quota.followers", full: "events.too_many" };

/// The control plane. Clones are the same one.
#[derive(Clone)]
pub struct Control {
    pub(crate) store: Store,
    pub(crate) host: Arc<dyn HostPort>,
    pub(crate) scope: Scope,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keys: Arc<KeyCache>,
    pub(crate) promotions: Arc<Promotions>,
    pub(crate) term_locks: Arc<TermLocks>,
    pub(crate) signer: Arc<PreviewSigner>,
    pub(crate) builds: Arc<Builds>,
    pub(crate) images: Arc<Images>,
    pub(crate) sender: Arc<Sender>,
    pub(crate) flights: Arc<Flights>,
    /// Queue of the task that updates sandbox rows.
    pub(crate) settle: mpsc::Sender<Settle>,
    pub(crate) settings: Arc<ControlSettings>,
    pub(crate) rates: Arc<Rates>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) boots: Arc<Boots>,
    pub(crate) series: Arc<AllSeries>,
    /// Slots for clients that follow event streams.
    pub(crate) followers: Places,
    /// Slots for connections with a request in progress.
    pub(crate) connections: Places,
    /// Lock taken while disk space is reserved for a volume, so that two requests cannot both get
    /// the last of a workspace's share.
    pub(crate) volume_gate: Arc<tokio::sync::Mutex<()>>,
    /// Queue of the task that writes the audit trail.
    pub(crate) audit_entries: mpsc::Sender<AuditRow>,
    /// Queue for the spans of requests; `None` if spans are not exported.
    pub(crate) spans: Option<SpanQueue>,
}

/// Why control did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("open the control database")]
    Database(#[source] StoreError),
    #[error("open the folder of builds")]
    Builds(#[source] std::io::Error),
    #[error("compare the database with the host")]
    Compare(#[source] StoreError),
}

impl Control {
    /// Opens the database, reconciles it with the host, and starts to follow the host's events.
    pub async fn open(
        database: &Path,
        host: Arc<dyn HostPort>,
        scope: Scope,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let store = Store::open(database, clock.now_ns()).await.map_err(OpenError::Database)?;
        let key = store.preview_key(random_bytes(), clock.now_ns()).await.map_err(OpenError::Database)?;
        let builds = Builds::open(&database.with_file_name("builds"), scope.clone()).map_err(OpenError::Builds)?;
        let (settle, unsettled) = mpsc::channel(SETTLE_QUEUE_MAX);
        let (audit_entries, unwritten) = mpsc::channel(AUDIT_QUEUE_MAX);
        let WebhookSettings { reach, roots } = WebhookSettings::default();
        let control = Self {
            store,
            host,
            sender: Arc::new(Sender::new(reach, roots, scope.clone())),
            flights: Arc::default(),
            images: Arc::new(Images::new(ImageSettings::default(), scope.clone())),
            scope,
            clock,
            keys: Arc::default(),
            promotions: Arc::default(),
            term_locks: Arc::default(),
            signer: Arc::new(PreviewSigner::new(key)),
            builds: Arc::new(builds),
            settle,
            settings: Arc::default(),
            rates: Arc::default(),
            meters: Arc::default(),
            boots: Arc::default(),
            series: Arc::default(),
            followers: Places::new(FOLLOWERS, FOLLOWERS_MAX),
            connections: ServeSettings::default().places(),
            volume_gate: Arc::default(),
            audit_entries,
            spans: None,
        };
        // Subscribe before the comparison, so that no event is lost between the two.
        let events = control.host.events();
        loops::compare(&control).await.map_err(OpenError::Compare)?;
        loops::finish(&control).await.map_err(OpenError::Compare)?;
        let listener = control.clone();
        control.scope.start("host events", async move { loops::listen(listener, events, unsettled).await });
        loops::prune(&control).await;
        control.scope.start("audit trail", loops::write_trail(control.clone(), unwritten));
        control.scope.start("samples", loops::sample(control.clone()));
        Ok(control)
    }

    /// Starts to deliver events to webhooks. Until this call events stay in the outbox, and
    /// webhooks may reach only the public internet.
    pub fn with_webhooks(mut self, settings: WebhookSettings) -> Self {
        let WebhookSettings { reach, roots } = settings;
        self.sender = Arc::new(Sender::new(reach, roots, self.scope.clone()));
        let courier = self.clone();
        self.scope.start("webhooks", async move { loops::deliver(courier).await });
        self
    }

    /// Fetches images under the operator's settings. Until this call only registries on the
    /// public internet are allowed, and an image name must contain its registry.
    pub fn with_images(mut self, settings: ImageSettings) -> Self {
        self.images = Arc::new(Images::new(settings, self.scope.clone()));
        self
    }

    /// Records spans of requests. Call it before the first request; the default records none.
    pub fn with_spans(self, spans: Option<SpanQueue>) -> Self {
        Self { spans, ..self }
    }

    /// Returns the routes of this room with their middleware.
    pub fn router(&self) -> Router {
        door::router(self.clone())
    }

    /// Adds support for idempotency keys to another room's creating routes.
    pub fn keyed<S: Clone + Send + Sync + 'static>(&self, routes: Router<S>) -> Router<S> {
        door::keyed(self, routes)
    }

    /// Returns every path of this room. A test compares them with the API document.
    pub fn paths() -> Vec<&'static str> {
        door::routes().paths().to_vec()
    }

    /// Replaces the default settings. Call it before the first request.
    pub fn with_settings(self, settings: ControlSettings) -> Self {
        Self { settings: Arc::new(settings), ..self }
    }

    /// Changes the number of event followers allowed at once. Call it before the first request.
    pub fn with_followers(self, followers: usize) -> Self {
        Self { followers: Places::new(FOLLOWERS, followers), ..self }
    }

    /// Shares the connection slots with another room's routes. Call it before the first request.
    pub fn with_connections(self, connections: Places) -> Self {
        Self { connections, ..self }
    }

    /// Wraps all routes of the server in the middleware that every request passes.
    pub fn guard(&self, app: Router) -> Router {
        app.layer(from_fn_with_state(self.clone(), guard::guard))
    }

    /// Closes the database. Requests after this fail.
    pub async fn close(&self) {
        self.store.close().await;
    }
}

#[async_trait]
impl ControlPort for Control {
    async fn authenticate(&self, token: Option<&str>) -> Result<Caller, Fault> {
        self.caller(token).await
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
}
