//! Logins in the audit trail. They have no authenticated caller, so the front door does not record
//! them. Nothing is recorded for an unknown account: it has no workspace.

use std::net::IpAddr;

use pandastack_door::AuditRow;
use pandastack_model::Fault;
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::reply;

use crate::{Control, loops::UnwrittenEntry, store::UserRow};

/// Where a login comes from.
#[derive(Clone, Debug)]
pub(crate) struct LoginOrigin {
    pub(crate) address: IpAddr,
    /// The program, as it names itself.
    pub(crate) agent: String,
    pub(crate) request_id: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) at_ns: u64,
}

impl Control {
    /// Records a login, without waiting.
    pub(crate) fn note_login(&self, user: &UserRow, origin: &LoginOrigin, status: u16) {
        let took_ns = self.clock.now_ns().saturating_sub(origin.at_ns);
        let entry = AuditRow {
            // The writer looks it up.
            workspace: WorkspaceId(String::new()),
            at_ns: origin.at_ns,
            request_id: origin.request_id.clone(),
            method: origin.method.clone(),
            route: origin.path.clone(),
            path: origin.path.clone(),
            status,
            duration_ms: took_ns / 1_000_000,
            key_prefix: String::new(),
            actor: format!("user:{}", user.id),
            actor_email: user.email.clone(),
            address: origin.address.to_string(),
        };
        let entry = UnwrittenEntry::Login { user: user.id.clone(), entry };
        if let Err(error) = self.front.audit_entries.try_send(entry) {
            tracing::warn!(%error, "could not add a login to the audit trail");
        }
    }

    /// Records a login that failed, without waiting. The client is told nothing about it.
    pub(crate) fn note_failed_login(&self, user: &UserRow, origin: &LoginOrigin, fault: &Fault) {
        self.note_login(user, origin, reply(fault, "").status);
    }
}
