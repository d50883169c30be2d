//! Rows, read by name or by place.

use sqlx::{ColumnIndex, Decode, Postgres, Row as _, Sqlite, Type, postgres::PgRow, sqlite::SqliteRow};

use crate::DatabaseError;

/// A row of a result.
pub struct DatabaseRow(pub(crate) DriverRow);

pub(crate) enum DriverRow {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// A type that a column can have.
pub trait Column: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres> {}

impl<T> Column for T where T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres> {}

/// The name or the place of a column.
pub trait ColumnName: ColumnIndex<SqliteRow> + ColumnIndex<PgRow> {}

impl<T> ColumnName for T where T: ColumnIndex<SqliteRow> + ColumnIndex<PgRow> {}

impl DatabaseRow {
    /// Reads a column.
    pub fn try_get<T: Column>(&self, name: impl ColumnName) -> Result<T, DatabaseError> {
        match &self.0 {
            DriverRow::Sqlite(row) => Ok(row.try_get(name)?),
            DriverRow::Postgres(row) => Ok(row.try_get(name)?),
        }
    }
}

/// A value that is read from the first columns of a row.
pub trait FromColumns: Sized {
    fn from_columns(row: &DatabaseRow) -> Result<Self, DatabaseError>;
}

macro_rules! tuple {
    ($($name:ident: $place:tt),*) => {
        impl<$($name: Column),*> FromColumns for ($($name,)*) {
            fn from_columns(row: &DatabaseRow) -> Result<Self, DatabaseError> {
                Ok(($(row.try_get::<$name>($place)?,)*))
            }
        }
    };
}

tuple!(A: 0);
tuple!(A: 0, B: 1);
tuple!(A: 0, B: 1, C: 2);
tuple!(A: 0, B: 1, C: 2, D: 3);
tuple!(A: 0, B: 1, C: 2, D: 3, E: 4);
tuple!(A: 0, B: 1, C: 2, D: 3, E: 4, F: 5);
tuple!(A: 0, B: 1, C: 2, D: 3, E: 4, F: 5, G: 6);
tuple!(A: 0, B: 1, C: 2, D: 3, E: 4, F: 5, G: 6, H: 7);
