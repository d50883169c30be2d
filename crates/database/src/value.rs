//! Values that are bound to a statement.

use std::borrow::Cow;

use sqlx::{Arguments, Database, Encode, Type, postgres::PgArguments, sqlite::SqliteArguments};

use crate::DatabaseError;

/// A value of a statement. `None` is the null of that type.
#[derive(Clone, Debug)]
pub enum Value<'q> {
    Integer(Option<i64>),
    Real(Option<f64>),
    Boolean(Option<bool>),
    Text(Option<Cow<'q, str>>),
    Bytes(Option<Cow<'q, [u8]>>),
}

macro_rules! from {
    ($($from:ty => $kind:ident: |$value:ident| $made:expr;)*) => {$(
        impl<'q> From<$from> for Value<'q> {
            fn from($value: $from) -> Self {
                Self::$kind($made)
            }
        }
    )*};
}

from! {
    i64 => Integer: |value| Some(value);
    Option<i64> => Integer: |value| value;
    f64 => Real: |value| Some(value);
    Option<f64> => Real: |value| value;
    bool => Boolean: |value| Some(value);
    Option<bool> => Boolean: |value| value;
    &'q str => Text: |value| Some(Cow::Borrowed(value));
    String => Text: |value| Some(Cow::Owned(value));
    &'q String => Text: |value| Some(Cow::Borrowed(value));
    Option<&'q str> => Text: |value| value.map(Cow::Borrowed);
    Option<String> => Text: |value| value.map(Cow::Owned);
    &'q Option<String> => Text: |value| value.as_deref().map(Cow::Borrowed);
    &'q [u8] => Bytes: |value| Some(Cow::Borrowed(value));
    Vec<u8> => Bytes: |value| Some(Cow::Owned(value));
    Option<&'q [u8]> => Bytes: |value| value.map(Cow::Borrowed);
    Option<Vec<u8>> => Bytes: |value| value.map(Cow::Owned);
}

pub(crate) fn for_sqlite(values: &[Value<'_>]) -> Result<SqliteArguments, DatabaseError> {
    let mut arguments = SqliteArguments::default();
    values.iter().try_for_each(|value| add::<sqlx::Sqlite, _>(&mut arguments, value))?;
    Ok(arguments)
}

pub(crate) fn for_postgres(values: &[Value<'_>]) -> Result<PgArguments, DatabaseError> {
    let mut arguments = PgArguments::default();
    for value in values {
        match value {
            Value::Text(Some(text)) if text.contains('\0') => {
                add::<sqlx::Postgres, _>(&mut arguments, &Value::from(without_null(text)))?;
            }
            _ => add::<sqlx::Postgres, _>(&mut arguments, value)?,
        }
    }
    Ok(arguments)
}

/// PostgreSQL stores no null characters in texts. A guest may send some, so they must not fail.
pub(crate) fn without_null(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn add<D, A>(arguments: &mut A, value: &Value<'_>) -> Result<(), DatabaseError>
where
    D: Database,
    A: Arguments<Database = D>,
    for<'e> Option<i64>: Encode<'e, D> + Type<D>,
    for<'e> Option<f64>: Encode<'e, D> + Type<D>,
    for<'e> Option<bool>: Encode<'e, D> + Type<D>,
    for<'e> Option<&'e str>: Encode<'e, D> + Type<D>,
    for<'e> Option<&'e [u8]>: Encode<'e, D> + Type<D>,
{
    let added = match value {
        Value::Integer(value) => arguments.add(*value),
        Value::Real(value) => arguments.add(*value),
        Value::Boolean(value) => arguments.add(*value),
        Value::Text(value) => arguments.add(value.as_deref()),
        Value::Bytes(value) => arguments.add(value.as_deref()),
    };
    added.map_err(|cause| sqlx::Error::Encode(cause).into())
}
