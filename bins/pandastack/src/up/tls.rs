//! Https of `pandastack up`: certificates from files or from an ACME server, the plain listener
//! that redirects, and the public address that follows from them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use pandastack_control::TrustRoots;
use pandastack_door::{ServeSettings, TlsAcceptor, serve_with};
use pandastack_kit::Scope;
use pandastack_tls::{
    CertificateFiles, CertificateSet, CertificateSlot, FileContents, HttpChallenges,
    acme::{ACME_DIRECTORY, Acme, AcmeDomain, AcmeSettings, DirectoryUrl, DnsHook},
    limits::{ACME_DOMAINS_MAX, CERTIFICATE_POLL},
    redirect_app, watch,
};
use tokio::net::TcpListener;

use super::tell;

/// Connections to the plain listener at once, and how long one may take to ask.
const REDIRECT_CONNECTIONS_MAX: usize = 128;
const REDIRECT_HEAD_MAX: Duration = Duration::from_secs(10);

#[derive(Args)]
pub struct TlsArgs {
    /// Serve https with this certificate chain (PEM). May be repeated, each with its --tls-key:
    /// clients get the certificate for the name they use. Changed files are loaded without a
    /// restart
    #[arg(long, env = "PANDASTACK_TLS_CERT", value_name = "FILE", value_delimiter = ',', requires = "tls_key")]
    tls_cert: Vec<PathBuf>,
    /// Private key of that certificate (PEM, without a password)
    #[arg(long, env = "PANDASTACK_TLS_KEY", value_name = "FILE", value_delimiter = ',', requires = "tls_cert")]
    tls_key: Vec<PathBuf>,
    /// Serve https with a certificate for this domain from an ACME server such as Let's Encrypt,
    /// and renew it. May be repeated. You agree to the terms of that server. A wildcard such as
    /// *.box.example.com needs --acme-dns-hook
    #[arg(long, env = "PANDASTACK_ACME_DOMAIN", value_name = "DOMAIN", value_delimiter = ',')]
    acme_domain: Vec<AcmeDomain>,
    /// E-mail address for the ACME account
    #[arg(long, env = "PANDASTACK_ACME_EMAIL", value_name = "ADDRESS")]
    acme_email: Option<String>,
    /// Directory of the ACME server
    #[arg(long, env = "PANDASTACK_ACME_DIRECTORY", default_value = ACME_DIRECTORY, value_name = "URL")]
    acme_directory: DirectoryUrl,
    /// PEM file with certificate authorities to trust for the ACME server itself, in addition to
    /// those that this host trusts
    #[arg(long, env = "PANDASTACK_ACME_CA", value_name = "FILE")]
    acme_ca: Option<PathBuf>,
    /// Program that sets DNS records for the ACME server, called as: PROGRAM present|cleanup DOMAIN
    /// RECORD VALUE
    #[arg(long, env = "PANDASTACK_ACME_DNS_HOOK", value_name = "PROGRAM")]
    acme_dns_hook: Option<PathBuf>,
    /// Address for plain http, which only redirects to https and answers the ACME server; or none.
    /// With --acme-domain the default is port 80
    #[arg(long, env = "PANDASTACK_HTTP_REDIRECT", value_name = "ADDRESS|none")]
    http_redirect: Option<RedirectPlace>,
    /// How long browsers must use https for this server after a visit, in seconds. 0 makes them
    /// forget it
    #[arg(long, env = "PANDASTACK_HSTS_MAX_AGE", default_value_t = 31_536_000, value_name = "SECONDS")]
    hsts_max_age: u32,
}

/// Where plain http is redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RedirectPlace {
    None,
    At(SocketAddr),
}

impl FromStr for RedirectPlace {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self::None) } else { text.parse().map(Self::At) }
    }
}

/// Https, ready to be started.
pub struct HttpsSetup {
    pub set: CertificateSet,
    pub acceptor: TlsAcceptor,
    pub hsts_max_age: Duration,
    files: Vec<LoadedFiles>,
    acme: Option<AcmeSettings>,
    redirect: Option<TcpListener>,
}

/// Files whose certificate is in the set.
struct LoadedFiles {
    files: CertificateFiles,
    contents: FileContents,
    slot: CertificateSlot,
}

