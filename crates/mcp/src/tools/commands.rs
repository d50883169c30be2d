//! Runs a command to its end. Output that is too long for the answer is kept in a file of the
//! sandbox.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::{
    api::{Api, RestBody, RestRequest},
    arguments::Arguments,
    limits::{COMMAND_DEFAULT, COMMAND_GRACE, COMMAND_MAX, SAVED_OUTPUT_BYTES_MAX, SAVED_OUTPUTS_MAX, TEXT_BYTES_MAX},
    output::{ToolOutput, cut_middle, json_len},
};

/// The folder of kept output in a sandbox.
const SAVED_IN: &str = "/tmp/pandastack-output";

pub async fn run(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let id = given.id("sandbox_id")?;
    let limit = time_limit(given)?;
    let mut body = Map::new();
    body.insert("cmd".to_owned(), json!(given.required("command")?));
    body.insert("timeout_seconds".to_owned(), json!(limit.as_secs()));
    given.copy(&["cwd", "env", "stdin", "user"], &mut body);
    let request = RestRequest::new("POST", &["sandboxes", id, "exec"]).json(Value::Object(body));
    let answer = api.call(request.within(limit + COMMAND_GRACE)).await?;
    let result = match answer.json() {
        Some(Value::Object(result)) if !answer.is_refusal() && answer.body.len() > TEXT_BYTES_MAX => result,
        _ => return Ok(ToolOutput::of(&answer, "run it again with less output")),
    };
    Ok(shortened(api, id, result).await)
}

/// Returns the time limit of a command.
pub fn time_limit(given: &Arguments<'_>) -> Result<Duration, String> {
    Ok(match given.number("timeout_seconds")? {
        None | Some(0) => COMMAND_DEFAULT,
        Some(seconds) => Duration::from_secs(seconds).min(COMMAND_MAX),
    })
}

/// Cuts both streams to the length of an answer, and keeps the whole output in the sandbox.
async fn shortened(api: &dyn Api, id: &str, mut result: Map<String, Value>) -> ToolOutput {
    let mut stream = |name: &str| match result.get_mut(name).map(Value::take) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (stdout, stderr) = (stream("stdout"), stream("stderr"));
    let (out_room, error_room) = rooms(json_len(&stdout), json_len(&stderr));
    let mut notes = Vec::new();
    for (name, text, room) in [("stdout", stdout, out_room), ("stderr", stderr, error_room)] {
        let (short, omitted) = cut_middle(&text, room);
        if omitted > 0 {
            notes.push(keep(api, id, name, text).await);
        }
        result.insert(name.to_owned(), json!(short));
    }
    notes.into_iter().fold(ToolOutput::text(Value::Object(result).to_string()), ToolOutput::and)
}

/// Divides the length of an answer between both streams.
fn rooms(stdout: usize, stderr: usize) -> (usize, usize) {
    let error_room = stderr.min((TEXT_BYTES_MAX / 4).max(TEXT_BYTES_MAX.saturating_sub(stdout)));
    (TEXT_BYTES_MAX - error_room, error_room)
}

/// Writes output to a file of the sandbox. Returns a note that tells how to read it.
async fn keep(api: &dyn Api, id: &str, name: &str, text: String) -> String {
    let all = text.len();
    let mut bytes = text.into_bytes();
    bytes.truncate(SAVED_OUTPUT_BYTES_MAX);
    let path = format!("{SAVED_IN}/{}", file_name(name));
    let kept = bytes.len();
    let write = RestRequest::new("PUT", &["sandboxes", id, "fs"]).query("path", path.as_str());
    let written = api.call(RestRequest { body: RestBody::Bytes(bytes), ..write.within(COMMAND_DEFAULT) }).await;
    match written {
        Ok(answer) if !answer.is_refusal() => {}
        _ => return format!("[{name} was cut and could not be kept; run the command again with less output]"),
    }
    forget_oldest(api, id).await;
    let part = if kept < all { format!("the first {kept} of {all}") } else { format!("all {all}") };
    format!(
        "[{name} was cut: {part} bytes are in {path} of the sandbox. Read them with read_file \
         {{\"sandbox_id\":\"{id}\",\"path\":\"{path}\",\"offset\":0}}, or search them with run_command (grep, \
         tail)]"
    )
}

/// Names begin with the time, so that their order is their age.
fn file_name(stream: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut random = [0; 3];
    // Without randomness, two commands of one millisecond share a file.
    let _ = getrandom::fill(&mut random);
    let [a, b, c] = random;
    format!("{:015}-{a:02x}{b:02x}{c:02x}-{stream}.txt", now.as_millis())
}

/// Removes the oldest files. It does not matter if this fails.
async fn forget_oldest(api: &dyn Api, id: &str) {
    let list = RestRequest::new("GET", &["sandboxes", id, "fs", "dir"]).query("path", SAVED_IN);
    let Ok(answer) = api.call(list).await else { return };
    let listing = answer.json().unwrap_or_default();
    let entries = listing["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut names: Vec<&str> = entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
    names.sort_unstable();
    for name in names.iter().take(names.len().saturating_sub(SAVED_OUTPUTS_MAX)) {
        let path = format!("{SAVED_IN}/{name}");
        let _ = api.call(RestRequest::new("DELETE", &["sandboxes", id, "fs"]).query("path", path)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_of_an_answer_is_divided() {
        assert_eq!(rooms(10 * TEXT_BYTES_MAX, 0), (TEXT_BYTES_MAX, 0));
        assert_eq!(rooms(0, 10 * TEXT_BYTES_MAX), (0, TEXT_BYTES_MAX));
        let (out, error) = rooms(10 * TEXT_BYTES_MAX, 10 * TEXT_BYTES_MAX);
        assert_eq!((out + error, error), (TEXT_BYTES_MAX, TEXT_BYTES_MAX / 4));
        assert_eq!(rooms(10 * TEXT_BYTES_MAX, 100), (TEXT_BYTES_MAX - 100, 100));
    }
}
