//! The tools on standard input and output, over the typed client.

use std::{error::Error, sync::Arc};

use async_trait::async_trait;
use pandastack_client::{Client, ClientError, PlainRequest};
use rmcp::{ServiceExt, transport::io::stdio_pipes};

use crate::{
    api::{Api, BodyWindow, RestAnswer, RestBody, RestRequest},
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
        let RestRequest { method, path, query, body, timeout, skip, take } = request;
        let body = match body {
            RestBody::None => None,
            RestBody::Json(value) => Some(("application/json", value.to_string().into_bytes())),
            RestBody::Bytes(bytes) => Some(("application/octet-stream", bytes)),
        };
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let request = PlainRequest { method, path: &path, query: &query, body, timeout };
        let mut answer = self.0.plain(request).await.map_err(explained)?;
        let mut window = BodyWindow::new(skip, take);
        while let Some(piece) = answer.piece().await.map_err(explained)? {
            if !window.push(&piece) {
                break;
            }
        }
        Ok(RestAnswer { status: answer.status, body: window.body, more: window.more })
    }
}

fn explained(error: ClientError) -> String {
    match error.is_timeout() {
        true => format!("{error}; the call took too long"),
        false => error.to_string(),
    }
}