impl TlsArgs {
    /// Checks all settings, loads the files and binds the plain listener. `None` without TLS.
    /// `data_dir` is where certificates can be kept.
    pub async fn prepare(&self, listen: SocketAddr, data_dir: Option<&Path>) -> Result<Option<HttpsSetup>> {
        if self.tls_cert.is_empty() && self.acme_domain.is_empty() {
            if matches!(self.http_redirect, Some(RedirectPlace::At(_))) {
                bail!("--http-redirect needs https: set --tls-cert and --tls-key, or --acme-domain");
            }
            return Ok(None);
        }
        let set = CertificateSet::default();
        let files = self.load_files(&set)?;
        let redirect = self.bind_redirect(listen).await?;
        let acme = self.acme_settings(data_dir, redirect.is_some())?;
        let acceptor = TlsAcceptor::from(set.server_config().context("set up TLS")?);
        let hsts_max_age = Duration::from_secs(self.hsts_max_age.into());
        Ok(Some(HttpsSetup { set, acceptor, hsts_max_age, files, acme, redirect }))
    }

    fn load_files(&self, set: &CertificateSet) -> Result<Vec<LoadedFiles>> {
        if self.tls_cert.len() != self.tls_key.len() {
            let (certificates, keys) = (self.tls_cert.len(), self.tls_key.len());
            bail!(
                "{certificates} --tls-cert and {keys} --tls-key: give one key for each certificate, in the same order"
            );
        }
        let pairs = self.tls_cert.iter().zip(&self.tls_key);
        let loaded = pairs.map(|(certificate, key)| {
            let files = CertificateFiles { certificate: certificate.clone(), key: key.clone() };
            let contents = files.read()?;
            let served = files.parse(&contents)?;
            if served.is_expired(SystemTime::now()) {
                let (path, day) = (certificate.display(), served.validity().last_day());
                tell(&format!(
                    "WARNING: the certificate in {path} expired on {day}, so clients refuse it; replace the files, \
                     and they are loaded without a restart"
                ));
            }
            if files.key_is_open() {
                let key = key.display();
                tell(&format!("WARNING: every user of this computer may read the key in {key}; run: chmod o= {key}"));
            }
            let slot = set.add(Vec::new());
            slot.put(served);
            Ok(LoadedFiles { files, contents, slot })
        });
        loaded.collect()
    }

    async fn bind_redirect(&self, listen: SocketAddr) -> Result<Option<TcpListener>> {
        let address = match self.http_redirect {
            Some(RedirectPlace::None) => return Ok(None),
            Some(RedirectPlace::At(address)) => address,
            None if self.acme_domain.is_empty() => return Ok(None),
            None => SocketAddr::new(listen.ip(), 80),
        };
        let bound = TcpListener::bind(address).await.with_context(|| {
            format!("listen on {address} for plain http; choose another address or none with --http-redirect")
        })?;
        Ok(Some(bound))
    }

    fn acme_settings(&self, data_dir: Option<&Path>, http: bool) -> Result<Option<AcmeSettings>> {
        if self.acme_domain.is_empty() {
            return Ok(None);
        }
        if self.acme_domain.len() > ACME_DOMAINS_MAX {
            bail!("at most {ACME_DOMAINS_MAX} domains may be given with --acme-domain");
        }
        let data_dir = data_dir.context(
            "--acme-domain keeps certificates in a data folder, which --no-host does not have: give the certificates \
             of the other server with --tls-cert and --tls-key",
        )?;
        let roots = self.acme_ca.as_deref().map(TrustRoots::host_and).transpose().context("read --acme-ca")?;
        let settings = AcmeSettings {
            domains: self.acme_domain.clone(),
            email: self.acme_email.clone(),
            directory: self.acme_directory.clone(),
            roots: roots.unwrap_or_default(),
            hook: self.acme_dns_hook.clone().map(DnsHook::new),
            http,
            folder: data_dir.join("acme"),
        };
        settings.check()?;
        Ok(Some(settings))
    }
}

impl HttpsSetup {
    /// The address for people and clients if the operator named none: the first certificate's name.
    pub fn public_url(&self, port: u16) -> Option<String> {
        let port = if port == 443 { String::new() } else { format!(":{port}") };
        self.expected_name().map(|name| format!("https://{name}{port}"))
    }

    fn expected_name(&self) -> Option<String> {
        let ordered = self.acme.iter().flat_map(|acme| &acme.domains).find(|domain| !domain.is_wildcard());
        self.set.first_name().or_else(|| ordered.map(ToString::to_string))
    }

