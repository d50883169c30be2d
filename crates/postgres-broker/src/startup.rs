//! The first messages of a connection: startup, SCRAM login, and the settings that make the text of
//! values predictable. And the message that cancels what a connection runs.

use bytes::BytesMut;
use postgres_protocol::{
    authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256},
    message::{backend::Message, frontend},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::{
    connect::{Connect, DatabaseStream, Login},
    fault::{BrokerFault, SessionFailure},
    limits,
    session::Session,
};

/// Settings of a connection for queries. They outrank the defaults of the role and the database,
/// and a reset returns to them.
const QUERY_SETTINGS: &[(&str, &str)] = &[
    ("application_name", "query-broker"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "1"),
];

/// Logs in on a fresh stream, for queries.
pub(crate) async fn log_in(
    stream: Box<dyn DatabaseStream>,
    login: &Login,
    database: &str,
) -> Result<Session, BrokerFault> {
    log_in_with(stream, login, database, QUERY_SETTINGS).await
}

/// Logs in on a fresh stream.
pub(crate) async fn log_in_with(
    stream: Box<dyn DatabaseStream>,
    login: &Login,
    database: &str,
    settings: &[(&str, &str)],
) -> Result<Session, BrokerFault> {
    let mut session = Session::new(stream);
    match greet(&mut session, login, database, settings).await {
        Ok(()) => Ok(session),
        Err(SessionFailure::Fault(fault)) => Err(fault.at_login()),
        Err(SessionFailure::Lost(reason)) => {
            Err(BrokerFault::unavailable(format!("the database does not answer: {reason}")))
        }
    }
}

/// Cancels what a connection runs, by a stream of its own. Best effort: there is no answer.
pub(crate) async fn cancel(connect: &dyn Connect, machine: &str, (process, secret): (i32, i32)) {
    let work = async {
        let Ok(mut stream) = connect.connect_awake(machine).await else { return };
        let mut message = BytesMut::new();
        frontend::cancel_request(process, secret, &mut message);
        if stream.write_all_buf(&mut message).await.is_ok() && stream.flush().await.is_ok() {
            // The server closes the stream once the signal is sent.
            let _ = stream.read_u8().await;
        }
    };
    if timeout(limits::CANCEL_MAX, work).await.is_err() {
        tracing::debug!(machine, "a cancel request was not answered");
    }
}

async fn greet(
    session: &mut Session,
    login: &Login,
    database: &str,
    settings: &[(&str, &str)],
) -> Result<(), SessionFailure> {
    let names = [("user", login.user.as_str()), ("database", database)];
    let settings = names.into_iter().chain(settings.iter().copied());
    session.send(|buffer| frontend::startup_message(settings, buffer)).await?;
    let mut scram: Option<ScramSha256> = None;
    loop {
        match session.next().await? {
            Message::AuthenticationOk => {}
            Message::AuthenticationSasl(_) => {
                let first = ScramSha256::new(login.password.reveal().as_bytes(), ChannelBinding::unsupported());
                let hello = first.message().to_vec();
                scram = Some(first);
                session.send(|buffer| frontend::sasl_initial_response(SCRAM_SHA_256, &hello, buffer)).await?;
            }
            Message::AuthenticationSaslContinue(body) => {
                check_rounds(body.data())?;
                let scram = scram.as_mut().ok_or_else(|| unexpected("SASL"))?;
                scram.update(body.data())?;
                let proof = scram.message().to_vec();
                session.send(|buffer| frontend::sasl_response(&proof, buffer)).await?;
            }
            Message::AuthenticationSaslFinal(body) => {
                scram.as_mut().ok_or_else(|| unexpected("SASL"))?.finish(body.data())?;
            }
            Message::BackendKeyData(body) => session.cancel_key = (body.process_id(), body.secret_key()),
            Message::ReadyForQuery(_) => return Ok(()),
            Message::ErrorResponse(body) => return Err(BrokerFault::from_server(&body).into()),
            // A password in clear text or under MD5 could be read by whoever runs the guest.
            _ => return Err(unexpected("a kind of login that is not SCRAM")),
        }
    }
}

/// Refuses a server that asks for so much hashing that it would stop our own work.
fn check_rounds(message: &[u8]) -> Result<(), SessionFailure> {
    let text = std::str::from_utf8(message).map_err(|_| unexpected("SASL"))?;
    let mut rounds = text.split(',').filter_map(|part| part.strip_prefix("i="));
    let is_cheap = |rounds: &str| rounds.parse::<u32>().is_ok_and(|rounds| rounds <= limits::SCRAM_ROUNDS_MAX);
    if rounds.all(is_cheap) { Ok(()) } else { Err(unexpected("too many SCRAM rounds")) }
}

fn unexpected(what: &str) -> SessionFailure {
    SessionFailure::Lost(format!("the server sent {what}"))
}
