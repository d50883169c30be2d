//! S3 as the store: `s3://bucket/prefix` and the usual `AWS_*` variables. Requests go through this
//! workspace's HTTP client with ring, so that no second TLS library is built.

use std::sync::Arc;

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::{
    ClientOptions, ObjectStore,
    aws::AmazonS3Builder,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    },
};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::{ArchiveStoreError, limits::STORE_REQUEST_MAX};

/// A bucket, a folder in it, and the variables that say how to reach it.
#[derive(Clone)]
pub struct S3Settings {
    pub bucket: String,
    /// Empty for the whole bucket.
    pub prefix: String,
    variables: Vec<(String, String)>,
}

impl std::fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The variables have the secret key.
        write!(f, "s3://{}/{}", self.bucket, self.prefix)
    }
}

impl S3Settings {
    /// Reads `s3://bucket/prefix`. Of the variables only those that start with `AWS_` are used.
    pub fn parse(url: &str, variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, ArchiveStoreError> {
        let wrong = || ArchiveStoreError::Settings(format!("{url:?} is not like s3://bucket/prefix"));
        let rest = url.strip_prefix("s3://").ok_or_else(wrong)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(fits) || !prefix.bytes().all(|byte| fits(byte) || byte == b'/') {
            return Err(wrong());
        }
        let variables = variables.into_iter().filter(|(name, _)| name.starts_with("AWS_")).collect();
        Ok(Self { bucket: bucket.into(), prefix: prefix.trim_matches('/').into(), variables })
    }
}

/// Opens the store. Nothing is sent yet.
pub(crate) fn open(settings: &S3Settings) -> Result<Arc<dyn ObjectStore>, ArchiveStoreError> {
    let mut builder = AmazonS3Builder::new().with_bucket_name(&settings.bucket);
    for (name, value) in &settings.variables {
        // Variables of other AWS programs are not ours to judge.
        if let Ok(key) = name.to_ascii_lowercase().parse() {
            builder = builder.with_config(key, value);
        }
    }
    let store = builder.with_http_connector(Connector { http: client()? }).build();
    Ok(Arc::new(store.map_err(ArchiveStoreError::Open)?))
}

fn client() -> Result<reqwest::Client, ArchiveStoreError> {
    let wrong = |error: &dyn std::fmt::Display| ArchiveStoreError::Settings(format!("set up TLS: {error}"));
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| wrong(&error))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let client = reqwest::Client::builder().use_preconfigured_tls(config);
    let client = client.connect_timeout(STORE_REQUEST_MAX / 4).read_timeout(STORE_REQUEST_MAX);
    client.redirect(reqwest::redirect::Policy::none()).build().map_err(|error| wrong(&error))
}

#[derive(Debug)]
struct Connector {
    http: reqwest::Client,
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Requests(self.http.clone())))
    }
}

#[derive(Debug)]
struct Requests(reqwest::Client);

#[async_trait]
impl HttpService for Requests {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let request = request.map(|body| reqwest::Body::wrap(body.map_err(std::io::Error::other)));
        let request = reqwest::Request::try_from(request).map_err(http_error)?;
        let response: hyper::Response<reqwest::Body> = self.0.execute(request).await.map_err(http_error)?.into();
        Ok(response.map(|body| HttpResponseBody::new(body.map_err(http_error))))
    }
}

/// Says which failures are worth another try.
fn http_error(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_request() || error.is_body() {
        HttpErrorKind::Interrupted
    } else {
        HttpErrorKind::Unknown
    };
    // The address may have a signature.
    HttpError::new(kind, error.without_url())
}
