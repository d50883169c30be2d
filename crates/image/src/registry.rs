//! Fetches the parts of one image from one registry. Every connection goes through `dial`, so a
//! redirect or a token server cannot lead to a forbidden address. Every part is checked against its
//! digest before it is used.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1,
    header::{ACCEPT, AUTHORIZATION, HOST, LOCATION, USER_AGENT, WWW_AUTHENTICATE},
};
use hyper_util::rt::TokioIo;
use pandastack_dial::ConnectionTask;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::{fs::File, io::AsyncWriteExt, time::timeout};
use url::Url;

use crate::{
    ImageClient, LayerSpool, PullError, RegistryCredentials,
    challenge::{self, AuthChallenge},
    limits::{
        IMAGE_DOCUMENT_BYTES_MAX, REGISTRY_CONNECT_MAX, REGISTRY_HEAD_BYTES_MAX, REGISTRY_QUIET_MAX,
        REGISTRY_REDIRECTS_MAX,
    },
    manifest::{self, Blob, ImageConfig, ManifestDocument},
    reference::{ImageDigest, ImageReference, ImageVersion},
};

/// An image as the registry describes it.
#[derive(Clone, Debug)]
pub struct Image {
    /// Digest that the name resolved to. The same digest is the same image.
    pub digest: ImageDigest,
    pub layers: Vec<Blob>,
    pub said: ImageConfig,
}

/// One registry, for one image.
pub struct RegistryClient<'a> {
    images: &'a ImageClient,
    reference: &'a ImageReference,
    auth: Option<&'a RegistryCredentials>,
    /// `Authorization` header of every request to the registry.
    pass: Option<String>,
}

/// The head of an answer, and the connection that delivers the rest.
struct RegistryResponse {
    response: Response<Incoming>,
    /// Whether the registry itself answered, and not the target of a redirect.
    own: bool,
    _connection: ConnectionTask,
}

#[derive(Deserialize)]
struct TokenBody {
    #[serde(alias = "access_token")]
    token: Option<String>,
}

impl<'a> RegistryClient<'a> {
    pub fn new(images: &'a ImageClient, reference: &'a ImageReference, auth: Option<&'a RegistryCredentials>) -> Self {
        Self { images, reference, auth, pass: None }
    }

    /// Resolves the image's name.
    pub async fn resolve(&mut self) -> Result<Image, PullError> {
        let version = self.reference.version.clone();
        let (mut digest, mut document) = self.manifest(&version).await?;
        if let ManifestDocument::Index(ours) = document {
            (digest, document) = self.manifest(&ImageVersion::Digest(ours)).await?;
        }
        let ManifestDocument::Image { config, layers } = document else {
            return Err(PullError::Bad("the image list refers to another list".to_owned()));
        };
        let answer = self.get(&format!("blobs/{}", config.digest.as_str()), "*/*").await?;
        let bytes = read(answer, IMAGE_DOCUMENT_BYTES_MAX).await?;
        check(&config.digest, &bytes)?;
        let said = manifest::config(&bytes, layers.len()).map_err(PullError::Bad)?;
        Ok(Image { digest, layers, said })
    }

    async fn manifest(&mut self, version: &ImageVersion) -> Result<(ImageDigest, ManifestDocument), PullError> {
        let answer = self.get(&format!("manifests/{}", version.as_str()), manifest::ACCEPTED).await?;
        let bytes = read(answer, IMAGE_DOCUMENT_BYTES_MAX).await?;
        let digest = ImageDigest::of(&Sha256::digest(&bytes));
        if let ImageVersion::Digest(wanted) = version {
            check(wanted, &bytes)?;
        }
        Ok((digest, manifest::document(&bytes).map_err(PullError::Bad)?))
    }

    /// Fetches a layer into a part of the spool.
    pub async fn fetch(&mut self, blob: &Blob, spool: &mut impl LayerSpool, part: usize) -> Result<(), PullError> {
        let mut answer = self.get(&format!("blobs/{}", blob.digest.as_str()), "*/*").await?;
        let mut to = File::create_new(spool.path(part)).await.map_err(PullError::Spool)?;
        let (mut hasher, mut bytes) = (Sha256::new(), 0_u64);
        while let Some(piece) = next(&mut answer).await? {
            bytes += piece.len() as u64;
            if bytes > blob.bytes {
                return Err(PullError::Bad(format!("blob {} is larger than its manifest says", blob.digest.short())));
            }
            spool.charge(piece.len() as u64)?;
            hasher.update(&piece);
            to.write_all(&piece).await.map_err(PullError::Spool)?;
        }
        to.flush().await.map_err(PullError::Spool)?;
        if bytes != blob.bytes {
            let text =
                format!("the download of blob {} ended after {bytes} of {} bytes", blob.digest.short(), blob.bytes);
            return Err(PullError::Unreachable(text));
        }
        same(&blob.digest, &ImageDigest::of(&hasher.finalize()))
    }

    /// Requests a part of the repository. Authenticates and tries again if the registry demands it.
    async fn get(&mut self, what: &str, accept: &str) -> Result<RegistryResponse, PullError> {
        let base = self.images.base(&self.reference.registry)?;
        let url = base.join(&format!("/v2/{}/{what}", self.reference.repository));
        let url = url.map_err(|error| PullError::Bad(error.to_string()))?;
        let answer = self.follow(url.clone(), accept).await?;
        let answer = match answer.response.status() {
            // Also if a token expired: tokens last for minutes, layers may take longer. The target
            // of a redirect gets no credentials, whatever it demands.
            StatusCode::UNAUTHORIZED if answer.own => {
                self.pass = Some(self.introduce(&answer).await?);
                self.follow(url, accept).await?
            }
            _ => answer,
        };
        match answer.response.status() {
            StatusCode::OK => Ok(answer),
            StatusCode::NOT_FOUND => Err(PullError::NotFound),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(PullError::Denied),
            other => Err(PullError::Unreachable(format!("the registry answered {}", other.as_u16()))),
        }
    }

