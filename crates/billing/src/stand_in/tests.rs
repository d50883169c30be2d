//! What the stand-in does on its own: requests at the same time, and webhooks.

use std::time::Duration;

use pandastack_kit::Secret;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::{
    calendar::UtcHour,
    stripe::{
        MeterEvent, NewCustomer, PostOutcome, Recorded, RetryAdvice, RetryReason, StripeCallError,
        tests::{HOUR_S, NOW_S, StripeRig, event, retried},
    },
    stripe_events::{StripeEvent, verify_signature},
};

/// Polls a call until the stand-in has its request. The call itself must not end.
async fn until_arrived<T>(rig: &StripeRig, call: &mut (impl Future<Output = T> + Unpin)) {
    let arrived = async {
        while rig.stripe.requests().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = call => panic!("the slow call has ended"),
        () = arrived => {}
    }
}

#[tokio::test]
async fn stripe_takes_one_request_at_a_time() {
    let rig = StripeRig::start().await;
    rig.stripe.fail_next(StripeFault::Slow(Duration::from_secs(3600)));
    let first_event = event(1);
    let mut first = std::pin::pin!(rig.post(&first_event, 0));
    until_arrived(&rig, &mut first).await;
    let next_hour = UtcHour::starting_at(HOUR_S - 3600).unwrap();
    let other = MeterEvent::new("org-1", "usage", "cus_1", next_hour, 1).unwrap();
    let elsewhere = MeterEvent::new("org-2", "usage", "cus_2", next_hour, 1).unwrap();
    assert_eq!(retried(&rig.post(&other, 0).await), (RetryReason::RateLimited, Recorded::No));
    assert!(matches!(rig.post(&elsewhere, 0).await, PostOutcome::Posted { .. }));
    until_arrived(&rig, &mut first).await;

    let rig = StripeRig::start().await;
    rig.stripe.fail_next(StripeFault::Slow(Duration::from_secs(3600)));
    let new = NewCustomer { org: "org-1", name: "Ann", email: None };
    let mut first = std::pin::pin!(rig.client.create_customer(new));
    until_arrived(&rig, &mut first).await;
    let second = rig.client.create_customer(new).await;
    assert!(
        matches!(second, Err(StripeCallError::Retry(RetryAdvice { reason: RetryReason::Conflict, .. }))),
        "{second:?}"
    );
    until_arrived(&rig, &mut first).await;
}

/// Takes one request as a server does, answers 200 and returns head and body.
async fn receive(listener: TcpListener) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = Vec::new();
    loop {
        let head = bytes.windows(4).position(|end| end == b"\r\n\r\n");
        let length = |head: &str| head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if let Some(end) = head {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length: usize = length(&head.to_ascii_lowercase()).unwrap();
            if bytes.len() == end + 4 + length {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
                return (head, bytes[end + 4..].to_vec());
            }
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the request ends early");
    }
}

#[tokio::test]
async fn the_stand_in_sends_webhooks_that_verify() {
    let rig = StripeRig::start().await;
    let (old, new) = (Secret::new("whsec_old".to_owned()), Secret::new("whsec_new".to_owned()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let event = rig.stripe.event("evt_1", "invoice.paid", json!({ "id": "in_1", "customer": "cus_1" }));
    let secrets = [&old, &new];
    let sent = rig.stripe.send_webhook(address, "/v1/webhooks/stripe", &event, &secrets);
    let (status, (head, body)) = tokio::join!(sent, receive(listener));
    assert_eq!((status, body.as_slice()), (200, event.as_bytes()));
    assert!(head.starts_with("POST /v1/webhooks/stripe HTTP/1.1"), "{head}");
    let name = "stripe-signature: ";
    let header = head.lines().find(|line| line.to_ascii_lowercase().starts_with(name)).unwrap();
    for secret in secrets {
        assert_eq!(verify_signature(&header[name.len()..], &body, secret, NOW_S), Ok(()));
    }
    let event = StripeEvent::parse(&body).unwrap();
    assert_eq!((event.created_s, event.customer()), (NOW_S, Some("cus_1")));
}
