//! The tools on standard input and output, over the typed client.

use std::{error::Error, sync::Arc};

use async_trait::async_trait;
use pandastack_client::{Client, ClientError, Config, PlainRequest};
use rmcp::{ServiceExt, transport::io::stdio_pipes};

use crate::{
    api::{Api, BodyWindow, RestAnswer, RestBody, RestRequest, RestToken},
    server::{RequestApi, ToolServer},
    tools::ToolFilter,
};

/// Serves the tools until standard input is closed.
pub async fn serve_stdio(client: Client, filter: ToolFilter) -> Result<(), Box<dyn Error + Send + Sync>> {
    let api = Some(RequestApi(Arc::new(RemoteApi(client))));
    let server = ToolServer { api, filter: Arc::new(filter) }.serve(stdio_pipes()).await?;
    server.waiting().await?;
    Ok(())
}

/// The API of a server elsewhere.
struct RemoteApi(Client);

#[async_trait]
impl Api for RemoteApi {
    async fn call(&self, request: RestRequest) -> Result<RestAnswer, String> {
        let RestRequest { method, path, query, body, token, timeout, skip, take } = request;
        let body = match body {
            RestBody::None => None,
            RestBody::Json(value) => Some(("application/json", value.to_string().into_bytes())),
            RestBody::Bytes(bytes) => Some(("application/octet-stream", bytes)),
        };
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let request = PlainRequest { method, path: &path, query: &query, body, timeout };
        let other = token.map(|token| with_token(&self.0, &token)).transpose()?;
        let mut answer = other.as_ref().unwrap_or(&self.0).plain(request).await.map_err(explained)?;
        let mut window = BodyWindow::new(skip, take);
        while let Some(piece) = answer.piece().await.map_err(explained)? {
            if !window.push(&piece) {
                break;
            }
        }
        Ok(RestAnswer { status: answer.status, body: window.body, more: window.more })
    }
}

/// A client of the same server with a token instead of the caller's credential.
fn with_token(client: &Client, token: &RestToken) -> Result<Client, String> {
    let empty = Config::load_with(|_| None, None).and_then(|config| config.with_url(client.url()));
    let config = empty.map_err(|error| error.to_string())?.with_key(token.reveal().to_owned());
    Client::new(config).map_err(explained)
}

fn explained(error: ClientError) -> String {
    match error.is_timeout() {
        true => format!("{error}; the call took too long"),
        false => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        net::TcpListener,
        thread::JoinHandle,
    };

    use super::*;

    /// Answers one request. Returns the lines of its head.
    fn answer_one(listener: &TcpListener) -> Vec<String> {
        let stream = listener.accept().unwrap().0;
        let lines = BufReader::new(&stream).lines().map(Result::unwrap);
        let head = lines.take_while(|line| !line.is_empty()).map(|line| line.to_lowercase()).collect();
        (&stream).write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        head
    }

    #[tokio::test]
    async fn a_token_replaces_key_and_organisation_of_its_request_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let config = Config::load_with(|_| None, None).unwrap().with_url(&url).unwrap();
        let api = RemoteApi(Client::new(config.with_key("pds_1".into()).with_org("o").unwrap()).unwrap());
        let server: JoinHandle<Vec<_>> = std::thread::spawn(move || (0..2).map(|_| answer_one(&listener)).collect());
        let request = RestRequest::new("GET", &["databases", "d"]);
        assert_eq!(api.call(request.clone().bearing("pds_pg_1")).await.unwrap().text(), "{}");
        assert_eq!(api.call(request).await.unwrap().text(), "{}");
        let heads = server.join().unwrap();
        let has = |at: usize, line: &str| heads[at].iter().any(|found| found == line);
        assert!(has(0, "get /v1/databases/d http/1.1") && has(0, "authorization: bearer pds_pg_1"), "{heads:?}");
        assert!(!has(0, "x-pandastack-org: o"), "{heads:?}");
        assert!(has(1, "authorization: bearer pds_1") && has(1, "x-pandastack-org: o"), "{heads:?}");
    }
}
