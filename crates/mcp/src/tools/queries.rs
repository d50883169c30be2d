//! SQL in a database. The route of the broker takes the token of the database, which is read with
//! the caller's own credential first. No answer shows it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json, value::RawValue};

use super::commands::time_limit;
use crate::{
    api::{Api, RestAnswer, RestRequest},
    arguments::Arguments,
    limits::{QUERY_BYTES_MAX, QUERY_GRACE, QUERY_ROWS_MAX, TEXT_BYTES_MAX},
    output::{ToolOutput, cut_middle},
};

pub async fn query(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let (id, sql) = (given.id("database_id")?, given.required("sql")?);
    let (name, limit) = (given.text("database")?, time_limit(given)?);
    let found = api.call(RestRequest::new("GET", &["databases", id])).await?;
    if found.is_refusal() {
        return Ok(ToolOutput::of(&found, ""));
    }
    let database = found.json().unwrap_or_default();
    let (Some(token), Some(main)) = (database["broker_token"].as_str(), database["database"].as_str()) else {
        return Err(without_login(id, &database));
    };
    let mut body = Map::new();
    body.insert("database".to_owned(), json!(name.unwrap_or(main)));
    body.insert("sql".to_owned(), json!(sql));
    body.insert("timeout_ms".to_owned(), json!(limit.as_millis()));
    body.insert("max_rows".to_owned(), json!(QUERY_ROWS_MAX));
    given.copy(&["params"], &mut body);
    let request = RestRequest::new("POST", &["databases", id, "proxy", "v1", "query"]).json(Value::Object(body));
    let request = request.bearing(token).within(limit + QUERY_GRACE).window(0, QUERY_BYTES_MAX);
    result(&api.call(request).await?)
}

/// Explains why a database has no token.
fn without_login(id: &str, database: &Value) -> String {
    let status = database["status"].as_str().unwrap_or("not ready");
    let reason = database["error"].as_str().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("database {id} is {status}{reason} and cannot be used yet; look again with get_database")
}

/// Shows the rows that fit. A refusal of PostgreSQL is shown as it is.
fn result(answer: &RestAnswer) -> Result<ToolOutput, String> {
    if answer.is_refusal() {
        return Ok(ToolOutput::of(answer, ""));
    }
    if answer.more {
        return Err(format!(
            "the result has more than {QUERY_BYTES_MAX} bytes; use LIMIT, or select fewer columns. If the statement \
             changes rows, look whether it did before you run it again"
        ));
    }
    let unreadable = |_| "the broker's answer cannot be read; look whether the statement changed anything".to_owned();
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&answer.body).map_err(unreadable)?;
    let list = fields.get("rows").map_or("[]", |rows| rows.get());
    // Each row counts with its comma, and the last one has none.
    let around = (answer.body.len() + 1).saturating_sub(list.len());
    let rows: Vec<Box<RawValue>> = serde_json::from_str(list).unwrap_or_default();
    let kept = fitting(&rows, around);
    if answer.body.len() <= TEXT_BYTES_MAX {
        let whole = ToolOutput::text(answer.text());
        return Ok(if rows.len() < QUERY_ROWS_MAX { whole } else { whole.and(note(rows.len(), rows.len())) });
    }
    let shown: Vec<&str> = rows[..kept].iter().map(|row| row.get()).collect();
    match RawValue::from_string(format!("[{}]", shown.join(","))) {
        Ok(list) if kept > 0 => drop(fields.insert("rows".to_owned(), list)),
        _ => return Ok(long_values(&answer.text())),
    }
    let text = serde_json::to_string(&fields).map_err(unreadable)?;
    Ok(ToolOutput::text(text).and(note(kept, rows.len())))
}

/// Returns how many rows fit into an answer, besides everything else in it.
fn fitting(rows: &[Box<RawValue>], around: usize) -> usize {
    let ends = rows.iter().scan(around, |end, row| {
        *end += row.get().len() + 1;
        Some(*end)
    });
    ends.take_while(|end| *end <= TEXT_BYTES_MAX).count()
}

/// The broker does not tell whether there were more rows than it was asked for.
fn note(kept: usize, came: usize) -> String {
    let more = if came >= QUERY_ROWS_MAX { " or more" } else { "" };
    format!("[{kept} of {came}{more} rows are shown; use LIMIT and OFFSET, or select fewer columns]")
}

/// Shows the start and the end of an answer whose first row does not fit.
fn long_values(text: &str) -> ToolOutput {
    let (short, omitted) = cut_middle(text, TEXT_BYTES_MAX);
    ToolOutput::text(short).and(format!(
        "[{omitted} bytes in the middle are not shown; select fewer columns, or a part of a long value with substr()]"
    ))
}
