//! Allowed targets of deliveries: https with a trusted certificate, and only the public internet
//! unless the operator allows more.

use std::sync::Arc;

use pandastack_control::{AddressPolicy, TrustRoots, WebhookSettings};
use pandastack_mail::stand_in::{AUTHORITY, CERTIFICATE, KEY};
use serde_json::json;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

use crate::receiver::{Receiver, WebhookRig};

async fn receiver() -> Receiver {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(KEY.to_vec()).unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key).unwrap();
    Receiver::start_behind("https", Some(TlsAcceptor::from(Arc::new(config)))).await
}

#[tokio::test]
async fn https_is_verified() {
    let receiver = receiver().await;
    let roots = TrustRoots::These(vec![CertificateDer::from(AUTHORITY)]);
    let told = WebhookRig::start_with(WebhookSettings { reach: AddressPolicy::Private, roots }).await;
    let (id, secret) = told.subscribe(&receiver.url, &["*"]).await;
    told.rig.created().await;
    assert!(receiver.wait(1).await[0].signed_by(&secret));
    told.wait(&id, "delivered", 1).await;

    let (other, _) = told.subscribe(&receiver.url.replace("localhost", "127.0.0.1"), &["vm.died"]).await;
    let (_, pong) = told.rig.post(&format!("/v1/webhooks/{other}/ping")).await;
    assert!(pong["error"].as_str().unwrap().starts_with("TLS handshake failed"), "another name: {pong}");

    let told =
        told.crash(WebhookSettings { reach: AddressPolicy::Private, roots: TrustRoots::These(Vec::new()) }).await;
    let (_, pong) = told.rig.post(&format!("/v1/webhooks/{id}/ping")).await;
    assert_eq!(pong["error"], "this host has no certificate authorities to trust");
    let told = told.crash(WebhookSettings { reach: AddressPolicy::Private, roots: TrustRoots::Host }).await;
    let (_, pong) = told.rig.post(&format!("/v1/webhooks/{id}/ping")).await;
    assert_eq!(pong["delivered"], json!(false), "nobody this host trusts vouches for it: {pong}");
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn what_was_allowed_once_is_checked_at_every_delivery() {
    let receiver = Receiver::start().await;
    let told = WebhookRig::start().await;
    let (id, _) = told.subscribe(&receiver.url, &["*"]).await;
    let told = told.crash(WebhookSettings::default()).await;
    told.rig.created().await;
    let failed = told.wait(&id, "failed", 1).await;
    assert!(failed[0]["attempts"][0]["error"].as_str().unwrap().contains("--webhook-allow-private"), "{failed:?}");
    assert!(receiver.seen().is_empty());
}
