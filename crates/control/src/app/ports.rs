//! Ports of a sandbox: the ports its guest listens on, and the declared ports.

use std::collections::BTreeMap;

use pandastack_model::{Fault, FaultKind, GuestPort, SandboxId, SandboxState};
use pandastack_wire_fleet::{Caller, ListeningPort, SandboxView};
use pandastack_wire_public::{DeclaredPort, declared_ports, is_hidden, limits::DECLARED_PORTS_MAX};

use crate::{Control, store::PortAdded};

/// A port as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    pub port: GuestPort,
    /// The label of a declared port.
    pub label: Option<String>,
    /// The process that listens on it.
    pub listener: Option<ListeningPort>,
}

impl Control {
    /// Lists the ports by number. This asks the guest, so it wakes a sleeping sandbox.
    pub(crate) async fn ports(&self, caller: &Caller, id: SandboxId) -> Result<Vec<PortStatus>, Fault> {
        self.reachable(caller, id).await?;
        let listening = self.host.listening(id).await?;
        // Read the row after the wake, which may have taken long.
        let intent = self.store.find(&caller.workspace, id).await?.ok_or_else(Fault::no_sandbox)?;
        Ok(merge(declared_ports(&intent.spec.metadata), listening))
    }

    /// Declares a port. A second declaration changes the label.
    pub(crate) async fn declare_port(
        &self,
        caller: &Caller,
        id: SandboxId,
        declared: DeclaredPort,
    ) -> Result<PortStatus, Fault> {
        self.owned(caller, id).await?;
        let DeclaredPort { port, label } = declared;
        match self.store.declare_port(id, (port, &label), DECLARED_PORTS_MAX).await? {
            PortAdded::Yes => {
                let listener = self.listeners(id).await.into_iter().find(|listener| listener.port == port);
                Ok(PortStatus { port, label: Some(label), listener })
            }
            PortAdded::Full => {
                let text = format!("{DECLARED_PORTS_MAX} ports are already declared; delete one first");
                Err(Fault::new(FaultKind::Caller, "port.too_many", text))
            }
        }
    }

    /// Removes a declaration. Succeeds if there is none.
    pub(crate) async fn undeclare_port(&self, caller: &Caller, id: SandboxId, port: GuestPort) -> Result<(), Fault> {
        self.owned(caller, id).await?;
        Ok(self.store.undeclare_port(id, port).await?)
    }

    /// Returns the listening ports of a running sandbox. Does not wake a sleeping one.
    async fn listeners(&self, id: SandboxId) -> Vec<ListeningPort> {
        match self.host.observe(id).await {
            Some(SandboxView { state: SandboxState::Running, .. }) => self.host.listening(id).await.unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Checks that the sandbox belongs to the caller's workspace, in any state.
    async fn owned(&self, caller: &Caller, id: SandboxId) -> Result<(), Fault> {
        self.store.state(&caller.workspace, id).await?.map(drop).ok_or_else(Fault::no_sandbox)
    }
}

fn merge(declared: BTreeMap<GuestPort, String>, listening: Vec<ListeningPort>) -> Vec<PortStatus> {
    let seen = |(port, label)| (port, PortStatus { port, label: Some(label), listener: None });
    let mut ports: BTreeMap<GuestPort, PortStatus> = declared.into_iter().map(seen).collect();
    for listener in listening.into_iter().filter(|listener| !is_hidden(listener.port)) {
        let port = listener.port;
        let found = ports.entry(port).or_insert(PortStatus { port, label: None, listener: None });
        found.listener = Some(listener);
    }
    ports.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_and_listening_ports_are_one_list() {
        let port = |number: i64| GuestPort::try_from(number).unwrap();
        let listener = |number| ListeningPort { port: port(number), loopback_only: false, process: None };
        let declared = [(port(80), "web".to_owned()), (port(9000), "later".to_owned())].into();
        let merged = merge(declared, vec![listener(3000), listener(80), listener(22)]);
        let merged: Vec<_> =
            merged.iter().map(|seen| (seen.port.get(), seen.label.as_deref(), seen.listener.is_some())).collect();
        assert_eq!(merged, [(80, Some("web"), true), (3000, None, true), (9000, Some("later"), false)]);
    }
}
