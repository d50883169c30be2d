//! The connection to Stripe: the operator's settings, and requests over our own guarded dialer.

use std::sync::Arc;

use async_trait::async_trait;
use pandastack_billing::{
    StripeClient, StripeSettings, StripeTransport,
    limits::{STRIPE_ANSWER_BYTES_MAX, STRIPE_ANSWER_MAX},
    stripe::{STRIPE_API_BASE, StripeRequest, StripeResponse, StripeTransportError},
};
use pandastack_dial::{
    AddressPolicy, Dialer, TrustRoots,
    http::{
        HttpClient, HttpError, HttpLimits, HttpRequest, Method, Url,
        header::{HeaderMap, HeaderName, HeaderValue},
    },
};
use pandastack_kit::Scope;

/// How this server is connected to Stripe.
#[derive(Clone, Debug)]
pub struct BillingSettings {
    pub stripe: StripeSettings,
    /// Where Stripe answers. `None` for Stripe itself; tests name a stand-in.
    pub base: Option<Url>,
}

/// Makes the client. Only a named base may be on a private network.
pub(crate) fn client(settings: BillingSettings, scope: &Scope) -> StripeClient {
    let reach = if settings.base.is_some() { AddressPolicy::Private } else { AddressPolicy::Public };
    let dialer = Dialer::new(reach, TrustRoots::default(), scope.clone());
    let limits =
        HttpLimits { answer_max: STRIPE_ANSWER_MAX, body_bytes_max: STRIPE_ANSWER_BYTES_MAX, ..HttpLimits::default() };
    let base = settings.base.unwrap_or_else(|| STRIPE_API_BASE.parse().expect("a constant that a test parses"));
    let transport = DialedTransport { client: HttpClient::new(dialer, scope.clone(), limits), base };
    StripeClient::new(Arc::new(transport), Arc::new(settings.stripe))
}

struct DialedTransport {
    client: HttpClient,
    base: Url,
}

#[async_trait]
impl StripeTransport for DialedTransport {
    async fn send(&self, request: StripeRequest) -> Result<StripeResponse, StripeTransportError> {
        let not_sent = |error: &dyn std::fmt::Display| StripeTransportError::NotSent(error.to_string());
        let url = self.base.join(request.path).map_err(|error| not_sent(&error))?;
        let mut headers = HeaderMap::new();
        for (name, value) in request.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| not_sent(&error))?;
            headers.insert(name, HeaderValue::from_str(&value).map_err(|error| not_sent(&error))?);
        }
        let sent = HttpRequest { method: Method::POST, url, headers, body: request.body.into() };
        let answer = self.client.send(sent).await.map_err(sort)?;
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        Ok(StripeResponse {
            status: answer.status.as_u16(),
            headers: answer.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body: answer.body.to_vec(),
        })
    }
}

/// Tells whether Stripe may have acted.
fn sort(error: HttpError) -> StripeTransportError {
    match error {
        HttpError::BadUrl { .. } | HttpError::Dial { .. } | HttpError::ConnectSlow { .. } | HttpError::Request(_) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            StripeTransportError::NotSent(format!("{error}{cause}"))
        }
        HttpError::Slow { .. } => StripeTransportError::Timeout,
        HttpError::Protocol { .. } | HttpError::TooLarge { .. } => StripeTransportError::Lost(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_is_a_url() {
        assert_eq!(STRIPE_API_BASE.parse::<Url>().unwrap().scheme(), "https");
    }
}
