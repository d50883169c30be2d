//! Sends requests and reads answers.

use std::time::Duration;

use pandastack_kit::Secret;
use pandastack_wire_public::{Health, Version};
use reqwest::{Method, RequestBuilder, Response, Url, header::HeaderValue};
use serde::de::DeserializeOwned;

use crate::{ClientError, Config, trust::tls_settings};

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long an unused connection is kept. The server closes one after 75 s, and a request sent at
/// that moment would be lost.
const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(30);
/// The header in which a person chooses an organisation for one request.
const ORG_HEADER: &str = "x-pandastack-org";
/// Timeout of requests that do not run commands or transfer files.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A client of one server with one credential. Clones share connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    key: Option<Secret<String>>,
    org: Option<HeaderValue>,
}

impl Client {
    /// Creates a client. Sends nothing yet.
    pub fn new(config: Config) -> Result<Self, ClientError> {
        let Config { url, key, org } = config;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .pool_idle_timeout(CONNECTION_IDLE_MAX)
            .redirect(reqwest::redirect::Policy::none())
            // The server is configured explicitly, so proxies from the environment do not apply.
            .no_proxy()
            .use_preconfigured_tls(tls_settings(&url)?)
            .user_agent(concat!("pandastack-rust/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|cause| ClientError::Broken { url: url.clone(), cause })?;
        Ok(Self { http, url, key, org })
    }

    /// Returns the server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Tells whether the client has a key.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Asks whether the server works. An unhealthy server is an answer, not an error.
    pub async fn health(&self) -> Result<Health, ClientError> {
        let response = self.request(Method::GET, &["healthz"])?.timeout(ANSWER_MAX).send().await;
        let response = response.map_err(|cause| ClientError::sending(&self.url, cause))?;
        self.decode(response).await
    }

    /// Asks for the version of the server.
    pub async fn version(&self) -> Result<Version, ClientError> {
        self.json(self.request(Method::GET, &["version"])?.timeout(ANSWER_MAX)).await
    }

    /// Starts a request below `/v1`. Each part of the path is escaped separately.
    pub(crate) fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, ClientError> {
        Ok(self.identified(self.http.request(method, self.address(path)?)))
    }

    /// Starts a request with query values.
    pub(crate) fn query_request(
        &self,
        method: Method,
        path: &[&str],
        values: &[(&str, &str)],
    ) -> Result<RequestBuilder, ClientError> {
        Ok(self.identified(self.http.request(method, self.query_address(path, values)?)))
    }

    /// Starts a request with a token of its own instead of this client's credential.
    pub(crate) fn token_request(
        &self,
        method: Method,
        path: &[&str],
        token: &Secret<String>,
    ) -> Result<RequestBuilder, ClientError> {
        Ok(self.http.request(method, self.address(path)?).bearer_auth(token.reveal()))
    }

    /// Adds the credential, and the organisation that was chosen.
    fn identified(&self, request: RequestBuilder) -> RequestBuilder {
        let request = match &self.key {
            Some(key) => request.bearer_auth(key.reveal()),
            None => request,
        };
        match &self.org {
            Some(org) => request.header(ORG_HEADER, org),
            None => request,
        }
    }

    /// Returns an address below `/v1` with query values.
    pub(crate) fn query_address(&self, path: &[&str], values: &[(&str, &str)]) -> Result<Url, ClientError> {
        let mut url = self.address(path)?;
        url.query_pairs_mut().extend_pairs(values);
        Ok(url)
    }

    fn address(&self, path: &[&str]) -> Result<Url, ClientError> {
        let bad =
            || ClientError::Protocol { url: self.url.clone(), what: "the server address is not valid".to_owned() };
        let mut url = Url::parse(&self.url).map_err(|_| bad())?;
        url.path_segments_mut().map_err(|()| bad())?.pop_if_empty().push("v1").extend(path);
        Ok(url)
    }

    /// Sends a request and returns the response if it is a success.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = self.answer(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let what = format!("status {}", response.status());
        Err(ClientError::Protocol { url: self.url.clone(), what })
    }

    /// Sends a request and returns the response unless it is an error.
    pub(crate) async fn answer(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|cause| ClientError::sending(&self.url, cause))?;
        let status = response.status();
        if status.is_success() || status.is_informational() {
            return Ok(response);
        }
        // An error without a readable body is still an error.
        let body = response.bytes().await.unwrap_or_default();
        Err(ClientError::refused(status, &body))
    }

    /// Sends a request and reads a JSON answer.
    pub(crate) async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        self.decode(response).await
    }

    async fn decode<T: DeserializeOwned>(&self, response: Response) -> Result<T, ClientError> {
        let body = response.bytes().await.map_err(|cause| ClientError::sending(&self.url, cause))?;
        serde_json::from_slice(&body)
            .map_err(|error| ClientError::Protocol { url: self.url.clone(), what: error.to_string() })
    }
}
