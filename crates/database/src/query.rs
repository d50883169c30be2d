//! Statements with their values.

use std::{borrow::Cow, marker::PhantomData};

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr, postgres::PgArguments, sqlite::SqliteArguments};

use crate::{
    Column, Database, DatabaseError, DatabaseRow, FromColumns, Transaction, Value,
    pool::DriverPool,
    row::DriverRow,
    sql::numbered,
    transaction::DriverTransaction,
    value::{for_postgres, for_sqlite},
};

/// A statement and the values of its placeholders.
#[must_use = "a statement does nothing before it is executed"]
pub struct Query<'q> {
    sql: Cow<'static, str>,
    values: Vec<Value<'q>>,
}

/// A statement whose rows are read as a type.
#[must_use = "a statement does nothing before it is executed"]
pub struct QueryAs<'q, T> {
    query: Query<'q>,
    read: fn(&DatabaseRow) -> Result<T, DatabaseError>,
    of: PhantomData<T>,
}

/// What a statement runs on.
pub enum Target<'t> {
    /// Any free connection.
    Pool(&'t Database),
    Transaction(&'t mut Transaction),
}

impl<'t> From<&'t Database> for Target<'t> {
    fn from(database: &'t Database) -> Self {
        Self::Pool(database)
    }
}

impl<'t> From<&'t mut Transaction> for Target<'t> {
    fn from(transaction: &'t mut Transaction) -> Self {
        Self::Transaction(transaction)
    }
}

/// Makes a statement. Each value is a `?`, or `?1`, `?2`, … if one is used twice.
pub fn query<'q>(sql: &'static str) -> Query<'q> {
    Query { sql: Cow::Borrowed(sql), values: Vec::new() }
}

/// Makes a statement that the program has put together. It never contains a value from outside.
pub fn query_built<'q>(sql: String) -> Query<'q> {
    Query { sql: Cow::Owned(sql), values: Vec::new() }
}

/// Makes a statement whose rows are tuples.
pub fn query_as<'q, T: FromColumns>(sql: &'static str) -> QueryAs<'q, T> {
    QueryAs { query: query(sql), read: T::from_columns, of: PhantomData }
}

/// Makes a statement of which only the first column is read.
pub fn query_scalar<'q, T: Column>(sql: &'static str) -> QueryAs<'q, T> {
    QueryAs { query: query(sql), read: |row| row.try_get(0), of: PhantomData }
}

/// Runs one method of sqlx on whatever the target is.
macro_rules! run {
    ($query:expr, $target:expr, $method:ident) => {
        match $target.into() {
            Target::Pool(database) => match &database.pool {
                DriverPool::Sqlite(pool) => Ran::Sqlite($query.for_sqlite()?.$method(pool).await?),
                DriverPool::Postgres(pool) => Ran::Postgres($query.for_postgres()?.$method(pool).await?),
            },
            Target::Transaction(transaction) => match &mut transaction.0 {
                DriverTransaction::Sqlite(tx) => Ran::Sqlite($query.for_sqlite()?.$method(&mut **tx).await?),
                DriverTransaction::Postgres(tx) => Ran::Postgres($query.for_postgres()?.$method(&mut **tx).await?),
            },
        }
    };
}

/// The result of one of the drivers.
enum Ran<S, P> {
    Sqlite(S),
    Postgres(P),
}

impl<'q> Query<'q> {
    /// Adds the value of the next placeholder.
    pub fn bind(mut self, value: impl Into<Value<'q>>) -> Self {
        self.values.push(value.into());
        self
    }

    /// Runs the statement, and returns the number of rows that it changed.
    pub async fn execute(self, on: impl Into<Target<'_>>) -> Result<u64, DatabaseError> {
        Ok(match run!(self, on, execute) {
            Ran::Sqlite(done) => done.rows_affected(),
            Ran::Postgres(done) => done.rows_affected(),
        })
    }

    pub async fn fetch_all(self, on: impl Into<Target<'_>>) -> Result<Vec<DatabaseRow>, DatabaseError> {
        Ok(match run!(self, on, fetch_all) {
            Ran::Sqlite(rows) => rows.into_iter().map(|row| DatabaseRow(DriverRow::Sqlite(row))).collect(),
            Ran::Postgres(rows) => rows.into_iter().map(|row| DatabaseRow(DriverRow::Postgres(row))).collect(),
        })
    }

    pub async fn fetch_optional(self, on: impl Into<Target<'_>>) -> Result<Option<DatabaseRow>, DatabaseError> {
        Ok(match run!(self, on, fetch_optional) {
            Ran::Sqlite(row) => row.map(|row| DatabaseRow(DriverRow::Sqlite(row))),
            Ran::Postgres(row) => row.map(|row| DatabaseRow(DriverRow::Postgres(row))),
        })
    }

    pub async fn fetch_one(self, on: impl Into<Target<'_>>) -> Result<DatabaseRow, DatabaseError> {
        self.fetch_optional(on).await?.ok_or_else(|| sqlx::Error::RowNotFound.into())
    }

    fn for_sqlite(&self) -> Result<sqlx::query::Query<'static, sqlx::Sqlite, SqliteArguments>, DatabaseError> {
        let sql: SqlStr = match &self.sql {
            Cow::Borrowed(sql) => sql.into_sql_str(),
            Cow::Owned(sql) => AssertSqlSafe(sql.clone()).into_sql_str(),
        };
        Ok(sqlx::query_with(sql, for_sqlite(&self.values)?))
    }

    fn for_postgres(&self) -> Result<sqlx::query::Query<'static, sqlx::Postgres, PgArguments>, DatabaseError> {
        // Only the text of the program is rewritten: values are bound.
        Ok(sqlx::query_with(AssertSqlSafe(numbered(&self.sql)), for_postgres(&self.values)?))
    }
}

impl<'q, T> QueryAs<'q, T> {
    /// Adds the value of the next placeholder.
    pub fn bind(mut self, value: impl Into<Value<'q>>) -> Self {
        self.query = self.query.bind(value);
        self
    }

    pub async fn fetch_all(self, on: impl Into<Target<'_>>) -> Result<Vec<T>, DatabaseError> {
        self.query.fetch_all(on).await?.iter().map(self.read).collect()
    }

    pub async fn fetch_optional(self, on: impl Into<Target<'_>>) -> Result<Option<T>, DatabaseError> {
        self.query.fetch_optional(on).await?.as_ref().map(self.read).transpose()
    }

    pub async fn fetch_one(self, on: impl Into<Target<'_>>) -> Result<T, DatabaseError> {
        (self.read)(&self.query.fetch_one(on).await?)
    }
}
