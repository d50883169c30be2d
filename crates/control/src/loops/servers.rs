//! Which servers run. Each shows it by a lease, and finishes the requests of those that have ended.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::{
    Control,
    limits::{ENDED_LOOKS, SERVER_LEASE_EVERY, SERVER_LEASE_RETRY},
    store::EndedServer,
};

/// Servers that were seen ended, and how often in a row. A running server may lose its lease while
/// the database does not answer, and needs time to renew it after that.
#[derive(Default)]
pub struct EndedServers(Mutex<HashMap<String, (EndedServer, u32)>>);

impl EndedServers {
    /// Takes the result of a look. Returns the servers that have surely ended.
    pub fn surely(&self, found: Vec<EndedServer>) -> Vec<String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *known);
        for server in found {
            let looks = match before.remove(&server.name) {
                Some((same, looks)) if same == server => looks.saturating_add(1),
                _ => 1,
            };
            known.insert(server.name.clone(), (server, looks));
        }
        let mut ended: Vec<_> =
            known.iter().filter(|(_, (_, looks))| *looks >= ENDED_LOOKS).map(|(name, _)| name.clone()).collect();
        ended.sort();
        ended
    }
}

/// Renews the lease of this server until shutdown.
pub async fn hold_server(control: Control) {
    let token = control.scope.token();
    let mut pause = SERVER_LEASE_EVERY;
    loop {
        let stops = tokio::select! {
            () = token.cancelled() => true,
            () = tokio::time::sleep(pause) => false,
        };
        pause = match control.renew_server_lease().await {
            Ok(()) => SERVER_LEASE_EVERY,
            Err(fault) => {
                tracing::warn!(%fault, detail = fault.detail, "could not renew the lease of this server");
                SERVER_LEASE_RETRY
            }
        };
        // Requests may still go on for a while. The lease is removed after them.
        if stops {
            return;
        }
    }
}

/// Finishes the requests of ended servers until shutdown.
pub async fn finish_for_ended(control: Control) {
    let token = control.scope.token();
    loop {
        tokio::select! {
            () = token.cancelled() => return,
            () = tokio::time::sleep(SERVER_LEASE_EVERY) => {}
        }
        if let Err(fault) = control.finish_for_ended().await {
            tracing::warn!(%fault, detail = fault.detail, "could not finish the requests of ended servers");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_stays_away_has_ended() {
        let servers = EndedServers::default();
        let seen = |name: &str, until_ns| EndedServer { name: name.to_owned(), until_ns };
        assert!(servers.surely(vec![seen("a", 5), seen("b", 5)]).is_empty());
        assert!(servers.surely(vec![seen("a", 5), seen("b", 6)]).is_empty());
        assert_eq!(servers.surely(vec![seen("a", 5), seen("b", 6)]), ["a"], "the other one gave a sign of life");
        assert!(servers.surely(vec![]).is_empty());
        assert!(servers.surely(vec![seen("a", 5)]).is_empty(), "it ran in between");
        assert_eq!(servers.0.lock().unwrap().len(), 1);
    }
}