    /// Follows redirects. Sends the credentials only to the registry itself.
    async fn follow(&self, mut url: Url, accept: &str) -> Result<RegistryResponse, PullError> {
        let home = url.origin();
        for _ in 0..=REGISTRY_REDIRECTS_MAX {
            let own = url.origin() == home;
            let answer = self.ask(&url, accept, self.pass.as_deref().filter(|_| own)).await?;
            let answer = RegistryResponse { own, ..answer };
            let to = answer.response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            match to {
                Some(to) if answer.response.status().is_redirection() => {
                    let bad = |_| PullError::Bad("the registry redirects to an invalid URL".to_owned());
                    url = url.join(to).map_err(bad)?;
                }
                _ => return Ok(answer),
            }
        }
        Err(PullError::Unreachable(format!("the registry redirected more than {REGISTRY_REDIRECTS_MAX} times")))
    }

    /// Makes the `Authorization` header that the registry demands.
    async fn introduce(&self, answer: &RegistryResponse) -> Result<String, PullError> {
        let wanted = answer.response.headers().get_all(WWW_AUTHENTICATE).iter();
        let wanted = wanted.filter_map(|value| value.to_str().ok()).find_map(challenge::parse);
        let basic = self
            .auth
            .map(|auth| format!("Basic {}", STANDARD.encode(format!("{}:{}", auth.username, auth.password.reveal()))));
        match wanted.ok_or(PullError::Denied)? {
            AuthChallenge::Basic => basic.ok_or(PullError::Denied),
            AuthChallenge::Bearer { realm, service } => {
                let bad = |_| PullError::Bad("the registry names no valid token server".to_owned());
                let mut url = Url::parse(&realm).map_err(bad)?;
                if let Some(service) = service {
                    url.query_pairs_mut().append_pair("service", &service);
                }
                let scope = format!("repository:{}:pull", self.reference.repository);
                url.query_pairs_mut().append_pair("scope", &scope);
                let answer = self.ask(&url, "application/json", basic.as_deref()).await?;
                if answer.response.status() != StatusCode::OK {
                    return Err(PullError::Denied);
                }
                let bytes = read(answer, IMAGE_DOCUMENT_BYTES_MAX).await?;
                let token: Option<TokenBody> = serde_json::from_slice(&bytes).ok();
                let token = token.and_then(|token| token.token).filter(|token| !token.is_empty());
                token.map(|token| format!("Bearer {token}")).ok_or(PullError::Denied)
            }
        }
    }

    /// One request over its own connection.
    async fn ask(&self, url: &Url, accept: &str, pass: Option<&str>) -> Result<RegistryResponse, PullError> {
        let place = self.images.place(url)?;
        let slow = |what: &str| PullError::Unreachable(format!("{}: no {what} within the time limit", place.host));
        let opened = timeout(REGISTRY_CONNECT_MAX, self.images.dialer.open(&place)).await;
        let stream = opened.map_err(|_| slow("connection"))?.map_err(PullError::from)?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(REGISTRY_HEAD_BYTES_MAX);
        let (mut requests, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let carrying = self.images.scope.start("registry connection", async move {
            // The request itself reports an error.
            let _ = connection.await;
        });
        let carrying = ConnectionTask::of(carrying);
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let request = Request::get(&url[url::Position::BeforePath..url::Position::AfterQuery])
            .header(HOST, authority)
            .header(USER_AGENT, concat!("pandastack/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, accept);
        let request = match pass {
            Some(pass) => request.header(AUTHORIZATION, pass),
            None => request,
        };
        let request = request.body(Empty::<Bytes>::new()).map_err(|error| PullError::Bad(error.to_string()))?;
        let answered = timeout(REGISTRY_QUIET_MAX, requests.send_request(request)).await;
        let response = answered.map_err(|_| slow("answer"))??;
        Ok(RegistryResponse { response, own: true, _connection: carrying })
    }
}

async fn next(answer: &mut RegistryResponse) -> Result<Option<Bytes>, PullError> {
    loop {
        let frame = timeout(REGISTRY_QUIET_MAX, answer.response.body_mut().frame()).await;
        let frame = frame.map_err(|_| PullError::Unreachable("the registry stopped sending data".to_owned()))?;
        match frame.transpose()? {
            None => return Ok(None),
            Some(frame) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(_) => continue,
            },
        }
    }
}

async fn read(mut answer: RegistryResponse, bytes_max: usize) -> Result<Vec<u8>, PullError> {
    let mut bytes = Vec::new();
    while let Some(piece) = next(&mut answer).await? {
        if bytes.len() + piece.len() > bytes_max {
            return Err(PullError::Bad(format!("a response of the registry is larger than {bytes_max} bytes")));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn check(wanted: &ImageDigest, bytes: &[u8]) -> Result<(), PullError> {
    same(wanted, &ImageDigest::of(&Sha256::digest(bytes)))
}

fn same(wanted: &ImageDigest, is: &ImageDigest) -> Result<(), PullError> {
    match wanted == is {
        true => Ok(()),
        false => {
            Err(PullError::Bad(format!("digest mismatch: expected {}, received {}", wanted.as_str(), is.as_str())))
        }
    }
}

#[cfg(test)]
mod tests;
