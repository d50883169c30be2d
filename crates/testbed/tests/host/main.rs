//! The host on fake machines: what it does when steps fail, come twice, or when a guest misbehaves.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod create;
mod death;
mod link;
mod standby;
mod twice;
mod volumes;
mod work;

use std::time::Duration;

use pandastack_testbed::FakeBed;

/// How long anything may take that should happen by itself.
const SOON: Duration = Duration::from_secs(5);

/// Waits until programs send no more, and gives how much they have sent.
async fn output_rests(bed: &FakeBed) -> usize {
    let rest = async {
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(30)).await;
            match bed.script.sent() {
                sent if sent == before => return sent,
                sent => before = sent,
            }
        }
    };
    tokio::time::timeout(SOON, rest).await.expect("a program goes on sending")
}
