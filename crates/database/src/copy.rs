//! Copies all rows from one database to another one with the same schema: the way from SQLite to
//! PostgreSQL. Nothing is written to the source, and the target has all rows or none.

use sha2::{Digest, Sha256};

use crate::{
    Database, DatabaseError, DatabaseRow, Transaction, Value, query_as, query_built, query_scalar, value::without_null,
};

/// Rows read at once.
const PAGE: i64 = 500;

/// Values bound to one statement. PostgreSQL takes up to 65,535.
const VALUES_MAX: usize = 20_000;

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Each table with the number of its rows, in the order of the copy.
    pub tables: Vec<(String, u64)>,
}

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("the source must be an SQLite database and the target a PostgreSQL server")]
    Kinds,
    #[error("the source has version {from} and the target version {to}; open both with this program first")]
    Versions { from: i64, to: i64 },
    #[error("the target's table {0} has rows already; give an empty database")]
    NotEmpty(String),
    #[error("the column {column} of {table} has the type {kind}, which this program cannot copy")]
    Type { table: String, column: String, kind: String },
    #[error("the rows of {0} in the target differ from those in the source")]
    Differs(String),
    #[error("the tables refer to each other in a circle: {0}")]
    Circle(String),
    #[error("{attempted}")]
    Query {
        attempted: String,
        #[source]
        cause: DatabaseError,
    },
}

/// The types that the schema uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    Integer,
    Real,
    Boolean,
    Text,
    Bytes,
}

struct Table {
    name: String,
    columns: Vec<(String, ColumnKind)>,
    /// The tables that its rows refer to.
    parents: Vec<String>,
}

impl Database {
    /// Copies every row of this SQLite database into an empty PostgreSQL database of the same
    /// version, and compares both before the commit.
    pub async fn copy_into(&self, target: &Database) -> Result<CopyReport, CopyError> {
        if self.is_server() || !target.is_server() {
            return Err(CopyError::Kinds);
        }
        let mut from = self.begin().await.map_err(failed("begin to read"))?;
        let mut to = target.begin().await.map_err(failed("begin to write"))?;
        let versions = (version(&mut from).await?, version(&mut to).await?);
        if versions.0 != versions.1 {
            return Err(CopyError::Versions { from: versions.0, to: versions.1 });
        }
        let mut report = CopyReport::default();
        for table in &in_order(tables(&mut from).await?)? {
            let rows = table.copy(&mut from, &mut to).await?;
            report.tables.push((table.name.clone(), rows));
        }
        to.commit().await.map_err(failed("commit the copy"))?;
        Ok(report)
    }
}

impl Table {
    async fn copy(&self, from: &mut Transaction, to: &mut Transaction) -> Result<u64, CopyError> {
        let name = &self.name;
        let held = query_built(format!("SELECT COUNT(*) AS held FROM \"{name}\"")).fetch_one(&mut *to).await;
        let held = held.and_then(|row| row.try_get::<i64>("held")).map_err(failed(format!("count {name}")))?;
        if held > 0 {
            return Err(CopyError::NotEmpty(name.clone()));
        }
        let page = format!("SELECT rowid AS copied_rowid, * FROM \"{name}\" WHERE rowid > ? ORDER BY rowid LIMIT ?");
        let (mut last, mut copied, mut sum) = (i64::MIN, 0, 0_u128);
        loop {
            let rows = query_built(page.clone()).bind(last).bind(PAGE).fetch_all(&mut *from).await;
            let rows = rows.map_err(failed(format!("read {name}")))?;
            let Some(end) = rows.last() else { break };
            last = end.try_get("copied_rowid").map_err(failed(format!("read {name}")))?;
            for part in rows.chunks((VALUES_MAX / self.columns.len().max(1)).max(1)) {
                let values = part.iter().map(|row| self.read(row)).collect::<Result<Vec<_>, _>>()?;
                sum = values.iter().fold(sum, |sum, row| sum.wrapping_add(digest(row)));
                self.insert(to, values).await?;
            }
            copied += rows.len() as u64;
        }
        if self.sum(to).await? != (copied, sum) {
            return Err(CopyError::Differs(name.clone()));
        }
        Ok(copied)
    }

    async fn insert(&self, to: &mut Transaction, rows: Vec<Vec<Value<'static>>>) -> Result<(), CopyError> {
        let one = format!("({})", vec!["?"; self.columns.len()].join(", "));
        let sql = format!(
            "INSERT INTO \"{}\" ({}) VALUES {}",
            self.name,
            self.column_list(),
            vec![one.as_str(); rows.len()].join(", ")
        );
        let statement = rows.into_iter().flatten().fold(query_built(sql), crate::Query::bind);
        statement.execute(to).await.map(drop).map_err(failed(format!("write {}", self.name)))
    }

    /// Reads the whole table back: its number of rows, and the sum of their digests.
    async fn sum(&self, of: &mut Transaction) -> Result<(u64, u128), CopyError> {
        let reading = failed(format!("read {} back", self.name));
        // The driver remembers the columns of a statement by its text, so each table has its own.
        let cursor = format!("copied_{}", self.name);
        let columns = self.column_list();
        let declare = format!("DECLARE {cursor} NO SCROLL CURSOR FOR SELECT {columns} FROM \"{}\"", self.name);
        query_built(declare).execute(&mut *of).await.map_err(&reading)?;
        let (mut count, mut sum) = (0, 0_u128);
        loop {
            let rows =
                query_built(format!("FETCH {PAGE} FROM {cursor}")).fetch_all(&mut *of).await.map_err(&reading)?;
            if rows.is_empty() {
                break;
            }
            count += rows.len() as u64;
            for row in &rows {
                sum = sum.wrapping_add(digest(&self.read(row)?));
            }
        }
        query_built(format!("CLOSE {cursor}")).execute(of).await.map_err(&reading)?;
        Ok((count, sum))
    }

