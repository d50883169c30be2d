//! Where builds of `pandastack up` may fetch images.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use pandastack_control::{AddressPolicy, ImageSettings, TrustRoots};

#[derive(Args)]
pub struct ImageArgs {
    /// Registry of images whose names do not include one
    #[arg(long, default_value = "docker.io", env = "PANDASTACK_IMAGE_REGISTRY", value_name = "HOST")]
    image_registry: String,
    /// Let builds fetch images from loopback and private addresses too. Every tenant can then make
    /// this server send requests to them
    #[arg(long, env = "PANDASTACK_IMAGE_ALLOW_PRIVATE")]
    image_allow_private: bool,
    /// Registry to use without TLS, as HOST:PORT; may be repeated. Registries on localhost never
    /// use TLS
    #[arg(long, value_name = "HOST")]
    image_plain_http: Vec<String>,
    /// PEM file with certificate authorities to trust for registries, in addition to those that
    /// this host trusts
    #[arg(long, env = "PANDASTACK_IMAGE_CA", value_name = "FILE")]
    image_ca: Option<PathBuf>,
}

impl ImageArgs {
    pub fn settings(&self) -> Result<ImageSettings> {
        let roots = self.image_ca.as_deref().map(TrustRoots::host_and).transpose().context("read --image-ca")?;
        Ok(ImageSettings {
            reach: if self.image_allow_private { AddressPolicy::Private } else { AddressPolicy::Public },
            registry: Some(self.image_registry.clone()),
            plain: self.image_plain_http.clone(),
            roots: roots.unwrap_or_default(),
        })
    }
}
