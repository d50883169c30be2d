//! Slow clients: a limit ends each, and no other client waits for them.

use std::time::Duration;

use pandastack_edge::ServeSettings;
use pandastack_testbed::wait_for;

use crate::{
    SOON,
    raw::{Raw, head},
    rig::{Door, with_door_as},
};

fn short() -> ServeSettings {
    ServeSettings { head_arrival_max: Duration::from_millis(400), ..ServeSettings::default() }
}

async fn many(door: &Door<'_>, count: usize) -> Vec<Raw> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(door.raw().await);
    }
    all
}

#[tokio::test]
async fn a_head_that_dribbles_is_ended_and_others_are_served_meanwhile() {
    with_door_as(short(), async |door| {
        let mut slow = many(door, 50).await;
        let whole = head("GET", "/v1/sandboxes", "");
        for (raw, at) in slow.iter_mut().zip((0..whole.len() - 1).cycle()) {
            raw.say(&whole[..at]).await;
        }
        door.is_well().await;
        for raw in &mut slow {
            // Some get an error for being too slow. Those that had sent nothing do not.
            let said = raw.rest().await;
            assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
        }
        wait_for("their tasks' end", SOON, async || (door.scope.tasks() < 20).then_some(())).await;
    })
    .await;
}

#[tokio::test]
async fn a_byte_now_and_then_does_not_keep_a_head_alive() {
    with_door_as(short(), async |door| {
        let mut raw = door.raw().await;
        raw.say("GET /healthz HTTP/1.1\r\n").await;
        let dribbling = async {
            loop {
                raw.say("x: y\r\n").await;
                tokio::time::sleep(Duration::from_millis(50)).await;
                let mut byte = [0];
                match raw.0.try_read(&mut byte) {
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                    _ => break,
                }
            }
        };
        tokio::time::timeout(SOON, dribbling).await.expect("a head may dribble for ever");
    })
    .await;
}

#[tokio::test]
async fn connections_without_a_request_give_way_to_new_ones() {
    let settings = ServeSettings { connections_max: 8, ..ServeSettings::default() };
    with_door_as(settings, async |door| {
        let id = door.sandbox().await;
        // This one is running, and stays.
        let mut working = door.raw().await;
        let body = r#"{"cmd":"sleep 1000"}"#;
        let path = format!("/v1/sandboxes/{id}/exec/stream");
        working.say(head("POST", &path, &format!("content-length: {}\r\n", body.len()))).await;
        working.say(body).await;
        working.until(|text| text.contains("\r\n\r\n")).await;
        let mut idle = many(door, 100).await;
        for raw in &mut idle {
            raw.say("GET /healthz HTTP/1.1\r\n").await;
        }
        door.is_well().await;
        let gone = async || {
            let ended = |raw: &Raw| match raw.0.try_read(&mut [0; 1024]) {
                Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
                Ok(count) => count == 0,
            };
            (idle.iter().filter(|raw| ended(raw)).count() > 90).then_some(())
        };
        wait_for("most of the idle ones' end", SOON, gone).await;
        door.bed.script.clock.advance(Duration::from_secs(1001));
        let end = working.until(|text| text.contains("event: exit")).await;
        assert!(end.contains("event: exit"), "who is at work was cut: {end}");
    })
    .await;
}
