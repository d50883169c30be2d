//! The door of the broker: bodies and names from outside become checked jobs.

use std::{fmt, marker::PhantomData, time::Duration};

use axum::http::{Method, StatusCode};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    fault::BrokerFault,
    limits::{self, PARAMS_MAX, STATEMENTS_MAX},
};

/// Databases that nobody may drop.
const KEPT: [&str; 3] = ["postgres", "template0", "template1"];

/// A route of the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BrokerRoute {
    Health,
    Overview,
    Query,
    Exec,
    Transaction,
    ListDatabases,
    CreateDatabase,
    DropDatabase(String),
}

/// One statement with its parameters.
#[derive(Debug)]
pub(crate) struct BrokerStatement {
    pub sql: String,
    pub params: Vec<Box<RawValue>>,
}

/// A checked query, statement or transaction.
#[derive(Debug)]
pub(crate) struct BrokerQuery {
    pub database: String,
    pub statements: Vec<BrokerStatement>,
    pub timeout: Duration,
    pub rows_max: i32,
}

/// A database to create.
#[derive(Debug)]
pub(crate) struct NewDatabase {
    pub name: String,
    pub owner: Option<String>,
}

#[derive(Deserialize)]
struct QueryBody {
    database: Option<String>,
    sql: Option<String>,
    params: Option<FirstOf<Box<RawValue>, PARAMS_MAX>>,
    statements: Option<FirstOf<StatementBody, STATEMENTS_MAX>>,
    timeout_ms: Option<i64>,
    max_rows: Option<i64>,
}

#[derive(Deserialize)]
struct StatementBody {
    sql: Option<String>,
    params: Option<FirstOf<Box<RawValue>, PARAMS_MAX>>,
}

/// The first values of a list, and how many there are. The others take no memory.
struct FirstOf<T, const MOST: usize> {
    values: Vec<T>,
    count: usize,
}

impl<T, const MOST: usize> Default for FirstOf<T, MOST> {
    fn default() -> Self {
        Self { values: Vec::new(), count: 0 }
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for FirstOf<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FirstOfVisitor(PhantomData))
    }
}

struct FirstOfVisitor<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for FirstOfVisitor<T, MOST> {
    type Value = FirstOf<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut first = FirstOf::default();
        while first.values.len() < MOST {
            let Some(value) = list.next_element()? else { break };
            first.values.push(value);
        }
        first.count = first.values.len();
        while first.count >= MOST && list.next_element::<IgnoredAny>()?.is_some() {
            first.count += 1;
        }
        Ok(first)
    }
}

#[derive(Deserialize)]
struct DatabaseBody {
    name: Option<String>,
    owner: Option<String>,
}

/// Finds the route of a request. The path may begin with a slash or not.
pub(crate) fn route(method: &Method, path: &str) -> Result<BrokerRoute, BrokerFault> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let (get, post, delete) = (method == Method::GET, method == Method::POST, method == Method::DELETE);
    match path {
        "v1/health" if get => Ok(BrokerRoute::Health),
        "v1/info" if get => Ok(BrokerRoute::Overview),
        "v1/query" if post => Ok(BrokerRoute::Query),
        "v1/exec" if post => Ok(BrokerRoute::Exec),
        "v1/transaction" if post => Ok(BrokerRoute::Transaction),
        "v1/databases" if get => Ok(BrokerRoute::ListDatabases),
        "v1/databases" if post => Ok(BrokerRoute::CreateDatabase),
        "v1/health" | "v1/info" | "v1/query" | "v1/exec" | "v1/transaction" | "v1/databases" => Err(wrong_method()),
        _ => match path.strip_prefix("v1/databases/") {
            Some(name) if !name.is_empty() && !name.contains('/') => {
                if !delete {
                    return Err(wrong_method());
                }
                let name = percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned();
                Ok(BrokerRoute::DropDatabase(droppable(name)?))
            }
            _ => Err(BrokerFault::new(StatusCode::NOT_FOUND, "not found")),
        },
    }
}

/// Reads the body of a query or of statements without rows.
pub(crate) fn single(body: &[u8]) -> Result<BrokerQuery, BrokerFault> {
    let body: QueryBody = parse(body)?;
    let database = database_name(body.database.unwrap_or_default())?;
    let statement = statement(body.sql, body.params)?;
    let timeout = timeout(body.timeout_ms, limits::QUERY_DEFAULT);
    Ok(BrokerQuery { database, statements: vec![statement], timeout, rows_max: rows_max(body.max_rows) })
}

