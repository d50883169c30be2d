//! Files of sandboxes as resources: `sandbox://ID/PATH`. A path that ends with a slash is a
//! directory.

use base64::{Engine, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;
use rmcp::{
    ErrorData,
    model::{Resource, ResourceContents, ResourceTemplate},
};
use serde_json::Value;

use crate::{
    api::{Api, RestAnswer, RestRequest},
    arguments::checked_id,
    image::{image_type, is_binary},
    limits::{RESOURCE_BYTES_MAX, RESOURCES_MAX},
    tools::read_request,
};

const SCHEME: &str = "sandbox://";
const DIRECTORY: &str = "inode/directory";

/// Describes the addresses of files.
pub fn template() -> ResourceTemplate {
    ResourceTemplate::new(format!("{SCHEME}{{sandbox_id}}/{{+path}}"), "sandbox_file")
        .with_title("File of a sandbox")
        .with_description("A file by its absolute path, or a directory if the path ends with a slash")
}

/// Lists the working directories of running sandboxes. It asks no sandbox, because that would keep
/// them awake.
pub async fn list(api: &dyn Api) -> Result<Vec<Resource>, ErrorData> {
    let request = RestRequest::new("GET", &["sandboxes"]).query("limit", RESOURCES_MAX.to_string());
    let answer = asked(api, request).await?;
    let sandboxes = answer.json().unwrap_or_default();
    let running = sandboxes.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let running = running.filter(|sandbox| sandbox["status"] == "running").take(RESOURCES_MAX);
    Ok(running.filter_map(directory).collect())
}

fn directory(sandbox: &Value) -> Option<Resource> {
    let id = sandbox["id"].as_str()?;
    let template = sandbox["template"].as_str().unwrap_or_default();
    let resource = Resource::new(format!("{SCHEME}{id}/workspace/"), format!("{id}/workspace"));
    Some(resource.with_description(format!("Working directory of a {template} sandbox")).with_mime_type(DIRECTORY))
}

/// Reads a file or lists a directory.
pub async fn read(api: &dyn Api, uri: &str) -> Result<ResourceContents, ErrorData> {
    let (id, path) = parse(uri).map_err(|text| ErrorData::invalid_params(text, None))?;
    let is_directory = path.ends_with('/');
    let request = match is_directory {
        true => RestRequest::new("GET", &["sandboxes", &id, "fs", "dir"]).query("path", path.as_str()),
        false => read_request(&id, &path),
    };
    let answer = asked(api, request.window(0, RESOURCE_BYTES_MAX)).await?;
    if answer.more {
        let text = format!("{path} has more than {RESOURCE_BYTES_MAX} bytes; read a part with read_file or list_dir");
        return Err(ErrorData::invalid_params(text, None));
    }
    if is_directory {
        return Ok(ResourceContents::text(answer.text(), uri).with_mime_type("application/json"));
    }
    let mime = image_type(&answer.body);
    Ok(match String::from_utf8(answer.body) {
        Ok(text) if !is_binary(text.as_bytes()) => ResourceContents::text(text, uri),
        Ok(text) => blob(text.as_bytes(), uri, mime),
        Err(error) => blob(error.as_bytes(), uri, mime),
    })
}

fn blob(bytes: &[u8], uri: &str, mime: Option<&str>) -> ResourceContents {
    let blob = ResourceContents::blob(STANDARD.encode(bytes), uri);
    blob.with_mime_type(mime.unwrap_or("application/octet-stream"))
}

async fn asked(api: &dyn Api, request: RestRequest) -> Result<RestAnswer, ErrorData> {
    let answer = api.call(request).await.map_err(|text| ErrorData::internal_error(text, None))?;
    match answer.status {
        404 => Err(ErrorData::resource_not_found(said(&answer), None)),
        status if status >= 500 => Err(ErrorData::internal_error(said(&answer), None)),
        status if status >= 400 => Err(ErrorData::invalid_params(said(&answer), None)),
        _ => Ok(answer),
    }
}

/// Returns the text of a refusal.
fn said(answer: &RestAnswer) -> String {
    let body = answer.json().unwrap_or_default();
    body["error"].as_str().map_or_else(|| format!("status {}", answer.status), str::to_owned)
}

/// Returns the sandbox and the absolute path of an address.
fn parse(uri: &str) -> Result<(String, String), String> {
    let form = || format!("a resource is {SCHEME}SANDBOX_ID/PATH");
    let (id, path) = uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')).ok_or_else(form)?;
    let id = checked_id("the sandbox", id)?;
    let path = percent_decode_str(path).decode_utf8().map_err(|_| form())?;
    // The template may be filled with an absolute path.
    Ok((id.to_owned(), format!("/{}", path.trim_start_matches('/'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_sandbox_and_a_path() {
        let good = |uri| parse(uri).unwrap();
        assert_eq!(good("sandbox://a-1/etc/hosts"), ("a-1".to_owned(), "/etc/hosts".to_owned()));
        assert_eq!(good("sandbox://a-1/%2Fetc%2Fh%20s"), ("a-1".to_owned(), "/etc/h s".to_owned()));
        assert_eq!(good("sandbox://a-1//workspace/"), ("a-1".to_owned(), "/workspace/".to_owned()));
        for bad in ["file:///etc/hosts", "sandbox://", "sandbox://a", "sandbox://..//x", "sandbox://a%2fb/x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
