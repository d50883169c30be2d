//! Templates and their builds.

use std::{collections::VecDeque, io, path::PathBuf, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use pandastack_kit::random_hex;
use pandastack_wire_public::{Build, Template};
use reqwest::{Body, Method, Response};
use tokio_util::io::ReaderStream;

use crate::{
    Client, ClientError,
    client::ANSWER_MAX,
    events::{EventReader, ServerSentEvent},
};

/// Long, because a root file system may be large and the connection slow.
const UPLOAD_MAX: Duration = Duration::from_secs(1800);

/// The form of a build request.
#[derive(Clone, Debug, Default)]
pub struct BuildForm {
    pub fields: Vec<(String, String)>,
    /// Files: the field name, which is the path in the context, and the local path.
    pub files: Vec<(String, PathBuf)>,
}

/// A build's log, read while it is written.
pub struct BuildLog {
    response: Response,
    reader: EventReader,
    ready: VecDeque<ServerSentEvent>,
    url: String,
    ended: bool,
}

impl Client {
    /// Shows one template.
    pub async fn get_template(&self, name: &str) -> Result<Template, ClientError> {
        self.json(self.request(Method::GET, &["templates", name])?.timeout(ANSWER_MAX)).await
    }

    /// Deletes a template. Sandboxes made from it keep running.
    pub async fn delete_template(&self, name: &str) -> Result<(), ClientError> {
        self.send(self.request(Method::DELETE, &["templates", name])?.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// Starts a build. Files are read while they are sent.
    pub async fn build_template(&self, form: BuildForm) -> Result<Build, ClientError> {
        let boundary = format!("pandastack-{}", random_hex::<16>());
        let request = self
            .request(Method::POST, &["templates", "build"])?
            .timeout(UPLOAD_MAX)
            .header("content-type", format!("multipart/form-data; boundary={boundary}"))
            .body(Body::wrap_stream(encoded(form, boundary)));
        self.json(request).await
    }

    /// Lists builds, newest first.
    pub async fn builds(&self) -> Result<Vec<Build>, ClientError> {
        self.json(self.request(Method::GET, &["templates", "builds"])?.timeout(ANSWER_MAX)).await
    }

    /// Shows one build.
    pub async fn get_build(&self, id: &str) -> Result<Build, ClientError> {
        self.json(self.request(Method::GET, &["templates", "builds", id])?.timeout(ANSWER_MAX)).await
    }

    /// Reads a build's log from its start. With `follow` it continues to the end of the build.
    pub async fn build_log(&self, id: &str, follow: bool) -> Result<BuildLog, ClientError> {
        let path = ["templates", "builds", id, "logs"];
        let request = match follow {
            true => self.query_request(Method::GET, &path, &[("follow", "1")])?,
            false => self.request(Method::GET, &path)?,
        };
        let response = self.send(request).await?;
        let (reader, ready, url) = (EventReader::default(), VecDeque::new(), self.url().to_owned());
        Ok(BuildLog { response, reader, ready, url, ended: false })
    }
}

impl BuildLog {
    /// Returns the next line; `None` at the end.
    pub async fn next(&mut self) -> Option<Result<String, ClientError>> {
        while !self.ended {
            if let Some(event) = self.ready.pop_front() {
                if event.name == "done" {
                    self.ended = true;
                    break;
                }
                return Some(Ok(event.data));
            }
            match self.response.chunk().await {
                Ok(Some(piece)) => match self.reader.push(&piece) {
                    Ok(events) => self.ready.extend(events),
                    Err(what) => return Some(Err(ClientError::Protocol { url: self.url.clone(), what })),
                },
                Ok(None) => self.ended = true,
                Err(cause) => {
                    self.ended = true;
                    return Some(Err(ClientError::Broken { url: self.url.clone(), cause }));
                }
            }
        }
        None
    }
}

/// Encodes a form as `multipart/form-data`. Names must not contain quotes or line ends.
fn encoded(form: BuildForm, boundary: String) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let BuildForm { fields, files } = form;
    let head = |name: &str, file: &str| {
        Bytes::from(format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n"))
    };
    let end = Bytes::from_static(b"\r\n");
    let mut parts: Vec<(Bytes, Option<PathBuf>)> = Vec::new();
    for (name, value) in fields {
        parts.extend([(head(&name, ""), None), (Bytes::from(value.into_bytes()), None), (end.clone(), None)]);
    }
    for (name, path) in files {
        let file = format!("; filename=\"{name}\"");
        parts.extend([(head(&name, &file), None), (Bytes::new(), Some(path)), (end.clone(), None)]);
    }
    parts.push((Bytes::from(format!("--{boundary}--\r\n")), None));
    stream::iter(parts)
        .then(|(bytes, path)| async move {
            Ok::<_, io::Error>(match path {
                None => stream::iter([Ok(bytes)]).left_stream(),
                Some(path) => ReaderStream::new(tokio::fs::File::open(path).await?).right_stream(),
            })
        })
        .try_flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_form_is_what_servers_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "contents").unwrap();
        let form = BuildForm {
            fields: vec![("name".into(), "x".into())],
            files: vec![("a/b".into(), folder.path().join("f"))],
        };
        let body: Vec<Bytes> = encoded(form, "edge".into()).try_collect().await.unwrap();
        assert_eq!(
            String::from_utf8(body.concat()).unwrap(),
            "--edge\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nx\r\n\
             --edge\r\nContent-Disposition: form-data; name=\"a/b\"; filename=\"a/b\"\r\n\r\ncontents\r\n--edge--\r\n"
        );
    }
}
