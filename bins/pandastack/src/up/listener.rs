//! The listener of the API of `pandastack up`, and how many connections it may have.

use std::path::Path;

use anyhow::{Context, Result, bail};
use pandastack_door::{Places, ServeSettings};
use tokio::net::TcpListener;

use super::{UpArgs, tell, tls};

/// Fewest open files that allow the server to run a handful of machines.
const DESCRIPTORS_MIN: u64 = 256;

/// The listener of the API, its connection limits and its certificates.
pub struct ApiListener {
    pub listener: TcpListener,
    pub settings: ServeSettings,
    pub places: Places,
    /// Most files that this process may open.
    pub descriptors: u64,
    pub https: Option<tls::HttpsSetup>,
    /// The address for people, if it is known.
    pub public_url: Option<String>,
}

impl ApiListener {
    pub fn scheme(&self) -> &'static str {
        if self.https.is_some() { "https" } else { "http" }
    }

    /// The address for clients on this computer. With https it must be the certificate's name.
    pub fn url(&self) -> Result<String> {
        match (&self.https, &self.public_url) {
            (Some(_), Some(url)) => Ok(url.trim_end_matches('/').to_owned()),
            _ => Ok(format!("{}://{}", self.scheme(), self.listener.local_addr()?)),
        }
    }
}

impl UpArgs {
    /// Binds the listener of the API and loads its certificates.
    pub(super) async fn open_door(&self, descriptors: u64, data_dir: Option<&Path>) -> Result<ApiListener> {
        let https = self.tls.prepare(self.listen, data_dir).await?;
        let listener = self.bind().await?;
        let settings = ServeSettings::within(descriptors);
        let port = listener.local_addr()?.port();
        let by_name = || https.as_ref().and_then(|https| https.public_url(port));
        let public_url = self.public_url.clone().or_else(by_name);
        if let Some(https) = &https {
            https.warn(public_url.as_deref(), &self.preview_suffix.to_string());
        }
        Ok(ApiListener { listener, places: settings.places(), settings, descriptors, https, public_url })
    }

    /// Binds the listener of the API.
    async fn bind(&self) -> Result<TcpListener> {
        TcpListener::bind(self.listen).await.with_context(|| {
            format!("listen on {}; is another server running? Choose another address with --listen", self.listen)
        })
    }
}

/// Raises the limit of open files as far as useful and allowed, and returns it.
pub fn raise_descriptors() -> Result<u64> {
    let descriptors = pandastack_sys::descriptors::raise_limit().context("raise the limit of open files")?;
    if descriptors < DESCRIPTORS_MIN {
        bail!(
            "this process may open only {descriptors} files, but the server needs {DESCRIPTORS_MIN}; raise the limit \
             with `ulimit -n`"
        );
    }
    if ServeSettings::within(descriptors) != ServeSettings::default() {
        let connections = ServeSettings::within(descriptors).connections_max;
        tell(&format!(
            "WARNING: this process may open only {descriptors} files, so it serves only {connections} connections at \
             once and fewer machines; raise the hard limit with `ulimit -Hn` or LimitNOFILE"
        ));
    }
    Ok(descriptors)
}
