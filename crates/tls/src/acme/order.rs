//! One order: proves that the domain is ours, and fetches its certificate.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem,
    RetryPolicy,
};
use pandastack_dial::{
    AddressPolicy, Dialer,
    http::{HttpClient, HttpLimits},
};
use tokio::time::timeout;

use super::{Acme, AcmeDomain, AcmeError, transport::AcmeTransport};
use crate::{certificate::ServedCertificate, limits::ACME_ORDER_MAX};

/// How the ACME server is asked whether it has checked the domain.
const POLL: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).backoff(1.5).timeout(Duration::from_secs(180));

const CHECK_HTTP: &str =
    "the domain must lead to this server, and port 80 must reach the address of --http-redirect from the internet";
const CHECK_DNS: &str = "the DNS hook must return only when all DNS servers of the domain show the record";

/// What was shown to the ACME server, to be removed at the end.
enum Shown {
    Http { token: String },
    Dns { value: String },
}

impl Acme {
    /// Gets a certificate and stores it. Also returns how long the server asked to wait, if it
    /// refused.
    pub(super) async fn obtain(&self, domain: &AcmeDomain) -> (Result<ServedCertificate, AcmeError>, Option<Duration>) {
        let dialer = Dialer::new(AddressPolicy::Private, self.settings.roots.clone(), self.scope.clone());
        let transport = AcmeTransport::new(HttpClient::new(dialer, self.scope.clone(), HttpLimits::default()));
        let (mut shown, stop) = (Vec::new(), self.scope.token());
        let ordered = tokio::select! {
            ordered = timeout(ACME_ORDER_MAX, self.order(domain, &transport, &mut shown)) => ordered,
            () = stop.cancelled() => Ok(Err(AcmeError::Stopped)),
        };
        for shown in shown {
            self.hide(domain, shown).await;
        }
        let ordered = ordered.unwrap_or(Err(AcmeError::Slow));
        let forgotten = "urn:ietf:params:acme:error:accountDoesNotExist";
        if let Err(AcmeError::Server(instant_acme::Error::Api(problem))) = &ordered
            && problem.r#type.as_deref() == Some(forgotten)
        {
            self.store.forget_account();
        }
        (ordered, transport.wanted_pause())
    }

    async fn order(
        &self,
        domain: &AcmeDomain,
        transport: &AcmeTransport,
        shown: &mut Vec<Shown>,
    ) -> Result<ServedCertificate, AcmeError> {
        let account = self.account(transport).await?;
        let names = [Identifier::Dns(domain.to_string())];
        let mut order = account.new_order(&NewOrder::new(&names)).await?;
        self.prove(domain, &mut order, shown).await?;
        let key = order.finalize().await?;
        let chain = order.poll_certificate(&POLL).await?;
        self.store.keep_certificate(domain, &key, &chain)
    }

    /// The stored account, or a new one.
    async fn account(&self, transport: &AcmeTransport) -> Result<Account, AcmeError> {
        let builder = Account::builder_with_http(Box::new(transport.clone()));
        if let Some(credentials) = self.store.account()? {
            return Ok(builder.from_credentials(credentials).await?);
        }
        let contact = self.settings.email.as_ref().map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let wanted = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let (account, credentials) = builder.create(&wanted, self.settings.directory.to_string(), None).await?;
        self.store.keep_account(&credentials)?;
        Ok(account)
    }

    async fn prove(&self, domain: &AcmeDomain, order: &mut Order, shown: &mut Vec<Shown>) -> Result<(), AcmeError> {
        let by_http = !domain.is_wildcard() && self.settings.http;
        let (kind, name, next) = match by_http {
            true => (ChallengeType::Http01, "http-01", CHECK_HTTP),
            false => (ChallengeType::Dns01, "dns-01", CHECK_DNS),
        };
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let challenge = authorization.challenge(kind.clone());
            let mut challenge = challenge.ok_or(AcmeError::NotOffered { kind: name })?;
            let answer = challenge.key_authorization();
            if by_http {
                let token = challenge.token.clone();
                self.challenges.put(&token, answer.as_str());
                shown.push(Shown::Http { token });
            } else {
                let hook = self.settings.hook.as_ref().ok_or_else(|| AcmeError::NoHook(domain.clone()))?;
                let value = answer.dns_value();
                // Noted first: a hook that fails half-way is asked to clean up too.
                shown.push(Shown::Dns { value: value.clone() });
                hook.present(domain, &value).await?;
            }
            challenge.set_ready().await?;
        }
        match order.poll_ready(&POLL).await? {
            OrderStatus::Ready => Ok(()),
            _ => Err(AcmeError::Unproven { why: why_invalid(order).await, next }),
        }
    }

    /// Removes what was shown. The certificate does not depend on it.
    async fn hide(&self, domain: &AcmeDomain, shown: Shown) {
        match (shown, &self.settings.hook) {
            (Shown::Http { token }, _) => self.challenges.remove(&token),
            (Shown::Dns { value }, Some(hook)) => {
                if let Err(error) = hook.cleanup(domain, &value).await {
                    tracing::warn!("the DNS record of {domain} was not removed: {error}");
                }
            }
            (Shown::Dns { .. }, None) => {}
        }
    }
}

/// What the ACME server says about a domain that it could not check.
async fn why_invalid(order: &mut Order) -> String {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return detail(problem);
        }
    }
    "it gives no reason".to_owned()
}

fn detail(problem: &Problem) -> String {
    problem.detail.as_deref().unwrap_or("it gives no reason").chars().take(500).collect()
}
