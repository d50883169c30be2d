//! The broker: takes a request, finds or opens a connection, runs the work under its deadline, and
//! cancels on the server what nobody waits for any more.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    body::{Body, HttpBody, to_bytes},
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use pandastack_kit::Scope;
use serde_json::json;
use tokio::{
    sync::oneshot,
    time::{Instant, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    body::{AnswerHead, AnswerSink},
    connect::{Connect, ConnectRefused, Login},
    fault::BrokerFault,
    health::{DatabaseHealth, HealthChecks},
    job::BrokerJob,
    limits,
    memory::{LargeMemory, MemoryShare},
    pool::{PoolKey, RunningRequest, SessionPool},
    request::{self, BrokerRoute},
    session::Session,
    startup,
};

/// Answers requests for any number of databases. Clones share their connections.
#[derive(Clone)]
pub struct Broker {
    connect: Arc<dyn Connect>,
    pub(crate) pool: Arc<SessionPool>,
    health_checks: Arc<HealthChecks>,
    bodies: Arc<LargeMemory>,
    messages: Arc<LargeMemory>,
    scope: Scope,
}

/// The machine that a request is for.
#[derive(Clone, Copy, Debug)]
pub struct BrokerTarget<'a> {
    pub machine: &'a str,
    /// Whose machine it is. Each owner has a part of the memory for large bodies and rows.
    pub owner: &'a str,
}

/// Work whose body was read.
struct ReadJob {
    job: BrokerJob,
    owner: String,
    _memory: Option<MemoryShare>,
}

/// A connection that is wanted.
struct SessionWish<'a> {
    key: &'a PoolKey,
    login: &'a Login,
    owner: &'a str,
    timeout: Duration,
}

impl Broker {
    /// Makes a broker. Its tasks run in the scope.
    pub fn new(connect: Arc<dyn Connect>, scope: Scope) -> Self {
        let pool = Arc::new(SessionPool::default());
        let (swept, token) = (Arc::downgrade(&pool), scope.token());
        scope.start("broker idle connections", async move {
            let mut ticks = interval(limits::IDLE_SWEEP);
            while token.run_until_cancelled(ticks.tick()).await.is_some() {
                let Some(pool) = swept.upgrade() else { return };
                pool.expire(Instant::now());
            }
        });
        let (bodies, messages) = Default::default();
        Self { connect, pool, health_checks: Arc::default(), bodies, messages, scope }
    }

    /// Answers one request. The caller has checked the token, except for `GET /v1/health`.
    pub async fn answer(
        &self,
        target: BrokerTarget<'_>,
        login: Login,
        method: &Method,
        path: &str,
        body: Body,
    ) -> Response {
        let job = match request::route(method, path) {
            Ok(BrokerRoute::Health) => return self.health(target.machine, login).await,
            Ok(route) => self.read_job(target.owner, route, body).await,
            Err(fault) => Err(fault),
        };
        match job {
            Ok(job) => self.start(target.machine, login, job).await,
            Err(fault) => fault.into_response(),
        }
    }

    /// Whether requests of the machine run. Idle connections do not count.
    pub fn has_running(&self, machine: &str) -> bool {
        self.pool.has_running(machine)
    }

    /// Drops the machine's idle connections, and keeps none of those in use for later.
    pub fn forget(&self, machine: &str) {
        self.pool.forget(machine);
    }

    /// Reads the body that the route needs. A large one waits for memory.
    async fn read_job(&self, owner: &str, route: BrokerRoute, body: Body) -> Result<ReadJob, BrokerFault> {
        let has_body = matches!(
            route,
            BrokerRoute::Query | BrokerRoute::Exec | BrokerRoute::Transaction | BrokerRoute::CreateDatabase
        );
        if !has_body {
            return Ok(ReadJob { job: as_job(route, &[])?, owner: owner.to_owned(), _memory: None });
        }
        let reading = async {
            let bytes = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
            let bytes = bytes.unwrap_or(limits::BODY_BYTES_MAX).min(limits::BODY_BYTES_MAX);
            let memory = self.bodies.of(owner).take(bytes, limits::BODY_COPIES).await;
            Ok(ReadJob { job: as_job(route, &read(body).await?)?, owner: owner.to_owned(), _memory: memory })
        };
        let late = |_| BrokerFault::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
        timeout(limits::BODY_READ_MAX, reading).await.map_err(late)?
    }

