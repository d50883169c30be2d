//! Reads, writes and lists files of a sandbox.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};

use super::pass;
use crate::{
    api::{Api, RestBody, RestRequest},
    arguments::Arguments,
    image::{image_type, is_binary},
    limits::{FILE_OFFSET_MAX, IMAGE_BYTES_MAX, TEXT_BYTES_MAX},
    output::{ToolOutput, ToolPart},
};

const FILES_MAX: Duration = Duration::from_secs(60);

/// Default directories of a listing: the first one that exists is used.
const DIRECTORIES: [&str; 2] = ["/workspace", "/root"];

pub async fn read(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let (id, path) = (given.id("sandbox_id")?, given.required("path")?);
    let (offset, limit) = (given.number("offset")?, given.number("limit")?);
    let start = offset.unwrap_or(0);
    if start > FILE_OFFSET_MAX {
        return Err(format!(
            "offset must be at most {FILE_OFFSET_MAX}; read further with run_command, for example: tail -c +{} {path} \
             | head -c 20000",
            start.saturating_add(1)
        ));
    }
    let most =
        limit.map_or(TEXT_BYTES_MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)).clamp(1, TEXT_BYTES_MAX);
    let request = read_request(id, path);
    let answer = api.call(request.clone().window(start, most)).await?;
    if answer.is_refusal() {
        return Ok(ToolOutput::of(&answer, ""));
    }
    if offset.is_none() && limit.is_none() {
        if let Some(mime) = image_type(&answer.body) {
            return read_image(api, request, mime).await;
        }
        if is_binary(&answer.body) {
            return Ok(ToolOutput::text(format!(
                "{path} is a binary file. Look at it with run_command (file, xxd, strings), or read a part with offset \
                 and limit."
            )));
        }
    }
    // A character that is cut in two comes with the next part.
    let end = if answer.more { whole_characters(&answer.body) } else { answer.body.len() };
    let shown = ToolOutput::text(String::from_utf8_lossy(&answer.body[..end]));
    Ok(match answer.more {
        false => shown,
        true => {
            let next = start + end as u64;
            shown.and(format!("[bytes {start} to {next} are shown; read on with offset {next}]"))
        }
    })
}

/// A request for a file's content.
pub fn read_request(id: &str, path: &str) -> RestRequest {
    RestRequest::new("GET", &["sandboxes", id, "fs"]).query("path", path).within(FILES_MAX)
}

async fn read_image(api: &dyn Api, request: RestRequest, mime: &str) -> Result<ToolOutput, String> {
    let answer = api.call(request.window(0, IMAGE_BYTES_MAX)).await?;
    if answer.is_refusal() {
        return Ok(ToolOutput::of(&answer, ""));
    }
    if answer.more {
        return Err(format!(
            "the image has more than {IMAGE_BYTES_MAX} bytes; make a smaller copy in the sandbox and read that"
        ));
    }
    let image = ToolPart::Image { data: STANDARD.encode(&answer.body), mime: mime.to_owned() };
    Ok(ToolOutput { parts: vec![image], failed: false })
}

/// Returns the length without a last character that is not complete.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        _ => bytes.len(),
    }
}

pub async fn write(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let (id, path) = (given.id("sandbox_id")?, given.required("path")?);
    let content = given.required("content")?;
    let bytes = match given.text("encoding")? {
        None | Some("utf-8") => content.as_bytes().to_vec(),
        Some("base64") => STANDARD.decode(content.trim()).map_err(|_| "content is not valid base64")?,
        Some(_) => return Err("encoding must be utf-8 or base64".to_owned()),
    };
    let request = RestRequest::new("PUT", &["sandboxes", id, "fs"]).query("path", path).within(FILES_MAX);
    pass(api, RestRequest { body: RestBody::Bytes(bytes), ..request }, "").await
}

pub async fn list(api: &dyn Api, given: &Arguments<'_>) -> Result<ToolOutput, String> {
    let id = given.id("sandbox_id")?;
    let depth = given.number("depth")?;
    let asked = given.text("path")?.filter(|path| !path.is_empty());
    let request = |path: &str| {
        let request = RestRequest::new("GET", &["sandboxes", id, "fs", "dir"]).query("path", path).within(FILES_MAX);
        match depth {
            Some(depth) => request.query("depth", depth.to_string()),
            None => request,
        }
    };
    let answer = api.call(request(asked.unwrap_or(DIRECTORIES[0]))).await?;
    let answer = match asked {
        None if answer.status == 404 && is_about_files(&answer.text()) => api.call(request(DIRECTORIES[1])).await?,
        _ => answer,
    };
    Ok(ToolOutput::of(&answer, "list a subdirectory, or use run_command (ls, find)"))
}

/// A missing sandbox is answered with 404 too.
fn is_about_files(text: &str) -> bool {
    !text.contains("sandbox.not_found")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_not_cut_in_two() {
        assert_eq!(whole_characters("aé".as_bytes()), 3);
        assert_eq!(whole_characters(&"aé".as_bytes()[..2]), 1);
        assert_eq!(whole_characters(b"a\xff\xfe"), 3);
        assert_eq!(whole_characters(b"\xc3"), 1, "a part is never empty");
    }
}
