//! Who may use the server of `pandastack up`: proxies, and identity providers with their tokens and
//! logins.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use clap::Args;
use pandastack_control::{AuthMode, JwtSettings, OidcSettings, ProxyTrust, SignInSettings};
use pandastack_kit::Secret;

use super::tell;

#[derive(Args)]
pub struct SignInArgs {
    /// Believe the last address of X-Forwarded-For, because a proxy is in front of this server
    #[arg(long, env = "PANDASTACK_BEHIND_PROXY")]
    behind_proxy: bool,
    /// Whether credentials are checked. With stub, for development, a request without an API key is
    /// one of a fixed user; the server must then listen on a loopback address
    #[arg(long, env = "PANDASTACK_AUTH_MODE", default_value = "checked", value_name = "checked|stub")]
    auth_mode: AuthModeArg,
    /// Key set (JWKS) of an identity provider whose tokens are accepted as they are
    #[arg(long, env = "PANDASTACK_JWKS_URL", value_name = "URL")]
    jwks_url: Option<String>,
    /// Issuer that those tokens must have
    #[arg(long, env = "PANDASTACK_JWT_ISSUER", value_name = "URL", requires = "jwks_url")]
    jwt_issuer: Option<String>,
    /// Audience that those tokens must name. Without it, tokens for every other client of the
    /// provider are accepted too
    #[arg(long, env = "PANDASTACK_JWT_AUDIENCE", value_name = "NAME", requires = "jwks_url")]
    jwt_audience: Option<String>,
    /// Identity provider (OpenID Connect) at which people log in, such as
    /// https://accounts.example.com. Its redirect address is PUBLIC_URL/v1/auth/oidc/callback
    #[arg(long, env = "PANDASTACK_OIDC_ISSUER", value_name = "URL", requires = "oidc_client_id")]
    oidc_issuer: Option<String>,
    /// This server's client id at the identity provider
    #[arg(long, env = "PANDASTACK_OIDC_CLIENT_ID", value_name = "ID")]
    oidc_client_id: Option<String>,
    /// This server's client secret at the identity provider
    #[arg(long, env = "PANDASTACK_OIDC_CLIENT_SECRET", hide_env_values = true, value_name = "SECRET")]
    oidc_client_secret: Option<String>,
}

/// Whether credentials are checked.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AuthModeArg {
    #[value(alias = "jwt")]
    Checked,
    Stub,
}

impl From<AuthModeArg> for AuthMode {
    fn from(mode: AuthModeArg) -> Self {
        match mode {
            AuthModeArg::Checked => AuthMode::Checked,
            AuthModeArg::Stub => AuthMode::Stub,
        }
    }
}

impl SignInArgs {
    /// Without authentication, only programs of this machine may reach the server.
    pub fn check_auth_mode(&self, listen: SocketAddr) -> Result<()> {
        if self.auth_mode == AuthModeArg::Checked {
            return Ok(());
        }
        if !listen.ip().is_loopback() || self.behind_proxy {
            bail!(
                "--auth-mode stub lets everybody in who reaches this server: listen on a loopback address such as \
                 127.0.0.1:8080, without --behind-proxy"
            );
        }
        tell("WARNING: --auth-mode stub: every program of this machine can do everything; for development only");
        Ok(())
    }

    /// Issuer of tokens that are accepted as they are.
    pub fn jwt_issuer(&self) -> Option<&str> {
        self.jwt_issuer.as_deref()
    }

    pub fn settings(&self, public_url: Option<&str>) -> Result<SignInSettings> {
        let jwt = self.jwks_url.clone().map(|jwks_url| JwtSettings {
            jwks_url,
            issuer: self.jwt_issuer.clone(),
            audience: self.jwt_audience.clone(),
        });
        if jwt.is_some() && self.jwt_audience.is_none() {
            tell("WARNING: no --jwt-audience: tokens that the provider made for other clients are accepted too");
        }
        if self.oidc_client_id.is_some() && public_url.is_none() {
            bail!("--oidc-client-id needs the address of this server: set --public-url");
        }
        let oidc = match (&self.oidc_issuer, &self.oidc_client_id, public_url) {
            (Some(issuer), Some(client_id), Some(base)) => Some(OidcSettings {
                issuer: issuer.clone(),
                client_id: client_id.clone(),
                client_secret: Secret::new(self.oidc_client_secret.clone().unwrap_or_default()),
                redirect_url: format!("{}/v1/auth/oidc/callback", base.trim_end_matches('/')),
                scopes: OidcSettings::SCOPES.map(str::to_owned).to_vec(),
            }),
            _ => None,
        };
        let proxy = if self.behind_proxy { ProxyTrust::Last } else { ProxyTrust::None };
        let (dashboard_url, mode) = (public_url.map(str::to_owned), self.auth_mode.into());
        Ok(SignInSettings { jwt, oidc, dashboard_url, proxy, mode, ..SignInSettings::default() })
    }
}
