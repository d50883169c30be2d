//! A service that the host offers to some guests at their gateway. The host knows who calls from
//! the network namespace of the connection, so a guest needs no credential and cannot lie.

use std::fmt;

use async_trait::async_trait;
use pandastack_model::{SandboxId, SandboxSpec};

use crate::GuestBytes;

/// TCP port of the service at the gateway's address, the same in every guest.
pub const GATEWAY_PORT: u16 = 7071;

/// Serves connections that guests open to their gateway.
#[async_trait]
pub trait GatewayService: Send + Sync + 'static {
    /// Returns whether a sandbox may connect. Asked once for each machine of the sandbox, and again
    /// by a host that takes its machine over.
    fn serves(&self, spec: &SandboxSpec) -> bool;

    /// Serves one connection of a sandbox's guest to its end. Not a use of the sandbox. The call is
    /// dropped when the machine is released. It may come before the host answers requests.
    async fn serve(&self, sandbox: SandboxId, stream: Box<dyn GuestBytes>);
}

impl fmt::Debug for dyn GatewayService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayService")
    }
}
