//! What a request does on a connection, and the answer it writes. Nothing here knows of pools,
//! deadlines or cancelling.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::DataRowBody;
use serde_json::{json, value::RawValue};

use crate::{
    body::AnswerSink,
    catalog::TypeShape,
    connect::Login,
    fault::{BrokerFault, SessionFailure},
    limits, param,
    request::{BrokerQuery, BrokerStatement, NewDatabase, quoted},
    session::{ResultColumn, Session},
    value,
};

/// Version of the broker that `GET /v1/info` names.
const BROKER_VERSION: &str = "1.0.0";
/// The database that is always there, for work on other databases.
const MAINTENANCE: &str = "postgres";

/// Checked work for one connection.
pub(crate) enum BrokerJob {
    Overview,
    Query(BrokerQuery),
    Exec(BrokerQuery),
    Transaction(BrokerQuery),
    ListDatabases,
    CreateDatabase(NewDatabase),
    DropDatabase(String),
}

impl BrokerJob {
    /// Returns the database to connect to.
    pub fn database<'a>(&'a self, login: &'a Login) -> &'a str {
        match self {
            Self::Query(query) | Self::Exec(query) | Self::Transaction(query) => &query.database,
            Self::Overview => &login.database,
            Self::ListDatabases | Self::CreateDatabase(_) | Self::DropDatabase(_) => MAINTENANCE,
        }
    }

    /// Returns how long it may run.
    pub fn timeout(&self) -> Duration {
        match self {
            Self::Query(query) | Self::Exec(query) | Self::Transaction(query) => query.timeout,
            Self::Overview | Self::ListDatabases => limits::QUERY_DEFAULT,
            Self::CreateDatabase(_) | Self::DropDatabase(_) => limits::TRANSACTION_DEFAULT,
        }
    }

    /// Returns the status of success.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::CreateDatabase(_) => StatusCode::CREATED,
            Self::DropDatabase(_) => StatusCode::NO_CONTENT,
            _ => StatusCode::OK,
        }
    }

    /// Does the work.
    pub async fn run(&self, session: &mut Session, login: &Login, sink: &mut AnswerSink) -> Result<(), SessionFailure> {
        let begun = Instant::now();
        match self {
            Self::Overview => overview(session, sink).await,
            Self::Query(query) => {
                for statement in &query.statements {
                    let count = select(session, statement, query.rows_max, sink).await?.0;
                    finish(sink, &format!(",\"count\":{count}"), begun);
                }
                Ok(())
            }
            Self::Exec(query) => {
                let mut affected = 0_u64;
                for statement in &query.statements {
                    affected = affected.saturating_add(execute(session, statement).await?);
                }
                let duration = begun.elapsed().as_millis() as u64;
                write_json(sink, &json!({ "rows_affected": affected, "duration_ms": duration }));
                Ok(())
            }
            Self::Transaction(query) => transaction(session, query, sink).await.map(|()| finish(sink, "", begun)),
            Self::ListDatabases => list_databases(session, sink).await,
            Self::CreateDatabase(new) => create_database(session, new, login, sink).await,
            // Else idle connections of the pooler would keep it for ten minutes.
            Self::DropDatabase(name) => session.run(&format!("DROP DATABASE {} WITH (FORCE)", quoted(name))).await,
        }
    }
}

/// Runs one statement and writes `{"columns":[…],"rows":[…]`, without the closing brace. Returns
/// how many rows came and how many columns there are.
async fn select(
    session: &mut Session,
    statement: &BrokerStatement,
    rows_max: i32,
    sink: &mut AnswerSink,
) -> Result<(u64, usize), SessionFailure> {
    let columns = begin(session, statement, rows_max).await?;
    let shapes: Vec<TypeShape> = columns.iter().map(|column| session.types.shape(column.oid)).collect();
    write_columns(&mut sink.held, &columns, &shapes);
    let mut count = 0;
    while let Some(row) = session.next_row().await? {
        if count > 0 {
            sink.held.push(b',');
        }
        write_row(&mut sink.held, &row, &shapes)?;
        count += 1;
        sink.pass().await?;
    }
    sink.held.push(b']');
    Ok((count, columns.len()))
}

/// Parses a statement, learns its types and starts it.
async fn begin(
    session: &mut Session,
    statement: &BrokerStatement,
    rows_max: i32,
) -> Result<Vec<ResultColumn>, SessionFailure> {
    let prepared = session.prepare(&statement.sql).await?;
    let oids = prepared.params.iter().copied().chain(prepared.columns.iter().map(|column| column.oid));
    let oids: Vec<u32> = oids.collect();
    session.learn(oids.into_iter()).await?;
    let given: Vec<&RawValue> = statement.params.iter().map(AsRef::as_ref).collect();
    let params = param::texts(&given, &prepared.params, &session.types)?;
    session.start(params, rows_max).await?;
    Ok(prepared.columns)
}

/// Runs statements and throws away their rows. Without parameters there may be several.
async fn execute(session: &mut Session, statement: &BrokerStatement) -> Result<u64, SessionFailure> {
    if statement.params.is_empty() {
        session.run(&statement.sql).await?;
    } else {
        begin(session, statement, 0).await?;
        while session.next_row().await?.is_some() {}
    }
    Ok(session.affected())
}