    /// Starts the job's task and waits for its answer. Who stops waiting, stops the job.
    async fn start(&self, machine: &str, login: Login, job: ReadJob) -> Response {
        let Some(running) = self.pool.begin(machine) else {
            let error = "too many queries run at once; try again later";
            return BrokerFault::unavailable(error).with_code("53300").into_response();
        };
        let (head, answer) = oneshot::channel();
        let token = self.scope.token().child_token();
        let guard = token.clone().drop_guard();
        let (broker, machine) = (self.clone(), machine.to_owned());
        self.scope.start("broker request", async move {
            let held = broker.connect.hold(&machine);
            broker.work(&machine, &login, job, running, head, token).await;
            drop(held);
        });
        match answer.await {
            Ok(head) => AnswerHead::into_response(head, guard),
            Err(_) => BrokerFault::unavailable("the server is shutting down").into_response(),
        }
    }

    async fn work(
        &self,
        machine: &str,
        login: &Login,
        ReadJob { job, owner, _memory }: ReadJob,
        running: RunningRequest,
        head: oneshot::Sender<AnswerHead>,
        token: CancellationToken,
    ) {
        let mut sink = match job {
            BrokerJob::Transaction(_) => AnswerSink::whole(head),
            _ => AnswerSink::streaming(head),
        };
        let database = job.database(login).to_owned();
        let key = PoolKey { machine: machine.to_owned(), database, login: login.digest() };
        match &job {
            // Idle connections would keep a database from being dropped or copied.
            BrokerJob::DropDatabase(name) => self.pool.forget_database(machine, name),
            BrokerJob::CreateDatabase(_) => self.pool.forget_database(machine, "template1"),
            _ => {}
        }
        let wish = SessionWish { key: &key, login, owner: &owner, timeout: job.timeout() };
        let mut session = match token.run_until_cancelled(self.session(wish)).await {
            None => return,
            Some(Err(fault)) => return sink.fail(fault).await,
            Some(Ok(session)) => session,
        };
        let deadline = job.timeout() + limits::TIMEOUT_GRACE;
        let worked = token.run_until_cancelled(timeout(deadline, job.run(&mut session, login, &mut sink))).await;
        let outcome = match worked {
            None => Err(BrokerFault::unavailable("the request was given up")),
            Some(Err(_)) => Err(BrokerFault::late()),
            Some(Ok(outcome)) => outcome.map_err(BrokerFault::from),
        };
        self.give_back(&running, key, session).await;
        let last = async {
            match outcome {
                Ok(()) => sink.finish(job.status()).await,
                Err(fault) => sink.fail(fault).await,
            }
        };
        // Without its end, the answer breaks off.
        let _ = timeout(limits::ANSWER_TAIL_MAX, last).await;
    }

    /// Keeps a connection whose work is over, and cancels the work of any other.
    async fn give_back(&self, running: &RunningRequest, key: PoolKey, mut session: Session) {
        if !session.is_clean() {
            startup::cancel(&*self.connect, &key.machine, session.cancel_key).await;
            return session.close().await;
        }
        // The answer is read before the next use: nobody waits for it here.
        if let Ok(Ok(())) = timeout(limits::RESET_MAX, session.send_reset()).await {
            running.keep(key, session);
        }
    }