/// Reads the body of a transaction.
pub(crate) fn transaction(body: &[u8]) -> Result<BrokerQuery, BrokerFault> {
    let body: QueryBody = parse(body)?;
    let database = database_name(body.database.unwrap_or_default())?;
    let given = body.statements.unwrap_or_default();
    if given.count == 0 {
        return Err(BrokerFault::bad("statements required"));
    }
    if given.count > STATEMENTS_MAX {
        return Err(BrokerFault::bad(format!("too many statements (max {STATEMENTS_MAX})")));
    }
    let mut statements = Vec::with_capacity(given.count);
    for (index, one) in given.values.into_iter().enumerate() {
        let checked = statement(one.sql, one.params);
        statements.push(checked.map_err(|fault| BrokerFault { statement: Some(index), ..fault })?);
    }
    let timeout = timeout(body.timeout_ms, limits::TRANSACTION_DEFAULT);
    Ok(BrokerQuery { database, statements, timeout, rows_max: limits::ROWS_MAX })
}

/// Reads the body that creates a database.
pub(crate) fn new_database(body: &[u8]) -> Result<NewDatabase, BrokerFault> {
    let body: DatabaseBody = parse(body)?;
    let name = body.name.filter(|name| !name.is_empty()).ok_or_else(|| BrokerFault::bad("name required"))?;
    if !is_database_name(&name) {
        return Err(bad_name());
    }
    let owner = body.owner.filter(|owner| !owner.is_empty());
    if owner.as_ref().is_some_and(|owner| owner.len() > limits::NAME_BYTES_MAX || owner.contains('\0')) {
        return Err(BrokerFault::bad("invalid owner"));
    }
    Ok(NewDatabase { name, owner })
}

/// Quotes a name for SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, BrokerFault> {
    serde_json::from_slice(body)
        .map_err(|error| BrokerFault { detail: Some(error.to_string().into()), ..BrokerFault::bad("invalid json") })
}

fn statement(
    sql: Option<String>,
    params: Option<FirstOf<Box<RawValue>, PARAMS_MAX>>,
) -> Result<BrokerStatement, BrokerFault> {
    let sql = sql.filter(|sql| !sql.trim().is_empty()).ok_or_else(|| BrokerFault::bad("sql required"))?;
    let params = params.unwrap_or_default();
    if sql.len() > limits::SQL_BYTES_MAX {
        return Err(BrokerFault::bad(format!("sql too large (max {} bytes)", limits::SQL_BYTES_MAX)));
    }
    if params.count > PARAMS_MAX {
        return Err(BrokerFault::bad(format!("too many params (max {PARAMS_MAX})")));
    }
    Ok(BrokerStatement { sql, params: params.values })
}

fn database_name(name: String) -> Result<String, BrokerFault> {
    if name.is_empty() {
        return Err(BrokerFault::bad("database required"));
    }
    if is_database_name(&name) { Ok(name) } else { Err(bad_name()) }
}

fn droppable(name: String) -> Result<String, BrokerFault> {
    if KEPT.contains(&name.as_str()) {
        return Err(BrokerFault::new(StatusCode::FORBIDDEN, format!("database {name} cannot be dropped")));
    }
    database_name(name)
}

fn is_database_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=limits::NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits)
}

fn timeout(asked_ms: Option<i64>, default: Duration) -> Duration {
    let asked = asked_ms.and_then(|ms| u64::try_from(ms).ok()).filter(|ms| *ms > 0);
    asked.map_or(default, Duration::from_millis).min(limits::TIMEOUT_MAX)
}

fn rows_max(asked: Option<i64>) -> i32 {
    let asked = asked.filter(|rows| *rows > 0).and_then(|rows| i32::try_from(rows).ok());
    asked.unwrap_or(limits::ROWS_MAX).min(limits::ROWS_MAX)
}

fn bad_name() -> BrokerFault {
    let error = format!("invalid database name: use 1 to {} of A-Z, a-z, 0-9, _ and -", limits::NAME_BYTES_MAX);
    BrokerFault::bad(error)
}

fn wrong_method() -> BrokerFault {
    BrokerFault::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
}
