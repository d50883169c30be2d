//! Owns a slot's bandwidth limit: one token bucket on each end of the uplink, for the packets that
//! leave at that end. Never touches the tap, so the host's traffic to the guest's agent is not
//! limited.

use std::sync::{Arc, Mutex, PoisonError};

use pandastack_sys::netns::Netns;
use tokio::sync::Semaphore;

use super::{
    NetError,
    command::tc,
    limits::{BUCKET_BYTES_MIN, BUCKET_SHARE_OF_SECOND, QUEUE_MS_MAX},
    policy::UPLINK,
};

/// The bandwidth limit of one slot.
#[derive(Debug)]
pub struct BandwidthLimit {
    /// Name of the slot, and of the host's end of its uplink.
    slot: String,
    netns: Arc<Netns>,
    shape: Mutex<AppliedLimit>,
    /// Allows one change at a time.
    turn: Semaphore,
}

/// The limit that the kernel has, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppliedLimit {
    /// An earlier process may have set a limit, or a change failed half-way.
    Unknown,
    Limited(Option<u32>),
}

impl BandwidthLimit {
    pub fn new(slot: String, netns: Arc<Netns>, shape: AppliedLimit) -> BandwidthLimit {
        BandwidthLimit { slot, netns, shape: Mutex::new(shape), turn: Semaphore::new(1) }
    }

    /// Returns whether this limit is known to be in place.
    pub fn is(&self, mbps: Option<u32>) -> bool {
        self.known() == AppliedLimit::Limited(mbps)
    }

    /// Limits both directions, or removes the limit. Starts no process if nothing changes.
    pub async fn limit(&self, mbps: Option<u32>) -> Result<(), NetError> {
        let _turn = self.turn.acquire().await.map_err(|_| NetError::Closed)?;
        if self.is(mbps) {
            return Ok(());
        }
        self.set_known(AppliedLimit::Unknown);
        let (down, up) = (command(&self.slot, mbps), command(UPLINK, mbps));
        let (down, up) = tokio::join!(tc(&down, None), tc(&up, Some(&self.netns)));
        down.and(up).map_err(|cause| NetError::Command { action: "limit a slot's bandwidth", cause })?;
        self.set_known(AppliedLimit::Limited(mbps));
        Ok(())
    }

    /// Waits for a change in progress. Refuses later changes.
    pub async fn close(&self) {
        drop(self.turn.acquire().await);
        self.turn.close();
    }

    fn known(&self) -> AppliedLimit {
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_known(&self, shape: AppliedLimit) {
        *self.shape.lock().unwrap_or_else(PoisonError::into_inner) = shape;
    }
}

/// `replace` works whether or not a qdisc exists, so the command can be repeated.
fn command(link: &str, mbps: Option<u32>) -> String {
    match mbps {
        // The default qdisc of these links.
        None => format!("qdisc replace dev {link} root noqueue\n"),
        Some(mbps) => {
            let rate = mbps.max(1);
            let bytes_per_second = u64::from(rate) * 1_000_000 / 8;
            let burst = (bytes_per_second / BUCKET_SHARE_OF_SECOND).max(BUCKET_BYTES_MIN);
            format!("qdisc replace dev {link} root tbf rate {rate}mbit burst {burst} latency {QUEUE_MS_MAX}ms\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_grows_with_the_rate() {
        assert_eq!(command("x", Some(8)), "qdisc replace dev x root tbf rate 8mbit burst 65536 latency 100ms\n");
        assert_eq!(
            command("x", Some(1000)),
            "qdisc replace dev x root tbf rate 1000mbit burst 1250000 latency 100ms\n"
        );
        assert_eq!(command("x", None), "qdisc replace dev x root noqueue\n");
    }
}