    fn column_list(&self) -> String {
        let quoted: Vec<_> = self.columns.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        quoted.join(", ")
    }

    fn read(&self, row: &DatabaseRow) -> Result<Vec<Value<'static>>, CopyError> {
        let value = |(name, kind): &(String, ColumnKind)| {
            let name = name.as_str();
            let value = match kind {
                ColumnKind::Integer => row.try_get::<Option<i64>>(name).map(Value::from),
                ColumnKind::Real => row.try_get::<Option<f64>>(name).map(Value::from),
                ColumnKind::Boolean => row.try_get::<Option<bool>>(name).map(Value::from),
                ColumnKind::Text => {
                    row.try_get::<Option<String>>(name).map(|text| Value::from(text.as_deref().map(without_null)))
                }
                ColumnKind::Bytes => row.try_get::<Option<Vec<u8>>>(name).map(Value::from),
            };
            value.map_err(failed(format!("read {}.{name}", self.name)))
        };
        self.columns.iter().map(value).collect()
    }
}

async fn version(of: &mut Transaction) -> Result<i64, CopyError> {
    let sql = "SELECT COALESCE(MAX(version), 0) FROM schema_version";
    query_scalar(sql).fetch_one(of).await.map_err(failed("read the version"))
}

/// Lists the tables of an SQLite database.
async fn tables(of: &mut Transaction) -> Result<Vec<Table>, CopyError> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
               AND name <> 'schema_version' ORDER BY name";
    let names: Vec<(String,)> = query_as(sql).fetch_all(&mut *of).await.map_err(failed("list the tables"))?;
    let mut tables = Vec::new();
    for (name,) in names {
        let reading = failed(format!("read the columns of {name}"));
        let mut columns = Vec::new();
        for row in query_built(format!("PRAGMA table_info(\"{name}\")")).fetch_all(&mut *of).await.map_err(&reading)? {
            let column: String = row.try_get("name").map_err(&reading)?;
            let kind: String = row.try_get("type").map_err(&reading)?;
            let known = column_kind(&kind);
            let known = known.ok_or_else(|| CopyError::Type { table: name.clone(), column: column.clone(), kind });
            columns.push((column, known?));
        }
        let keys = query_built(format!("PRAGMA foreign_key_list(\"{name}\")")).fetch_all(&mut *of).await;
        let parent = |row: &DatabaseRow| row.try_get::<String>("table");
        let parents = keys.and_then(|rows| rows.iter().map(parent).collect()).map_err(&reading)?;
        tables.push(Table { name, columns, parents });
    }
    Ok(tables)
}

/// Puts each table after the ones that it refers to.
fn in_order(mut tables: Vec<Table>) -> Result<Vec<Table>, CopyError> {
    let mut ordered: Vec<Table> = Vec::new();
    while !tables.is_empty() {
        let is_ready = |table: &Table| {
            let is_done = |parent: &String| *parent == table.name || ordered.iter().any(|done| done.name == *parent);
            table.parents.iter().all(is_done)
        };
        let Some(next) = tables.iter().position(is_ready) else {
            let left: Vec<_> = tables.iter().map(|table| table.name.as_str()).collect();
            return Err(CopyError::Circle(left.join(", ")));
        };
        ordered.push(tables.remove(next));
    }
    Ok(ordered)
}

fn column_kind(declared: &str) -> Option<ColumnKind> {
    match declared {
        "BIGINT" | "INTEGER" => Some(ColumnKind::Integer),
        "DOUBLE PRECISION" => Some(ColumnKind::Real),
        "BOOLEAN" => Some(ColumnKind::Boolean),
        "TEXT" => Some(ColumnKind::Text),
        "BLOB" => Some(ColumnKind::Bytes),
        _ => None,
    }
}

/// Digests one row. The sum over all rows does not depend on their order.
fn digest(row: &[Value<'_>]) -> u128 {
    let mut hash = Sha256::new();
    for value in row {
        // The kind and the length keep neighbours apart.
        let mut add = |kind: u8, bytes: Option<&[u8]>| {
            hash.update([kind, u8::from(bytes.is_some())]);
            hash.update((bytes.map_or(0, <[u8]>::len) as u64).to_be_bytes());
            hash.update(bytes.unwrap_or_default());
        };
        match value {
            Value::Integer(value) => add(0, value.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice)),
            Value::Real(value) => add(1, value.map(f64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice)),
            Value::Boolean(value) => add(2, value.map(|value| [u8::from(value)]).as_ref().map(<[u8; 1]>::as_slice)),
            Value::Text(value) => add(3, value.as_deref().map(str::as_bytes)),
            Value::Bytes(value) => add(4, value.as_deref()),
        }
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    u128::from_be_bytes(bytes)
}

fn failed(attempted: impl Into<String>) -> impl Fn(DatabaseError) -> CopyError {
    let attempted = attempted.into();
    move |cause| CopyError::Query { attempted: attempted.clone(), cause }
}
