//! Runs code in a context that keeps its variables. The sandbox's own tools do it: they choose the
//! shared context, and return figures as images.

use serde_json::{Map, Value, json};

use super::{commands::time_limit, pass};
use crate::{
    api::{Api, RestRequest},
    arguments::Arguments,
    limits::{COMMAND_GRACE, IMAGE_BYTES_MAX, TEXT_BYTES_MAX},
    output::{ToolOutput, ToolPart, cut_middle},
};

pub async fn run(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let id = given.id("sandbox_id")?;
    let limit = time_limit(given)?;
    let mut arguments = Map::from_iter([("code".to_owned(), json!(given.required("code")?))]);
    arguments.insert("timeout_ms".to_owned(), json!(limit.as_millis()));
    given.copy(&["language"], &mut arguments);
    if let Some(context) = given.some_id("context_id")? {
        arguments.insert("session_id".to_owned(), json!(context));
    }
    let params = json!({"name": "run_code", "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = RestRequest::new("POST", &["sandboxes", id, "mcp"]).json(message);
    let answer = api.call(request.within(limit + COMMAND_GRACE)).await?;
    let said = answer.json().unwrap_or_default();
    match (&said["result"], said["error"]["message"].as_str()) {
        (Value::Object(result), _) => Ok(shown(result)),
        (_, Some(problem)) => Err(problem.to_owned()),
        _ => Ok(ToolOutput { failed: true, ..ToolOutput::of(&answer, "") }),
    }
}

pub async fn create_context(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let id = given.id("sandbox_id")?;
    let mut body = Map::new();
    given.copy(&["language"], &mut body);
    let request = RestRequest::new("POST", &["sandboxes", id, "repl", "sessions"]).json(Value::Object(body));
    pass(api, request, "").await
}

/// Copies the parts of an answer within the limits of this server.
fn shown(result: &Map<String, Value>) -> ToolOutput {
    let failed = result.get("isError") == Some(&Value::Bool(true));
    let mut output = ToolOutput { parts: Vec::new(), failed };
    let (mut images, mut left_out) = (0, 0);
    for part in result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default() {
        if let Some(text) = part["text"].as_str() {
            let (short, omitted) = cut_middle(text, TEXT_BYTES_MAX);
            output = output.and(short);
            if omitted > 0 {
                output = output.and("[the output was cut; write long output to a file and read it with read_file]");
            }
        } else if let (Some(data), Some(mime)) = (part["data"].as_str(), part["mimeType"].as_str()) {
            images += data.len() / 4 * 3;
            match images <= IMAGE_BYTES_MAX {
                true => output.parts.push(ToolPart::Image { data: data.to_owned(), mime: mime.to_owned() }),
                false => left_out += 1,
            }
        }
    }
    match left_out {
        0 => output,
        _ => output.and(format!("[{left_out} images are left out: the limit is {IMAGE_BYTES_MAX} bytes together]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_texts_stay_within_limits() {
        let image = |bytes: usize| json!({"type": "image", "data": "x".repeat(bytes), "mimeType": "image/png"});
        let long = json!({"type": "text", "text": "y".repeat(2 * TEXT_BYTES_MAX)});
        let result = json!({"content": [long, image(400), image(2 * IMAGE_BYTES_MAX)], "isError": true});
        let output = shown(result.as_object().unwrap());
        assert!(output.failed && output.parts.len() == 4, "{}", output.parts.len());
        assert!(matches!(&output.parts[2], ToolPart::Image { data, .. } if data.len() == 400));
        assert!(matches!(&output.parts[3], ToolPart::Text(text) if text.starts_with("[1 images are left out")));
    }
}
