//! Types of PostgreSQL by their numbers: the name that callers see, and how a value's text becomes
//! JSON. Types that are not built in are looked up once per connection.

use std::{borrow::Cow, collections::HashMap};

use crate::{fault::SessionFailure, limits, session::Session};

/// How the text of one value, or of one element of an array, becomes JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Bool,
    Number,
    Json,
    Bytes,
    Timestamp,
    Text,
}

/// What is known of a type.
#[derive(Clone, Debug)]
pub(crate) struct TypeShape {
    pub name: Cow<'static, str>,
    pub scalar: Scalar,
    /// What separates the elements, if the type is an array.
    pub delimiter: Option<u8>,
}

/// The types that one connection looked up.
#[derive(Default)]
pub(crate) struct TypeCatalog {
    found: HashMap<u32, TypeShape>,
}

impl TypeCatalog {
    /// Returns a type's shape. One that nobody knows is text and has its number as name.
    pub fn shape(&self, oid: u32) -> TypeShape {
        let known = built_in(oid).or_else(|| self.found.get(&oid).cloned());
        known.unwrap_or_else(|| TypeShape { name: Cow::Owned(oid.to_string()), scalar: Scalar::Text, delimiter: None })
    }

    fn knows(&self, oid: u32) -> bool {
        self.found.contains_key(&oid) || built_in(oid).is_some()
    }
}

impl Session {
    /// Looks up the types that are not known yet.
    pub async fn learn(&mut self, oids: impl Iterator<Item = u32>) -> Result<(), SessionFailure> {
        let unknown: Vec<String> = oids.filter(|oid| !self.types.knows(*oid)).map(|oid| oid.to_string()).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "SELECT t.oid, pg_catalog.upper(t.typname), CASE t.typcategory WHEN 'A' THEN t.typelem ELSE 0 END,
                    e.typdelim, t.typbasetype
             FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem WHERE t.oid IN ({})",
            unknown.join(",")
        );
        let rows = self.collect(&sql).await?;
        if self.types.found.len() + rows.len() > limits::TYPES_REMEMBERED_MAX {
            self.types.found.clear();
        }
        for row in rows {
            let [oid, name, element, delimiter, base] = row.as_slice() else { continue };
            let (Ok(oid), Ok(element), Ok(base)) = (oid.parse(), element.parse::<u32>(), base.parse::<u32>()) else {
                continue;
            };
            let name = Cow::Owned(name.clone());
            let shape = match (element, built_in(base)) {
                (0, Some(base)) => TypeShape { name, ..base },
                (0, None) => TypeShape { name, scalar: Scalar::Text, delimiter: None },
                (element, _) => {
                    let scalar = built_in(element).map_or(Scalar::Text, |element| element.scalar);
                    TypeShape { name, scalar, delimiter: Some(delimiter.bytes().next().unwrap_or(b',')) }
                }
            };
            self.types.found.insert(oid, shape);
        }
        Ok(())
    }
}

/// Number of the type, number of its array (0: none is expected), name, shape.
const BUILT_IN: &[(u32, u32, &str, Scalar)] = &[
    (16, 1000, "BOOL", Scalar::Bool),
    (17, 1001, "BYTEA", Scalar::Bytes),
    (18, 1002, "CHAR", Scalar::Text),
    (19, 1003, "NAME", Scalar::Text),
    (20, 1016, "INT8", Scalar::Number),
    (21, 1005, "INT2", Scalar::Number),
    // Vectors of numbers are lists with spaces, though the catalog calls them arrays.
    (22, 0, "INT2VECTOR", Scalar::Text),
    (30, 0, "OIDVECTOR", Scalar::Text),
    (23, 1007, "INT4", Scalar::Number),
    (25, 1009, "TEXT", Scalar::Text),
    (26, 1028, "OID", Scalar::Number),
    (114, 199, "JSON", Scalar::Json),
    (142, 143, "XML", Scalar::Text),
    (603, 1020, "BOX", Scalar::Text),
    (650, 651, "CIDR", Scalar::Text),
    (700, 1021, "FLOAT4", Scalar::Number),
    (701, 1022, "FLOAT8", Scalar::Number),
    (705, 0, "UNKNOWN", Scalar::Text),
    (790, 791, "MONEY", Scalar::Text),
    (829, 1040, "MACADDR", Scalar::Text),
    (869, 1041, "INET", Scalar::Text),
    (1042, 1014, "BPCHAR", Scalar::Text),
    (1043, 1015, "VARCHAR", Scalar::Text),
    (1082, 1182, "DATE", Scalar::Text),
    (1083, 1183, "TIME", Scalar::Text),
    (1114, 1115, "TIMESTAMP", Scalar::Timestamp),
    (1184, 1185, "TIMESTAMPTZ", Scalar::Timestamp),
    (1186, 1187, "INTERVAL", Scalar::Text),
    (1266, 1270, "TIMETZ", Scalar::Text),
    (1560, 1561, "BIT", Scalar::Text),
    (1562, 1563, "VARBIT", Scalar::Text),
    (1700, 1231, "NUMERIC", Scalar::Text),
    (2249, 2287, "RECORD", Scalar::Text),
    (2278, 0, "VOID", Scalar::Text),
    (2950, 2951, "UUID", Scalar::Text),
    (3614, 3643, "TSVECTOR", Scalar::Text),
    (3802, 3807, "JSONB", Scalar::Json),
];

/// The array of boxes, whose elements contain commas.
const BOX_ARRAY: u32 = 1020;

fn built_in(oid: u32) -> Option<TypeShape> {
    if oid == 0 {
        return None;
    }
    let (number, _, name, scalar) = BUILT_IN.iter().find(|(number, array, ..)| *number == oid || *array == oid)?;
    if *number == oid {
        return Some(TypeShape { name: Cow::Borrowed(name), scalar: *scalar, delimiter: None });
    }
    let delimiter = if oid == BOX_ARRAY { b';' } else { b',' };
    Some(TypeShape { name: Cow::Owned(format!("_{name}")), scalar: *scalar, delimiter: Some(delimiter) })
}
