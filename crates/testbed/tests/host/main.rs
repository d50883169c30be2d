//! The host on fake machines: steps that fail, repeat or are cut off, and guests that misbehave.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod admission;
mod audit;
mod blanks;
mod clock_steps;
mod code;
mod crash;
mod create;
mod death;
mod fork;
mod gateway;
mod link;
mod orphans;
mod panics;
mod past_return;
mod ports;
mod pressure;
mod rebirth;
mod room;
mod shares;
mod sleep;
mod standby;
mod steps;
mod twice;
mod usage;
mod volumes;
mod work;

use std::time::Duration;

use pandastack_model::{LayerId, SandboxId};
use pandastack_testbed::{FakeBed, spec};
use pandastack_wire_fleet::{EnsureParams, ForkParams};

/// Timeout for anything that should happen by itself.
const SOON: Duration = Duration::from_secs(60);

/// A launch deadline that a guest meets if it answers at all, also on a slow machine, and that a
/// test can wait for.
const BRIEF: Duration = Duration::from_secs(1);

/// Makes so many ids.
fn ids(count: usize) -> Vec<SandboxId> {
    (0..count).map(|_| SandboxId::random()).collect()
}

/// A request for so many children of a sandbox, and their ids.
fn fork_of(parent: SandboxId, count: usize) -> (ForkParams, Vec<SandboxId>) {
    let named = ids(count);
    let children = named.iter().map(|id| EnsureParams { id: *id, generation: 1, spec: spec("mini") }).collect();
    (ForkParams { parent, layer: LayerId::random(), children }, named)
}

/// Waits until programs stop sending, and returns how much they have sent.
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