async fn transaction(session: &mut Session, query: &BrokerQuery, sink: &mut AnswerSink) -> Result<(), SessionFailure> {
    session.run("BEGIN").await?;
    sink.held.extend_from_slice(b"{\"results\":[");
    for (index, statement) in query.statements.iter().enumerate() {
        if index > 0 {
            sink.held.push(b',');
        }
        let at = |failure| match failure {
            SessionFailure::Fault(fault) => BrokerFault { statement: Some(index), ..*fault }.into(),
            SessionFailure::Lost(_) => failure,
        };
        one_of_many(session, statement, index, sink).await.map_err(at)?;
        if !session.is_in_transaction() {
            let error = "the statement ended the transaction; what came before it may be committed";
            return Err(at(BrokerFault::bad(error).with_code("2D000").into()));
        }
    }
    session.run("COMMIT").await?;
    sink.held.push(b']');
    Ok(())
}

/// Writes one result of a transaction: with rows if the statement has columns.
async fn one_of_many(
    session: &mut Session,
    statement: &BrokerStatement,
    index: usize,
    sink: &mut AnswerSink,
) -> Result<(), SessionFailure> {
    let before = sink.held.len();
    let (count, columns) = select(session, statement, limits::ROWS_MAX, sink).await?;
    let affected = session.affected();
    if columns == 0 {
        sink.held.truncate(before);
        sink.held.extend_from_slice(format!("{{\"index\":{index},\"rows_affected\":{affected}}}").as_bytes());
    } else {
        sink.held.extend_from_slice(format!(",\"count\":{count},\"index\":{index}}}").as_bytes());
    }
    Ok(sink.pass().await?)
}

async fn overview(session: &mut Session, sink: &mut AnswerSink) -> Result<(), SessionFailure> {
    let version = session.collect("SHOW server_version").await?;
    let extensions = session.collect("SELECT extname FROM pg_catalog.pg_extension ORDER BY extname COLLATE \"C\"");
    let extensions: Vec<String> = extensions.await?.into_iter().flatten().collect();
    let version = version.into_iter().flatten().next().unwrap_or_default();
    write_json(
        sink,
        &json!({ "postgres_version": version, "extensions": extensions, "broker_version": BROKER_VERSION }),
    );
    Ok(())
}

async fn list_databases(session: &mut Session, sink: &mut AnswerSink) -> Result<(), SessionFailure> {
    // The size of a database that one may not connect to is a secret of its owner.
    let sql = "SELECT d.datname, pg_catalog.pg_encoding_to_char(d.encoding), d.datcollate,
                      CASE WHEN pg_catalog.has_database_privilege(d.oid, 'CONNECT')
                           THEN pg_catalog.pg_database_size(d.oid) ELSE 0 END
               FROM pg_catalog.pg_database d WHERE NOT d.datistemplate ORDER BY d.datname COLLATE \"C\"";
    let mut databases = Vec::new();
    for row in session.collect(sql).await? {
        let [name, encoding, collate, size] = row.as_slice() else { continue };
        let size: u64 = size.parse().unwrap_or(0);
        databases.push(json!({ "name": name, "encoding": encoding, "collate": collate, "size_bytes": size }));
    }
    write_json(sink, &json!({ "databases": databases }));
    Ok(())
}

async fn create_database(
    session: &mut Session,
    new: &NewDatabase,
    login: &Login,
    sink: &mut AnswerSink,
) -> Result<(), SessionFailure> {
    let owner = new.owner.as_deref().unwrap_or(&login.user);
    session.run(&format!("CREATE DATABASE {} OWNER {}", quoted(&new.name), quoted(owner))).await?;
    write_json(sink, &json!({ "name": new.name, "owner": owner, "created": true }));
    Ok(())
}

fn write_columns(out: &mut Vec<u8>, columns: &[ResultColumn], shapes: &[TypeShape]) {
    out.extend_from_slice(b"{\"columns\":[");
    for (index, (column, shape)) in columns.iter().zip(shapes).enumerate() {
        out.extend_from_slice(if index > 0 { b",{\"name\":" } else { b"{\"name\":" });
        value::write_text(out, &column.name);
        out.extend_from_slice(b",\"type\":");
        value::write_text(out, &shape.name);
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"rows\":[");
}

fn write_row(out: &mut Vec<u8>, row: &DataRowBody, shapes: &[TypeShape]) -> Result<(), SessionFailure> {
    out.push(b'[');
    let mut cells = row.ranges();
    for (index, shape) in shapes.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match cells.next()? {
            Some(Some(range)) => value::write(out, shape, row.buffer().get(range).unwrap_or_default()),
            Some(None) => out.extend_from_slice(b"null"),
            None => return Err(SessionFailure::Lost("a row has too few columns".into())),
        }
    }
    out.push(b']');
    Ok(())
}

fn write_json(sink: &mut AnswerSink, json: &serde_json::Value) {
    sink.held.extend_from_slice(json.to_string().as_bytes());
}

/// Ends an answer that has been written piece by piece.
fn finish(sink: &mut AnswerSink, fields: &str, begun: Instant) {
    let duration = begun.elapsed().as_millis();
    sink.held.extend_from_slice(format!("{fields},\"duration_ms\":{duration}}}").as_bytes());
}