    /// Starts everything but the listener of the API: reloading, ACME and the redirect. `url` is
    /// the public address.
    pub fn start(self, url: &str, settings: ServeSettings, scope: &Scope) -> Result<TlsAcceptor> {
        for LoadedFiles { files, contents, slot } in self.files {
            scope.start("certificates", watch(files, contents, slot, CERTIFICATE_POLL, scope.clone()));
        }
        let challenges = HttpChallenges::default();
        if let Some(acme) = self.acme {
            Acme::open(acme, challenges.clone(), scope.clone())?.start(&self.set);
        }
        if let Some(listener) = self.redirect {
            let app = redirect_app(self.set, challenges, https_port(url));
            let connections_max = (settings.connections_max / 8).clamp(1, REDIRECT_CONNECTIONS_MAX);
            let (head_arrival_max, unused_max) = (REDIRECT_HEAD_MAX, REDIRECT_HEAD_MAX);
            let settings = ServeSettings { connections_max, head_arrival_max, unused_max, ..settings };
            scope.start("redirect", serve_with(listener, app, scope.clone(), settings));
        }
        Ok(self.acceptor)
    }

    /// Tells what is missing for addresses that this server gives to people.
    pub fn warn(&self, public_url: Option<&str>, preview_suffix: &str) {
        if public_url.is_some_and(|url| !url.starts_with("https://")) {
            tell("WARNING: --public-url does not begin with https://, but this server speaks only https");
        }
        let wildcard = format!("*.{preview_suffix}");
        let is_ordered = self.acme.iter().flat_map(|acme| &acme.domains).any(|domain| domain.to_string() == wildcard);
        if preview_suffix != "localhost" && !is_ordered && !self.set.knows(&format!("3000-x.{preview_suffix}")) {
            tell(&format!(
                "WARNING: no certificate for {wildcard}, so browsers refuse previews; add one with --tls-cert and \
                 --tls-key, or with --acme-domain '{wildcard}' and --acme-dns-hook"
            ));
        }
    }

    /// What is served, for the operator.
    pub fn summary(&self) -> String {
        let mut parts = self.set.names();
        let ordered = self.acme.iter().flat_map(|acme| &acme.domains);
        parts.extend(ordered.map(|domain| format!("{domain} (ACME)")));
        match self.redirect.as_ref().and_then(|listener| listener.local_addr().ok()) {
            Some(address) => format!("{}; plain http on {address} redirects", parts.join(", ")),
            None => parts.join(", "),
        }
    }
}

/// The port of an https address.
fn https_port(url: &str) -> u16 {
    url.parse::<axum::http::Uri>().ok().and_then(|url| url.port_u16()).unwrap_or(443)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is the test's failure")]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        tls: TlsArgs,
    }

    async fn prepared(words: &[&str], data_dir: Option<&Path>) -> Result<Option<HttpsSetup>> {
        let line = Line::try_parse_from(["up"].iter().chain(words))?;
        line.tls.prepare("127.0.0.1:0".parse()?, data_dir).await
    }

    #[tokio::test]
    async fn flags_that_cannot_work_are_refused_with_the_next_step() {
        let folder = std::env::temp_dir();
        for (words, data_dir, named) in [
            (&["--tls-cert", "a"][..], None, "--tls-key"),
            (&["--tls-cert", "/nothing/a", "--tls-key", "b"], None, "/nothing/a"),
            (&["--tls-cert", "a,b", "--tls-key", "c"], None, "one key for each"),
            (&["--http-redirect", "127.0.0.1:0"], None, "--tls-cert"),
            (&["--http-redirect", "somewhere"], None, "--http-redirect"),
            (&["--acme-domain", "a.example", "--http-redirect", "127.0.0.1:0"], None, "--no-host"),
            (&["--acme-domain", "no domain"], None, "is no domain"),
            (&["--acme-domain", "a.example", "--acme-directory", "ftp://x/"], None, "https://"),
            (&["--acme-domain", "a.example", "--http-redirect", "none"], Some(&*folder), "--acme-dns-hook"),
            (&["--acme-domain", "*.a.example", "--http-redirect", "127.0.0.1:0"], Some(&folder), "--acme-dns-hook"),
        ] {
            let text = format!("{:#}", prepared(words, data_dir).await.err().unwrap());
            assert!(text.contains(named), "{words:?}: {text}");
        }
        assert!(prepared(&[], None).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn the_public_address_is_the_first_name_that_is_not_a_wildcard() {
        let folder = std::env::temp_dir();
        let words = ["--acme-domain", "*.box.example,api.example", "--acme-dns-hook", "/bin/true"];
        let words = [&words[..], &["--http-redirect", "none"]].concat();
        let https = prepared(&words, Some(&folder)).await.unwrap().unwrap();
        assert_eq!(https.public_url(443).as_deref(), Some("https://api.example"));
        assert_eq!(https.public_url(8443).as_deref(), Some("https://api.example:8443"));
        assert_eq!((https_port("https://a.example"), https_port("https://a.example:8443/")), (443, 8443));
    }
}
