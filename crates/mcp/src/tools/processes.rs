//! Processes that go on after the call that started them.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::pass;
use crate::{
    api::{Api, RestRequest},
    arguments::Arguments,
    limits::{PROGRESS_EVERY, TEXT_BYTES_MAX, WAIT_MAX},
    output::ToolOutput,
};

pub async fn start(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let id = given.id("sandbox_id")?;
    let mut body = Map::from_iter([("cmd".to_owned(), json!(given.required("command")?))]);
    given.copy(&["cwd", "env", "tag", "user", "timeout_seconds"], &mut body);
    pass(api, RestRequest::new("POST", &["sandboxes", id, "processes"]).json(Value::Object(body)), "").await
}

pub async fn list(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let request = RestRequest::new("GET", &["sandboxes", given.id("sandbox_id")?, "processes"]);
    pass(api, request, "remove ended processes with stop_process").await
}

pub async fn output(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let (id, process) = (given.id("sandbox_id")?, given.id("process_id")?);
    let offset = given.number("offset")?.unwrap_or(0);
    let wait = Duration::from_secs(given.number("wait_seconds")?.unwrap_or(0)).min(WAIT_MAX);
    let until = Instant::now() + wait;
    loop {
        let request = RestRequest::new("GET", &["sandboxes", id, "processes", process, "output"]);
        let answer = api.call(request.query("offset", offset.to_string())).await?;
        let Some(Value::Object(output)) = answer.json().filter(|_| !answer.is_refusal()) else {
            return Ok(ToolOutput::of(&answer, ""));
        };
        let is_silent = output.get("chunks").and_then(Value::as_array).is_none_or(Vec::is_empty);
        let runs = output.get("status").and_then(Value::as_str) == Some("running");
        if !(is_silent && runs) || Instant::now() >= until {
            return Ok(part(output, offset));
        }
        tokio::time::sleep_until(until.min(Instant::now() + PROGRESS_EVERY)).await;
    }
}

/// Shows the first part of the output, and where the next one begins.
fn part(mut output: Map<String, Value>, offset: u64) -> ToolOutput {
    let chunks = output.remove("chunks").unwrap_or_default();
    let lost = output.get("truncated").and_then(Value::as_u64).unwrap_or(0);
    let mut streams = [("stdout", String::new()), ("stderr", String::new())];
    let (mut room, mut used, mut cut) = (TEXT_BYTES_MAX, 0, false);
    for chunk in chunks.as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = chunk["chunk"].as_str().unwrap_or_default();
        let end = text.floor_char_boundary(room);
        let side = &mut streams[usize::from(chunk["stream"] == "stderr")].1;
        side.push_str(&text[..end]);
        used += bytes_of(&text[..end]);
        room -= end;
        if end < text.len() {
            cut = true;
            break;
        }
    }
    for (name, text) in streams {
        output.insert(name.to_owned(), json!(text));
    }
    if !cut {
        return ToolOutput::text(Value::Object(output).to_string());
    }
    let next = offset.saturating_add(lost).saturating_add(used);
    output.insert("next_offset".to_owned(), json!(next));
    let shown = ToolOutput::text(Value::Object(output).to_string());
    shown.and(format!("[there is more output; read on with offset {next}]"))
}

/// Returns the length of output before invalid bytes were replaced. A replacement stands for one
/// to three bytes: with the fewest, the next part may repeat some but misses none.
fn bytes_of(text: &str) -> u64 {
    text.chars().map(|letter| if letter == '\u{fffd}' { 1 } else { letter.len_utf8() as u64 }).sum()
}

pub async fn stop(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let (id, process) = (given.id("sandbox_id")?, given.id("process_id")?);
    if given.flag("remove")?.unwrap_or(false) {
        return pass(api, RestRequest::new("DELETE", &["sandboxes", id, "processes", process]), "").await;
    }
    let signal = given.text("signal")?.unwrap_or("TERM");
    let request = RestRequest::new("POST", &["sandboxes", id, "processes", process, "signal"]);
    let answer = api.call(request.json(json!({"signal": signal}))).await?;
    Ok(match answer.is_refusal() {
        true => ToolOutput::of(&answer, ""),
        false => ToolOutput::text(format!("sent {signal} to {process}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_output_join_to_the_whole() {
        let whole: String = (0..20_000).map(|line| format!("line {line} é\n")).collect();
        let (mut offset, mut joined) = (0_usize, String::new());
        loop {
            let chunks = json!([{"stream": "stdout", "chunk": &whole[offset..]}]);
            let output = json!({"chunks": chunks, "truncated": 0, "next_offset": whole.len(), "status": "exited"});
            let shown = part(output.as_object().unwrap().clone(), offset as u64);
            let crate::output::ToolPart::Text(body) = &shown.parts[0] else { panic!("text expected") };
            let body: Value = serde_json::from_str(body).unwrap();
            joined.push_str(body["stdout"].as_str().unwrap());
            offset = usize::try_from(body["next_offset"].as_u64().unwrap()).unwrap();
            assert_eq!(shown.parts.len() == 2, offset < whole.len());
            if offset == whole.len() {
                break;
            }
        }
        assert_eq!(joined, whole);
    }

    #[test]
    fn lost_output_and_bad_bytes_never_skip_any() {
        let chunk = "\u{fffd}".repeat(TEXT_BYTES_MAX);
        let output = json!({"chunks": [{"stream": "stderr", "chunk": chunk}], "truncated": 7, "status": "running"});
        let shown = part(output.as_object().unwrap().clone(), 5);
        let crate::output::ToolPart::Text(body) = &shown.parts[0] else { panic!("text expected") };
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["next_offset"], 5 + 7 + TEXT_BYTES_MAX / 3);
        assert_eq!(body["stdout"], "");
    }
}