    /// Takes an idle connection, or opens one. Nothing of the caller has been sent yet, so that a
    /// stale connection can be replaced without doubt.
    async fn session(&self, wish: SessionWish<'_>) -> Result<Session, BrokerFault> {
        let set_timeout = format!("SET statement_timeout = {}", wish.timeout.as_millis());
        while let Some(mut session) = self.pool.take(wish.key) {
            let ready = async {
                session.settle().await?;
                session.run(&set_timeout).await
            };
            if let Ok(Ok(())) = timeout(limits::RESET_MAX, ready).await {
                return Ok(session);
            }
        }
        let open = async {
            let stream = self.connect.connect(&wish.key.machine).await.map_err(no_stream)?;
            let mut session = startup::log_in(stream, wish.login, &wish.key.database).await?;
            session.set_memory(self.messages.of(wish.owner));
            session.run(&set_timeout).await?;
            Ok(session)
        };
        let late = || BrokerFault::unavailable("the database did not answer in time");
        timeout(limits::CONNECT_MAX, open).await.unwrap_or_else(|_| Err(late()))
    }

    /// Answers `GET /v1/health`, which needs no token. Takes no place of a query, and none of the
    /// pool's connections.
    async fn health(&self, machine: &str, login: Login) -> Response {
        let (connect, asked) = (Arc::clone(&self.connect), machine.to_owned());
        let check = async move {
            match timeout(limits::HEALTH_MAX, sign_of_life(&*connect, &asked, &login)).await {
                Ok(Ok(())) => DatabaseHealth::Ok,
                Ok(Err(fault)) => {
                    tracing::debug!(machine = asked, error = %fault.error, "a database is not healthy");
                    DatabaseHealth::Unavailable
                }
                Err(_) => DatabaseHealth::Unavailable,
            }
        };
        match self.health_checks.ask(&self.scope, machine, check).await {
            DatabaseHealth::Ok => {
                Json(json!({ "status": "ok", "postgres": "ok", "ts": now_rfc3339() })).into_response()
            }
            DatabaseHealth::Unavailable => unhealthy(),
        }
    }
}

/// Logs in and out again, without waking the machine.
async fn sign_of_life(connect: &dyn Connect, machine: &str, login: &Login) -> Result<(), BrokerFault> {
    let stream = connect.connect_awake(machine).await.map_err(no_stream)?;
    startup::log_in(stream, login, &login.database).await?.close().await;
    Ok(())
}

fn no_stream(refused: ConnectRefused) -> BrokerFault {
    BrokerFault::unavailable(format!("database unavailable: {refused}"))
}

/// The answer to `GET /v1/health` for a database that cannot be asked.
pub fn unhealthy() -> Response {
    let body = json!({ "status": "degraded", "postgres": "unavailable", "ts": now_rfc3339() });
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

fn as_job(route: BrokerRoute, body: &[u8]) -> Result<BrokerJob, BrokerFault> {
    match route {
        BrokerRoute::Query => request::single(body).map(BrokerJob::Query),
        BrokerRoute::Exec => request::single(body).map(BrokerJob::Exec),
        BrokerRoute::Transaction => request::transaction(body).map(BrokerJob::Transaction),
        BrokerRoute::CreateDatabase => request::new_database(body).map(BrokerJob::CreateDatabase),
        BrokerRoute::DropDatabase(name) => Ok(BrokerJob::DropDatabase(name)),
        BrokerRoute::ListDatabases => Ok(BrokerJob::ListDatabases),
        BrokerRoute::Overview | BrokerRoute::Health => Ok(BrokerJob::Overview),
    }
}

async fn read(body: Body) -> Result<bytes::Bytes, BrokerFault> {
    to_bytes(body, limits::BODY_BYTES_MAX).await.map_err(|_| {
        let error = format!("the body is incomplete or larger than {} MiB", limits::BODY_BYTES_MAX / (1024 * 1024));
        BrokerFault::new(StatusCode::PAYLOAD_TOO_LARGE, error)
    })
}

/// Returns the current time in UTC, in whole seconds.
fn now_rfc3339() -> String {
    let now = time::OffsetDateTime::now_utc();
    format!("{}T{:02}:{:02}:{:02}Z", now.date(), now.hour(), now.minute(), now.second())
}
