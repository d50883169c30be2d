//! Parameters: JSON values as the text that PostgreSQL reads, by the type the server chose for
//! each. Numbers keep their digits, because they are never parsed.

use serde_json::value::RawValue;

use crate::{
    array::{self, ArrayForm},
    catalog::TypeCatalog,
    fault::BrokerFault,
};

/// The kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonParam {
    Null,
    String,
    Array,
    /// A number, a boolean or an object: its JSON is its text.
    Other,
}

impl JsonParam {
    pub fn of(json: &RawValue) -> Self {
        match json.get().as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b'"') => Self::String,
            Some(b'[') => Self::Array,
            _ => Self::Other,
        }
    }
}

/// Returns the texts of a statement's parameters. `None` is NULL.
pub(crate) fn texts(
    params: &[&RawValue],
    oids: &[u32],
    types: &TypeCatalog,
) -> Result<Vec<Option<String>>, BrokerFault> {
    if params.len() != oids.len() {
        let error = format!("the statement has {} parameters, but params has {} values", oids.len(), params.len());
        return Err(BrokerFault::bad(error).with_code("08P01"));
    }
    let pairs = params.iter().zip(oids);
    pairs.map(|(json, oid)| text(json, types, *oid)).collect()
}

fn text(json: &RawValue, types: &TypeCatalog, oid: u32) -> Result<Option<String>, BrokerFault> {
    let shape = types.shape(oid);
    match (JsonParam::of(json), shape.delimiter) {
        (JsonParam::Null, _) => Ok(None),
        (JsonParam::Array, Some(delimiter)) => {
            array::literal(json, ArrayForm { scalar: shape.scalar, delimiter }).map(Some)
        }
        // As text, a list is also what the type `vector` reads.
        (JsonParam::Array, None) => Ok(Some(json.get().to_owned())),
        (JsonParam::String | JsonParam::Other, _) => plain_text(json).map(Some),
    }
}

/// Returns a string's content, and of everything else its JSON.
pub(crate) fn plain_text(json: &RawValue) -> Result<String, BrokerFault> {
    if JsonParam::of(json) != JsonParam::String {
        return Ok(json.get().to_owned());
    }
    serde_json::from_str(json.get()).map_err(|_| BrokerFault::bad("a parameter is not a valid string"))
}
