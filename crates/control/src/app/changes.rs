//! Events of a workspace that are not about the state of a sandbox: something was added, changed or
//! removed. Most come from the requests that pass the front door.

use pandastack_door::AuditRow;
use pandastack_model::SandboxId;
use pandastack_wire_fleet::WorkspaceId;
use pandastack_wire_public::MachineKind;
use serde_json::{Value, json};

use crate::{
    Control,
    workspace_events::{EventReaders, WorkspaceChange},
};

/// Status of a request whose client hung up. It may have changed something.
const HUNG_UP: u16 = 499;

/// A kind of change and those who may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChangedKind {
    kind: &'static str,
    readers: EventReaders,
}

impl Control {
    /// Tells a workspace that something changed.
    pub(crate) fn tell_change(&self, workspace: &WorkspaceId, kind: &'static str, payload: Value) {
        let change = WorkspaceChange::new(kind, self.clock.now_ns(), payload);
        self.store.workspace_events().record(workspace, change);
    }

    /// Tells an organisation that its members changed.
    pub(crate) async fn tell_members_changed(&self, org: &str) {
        let Ok(Some(workspace)) = self.store.workspace_of_org(org).await else { return };
        let change = WorkspaceChange::new("member.changed", self.clock.now_ns(), json!({}));
        let change = WorkspaceChange { readers: EventReaders::People, ..change };
        self.store.workspace_events().record(&workspace, change);
    }

    /// Tells a workspace what an answered request changed.
    pub(crate) async fn tell_request(&self, entry: &AuditRow) {
        let Some(kind) = changed_by(entry) else { return };
        let machine = match sandbox_in(&entry.path) {
            Some(id) => self.store.machine_kind(id).await.unwrap_or_default(),
            None => MachineKind::Sandbox,
        };
        match org_in(&entry.path) {
            // The organisation of the path, which need not be the one that the caller acts in.
            Some(org) => {
                if let Ok(Some(workspace)) = self.store.workspace_of_org(org).await {
                    self.tell_request_in(&workspace, (kind, machine), entry);
                }
            }
            None => self.tell_request_in(&entry.workspace, (kind, machine), entry),
        }
    }

    /// Tells a workspace what a request may have changed whose client hung up. Not of
    /// organisations: nobody knows whether the caller may change the one in the path.
    pub(crate) fn tell_cut_request(&self, entry: &AuditRow) {
        if let Some(kind) = changed_by(entry).filter(|_| org_in(&entry.path).is_none()) {
            self.tell_request_in(&entry.workspace, (kind, MachineKind::Sandbox), entry);
        }
    }

    fn tell_request_in(
        &self,
        workspace: &WorkspaceId,
        (ChangedKind { kind, readers }, machine): (ChangedKind, MachineKind),
        entry: &AuditRow,
    ) {
        let payload = json!({"request_id": entry.request_id, "actor": entry.actor});
        let sandbox = sandbox_in(&entry.path);
        let change = WorkspaceChange::new(kind, self.clock.now_ns(), payload);
        self.store.workspace_events().record(workspace, WorkspaceChange { sandbox, machine, readers, ..change });
    }
}

/// Returns what a request changed. Changes of a sandbox's state have events of their own.
fn changed_by(entry: &AuditRow) -> Option<ChangedKind> {
    if entry.status >= 400 && entry.status != HUNG_UP {
        return None;
    }
    let everybody = |kind| Some(ChangedKind { kind, readers: EventReaders::Everybody });
    let people = |kind| Some(ChangedKind { kind, readers: EventReaders::People });
    let admins = |kind| Some(ChangedKind { kind, readers: EventReaders::Admins });
    let route = entry.route.as_str();
    match route {
        "/v1/sandboxes/{id}/lifecycle"
        | "/v1/sandboxes/{id}/egress"
        | "/v1/sandboxes/{id}/ports"
        | "/v1/sandboxes/{id}/ports/{port}" => everybody("sandbox.changed"),
        "/v1/sandboxes/{id}/snapshots" | "/v1/snapshots/{snapshot}" => everybody("snapshot.changed"),
        "/v1/templates/{name}" => everybody("template.changed"),
        "/v1/orgs/{org}/members" | "/v1/orgs/{org}/invites/{invite}" => admins("invite.changed"),
        "/v1/orgs/{org}/members/{user}" | "/v1/orgs/{org}/leave" | "/v1/orgs/{org}/transfer" => {
            people("member.changed")
        }
        "/v1/orgs/{org}" => people("org.changed"),
        "/v1/webhooks/stripe" => None,
        _ if route.starts_with("/v1/orgs/{org}/billing") || route.starts_with("/v1/orgs/{org}/budget") => {
            people("billing.changed")
        }
        // A query may change rows, but not the database as the workspace sees it.
        "/v1/databases/{id}/proxy/{*path}" => None,
        _ if route.starts_with("/v1/databases") => everybody("database.changed"),
        _ if route.starts_with("/v1/volumes") => everybody("volume.changed"),
        _ if route.starts_with("/v1/webhooks") => everybody("webhook.changed"),
        _ if route.starts_with("/v1/api-keys") || route.starts_with("/v1/me/tokens") => everybody("key.changed"),
        _ => None,
    }
}

/// Returns the sandbox in a path.
fn sandbox_in(path: &str) -> Option<SandboxId> {
    path.strip_prefix("/v1/sandboxes/")?.split('/').next()?.parse().ok()
}

/// Returns the organisation in a path.
fn org_in(path: &str) -> Option<&str> {
    path.strip_prefix("/v1/orgs/")?.split('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(route: &str, status: u16) -> AuditRow {
        AuditRow {
            workspace: WorkspaceId("w".into()),
            at_ns: 0,
            request_id: String::new(),
            method: "POST".into(),
            route: route.into(),
            path: route.into(),
            status,
            duration_ms: 0,
            key_prefix: String::new(),
            actor: String::new(),
            actor_email: String::new(),
            address: String::new(),
        }
    }

    #[test]
    fn a_request_that_changed_something_is_told_to_those_who_may_see_it() {
        let kind = |route, status| changed_by(&entry(route, status)).map(|changed| (changed.kind, changed.readers));
        assert_eq!(kind("/v1/volumes/{name}", 204), Some(("volume.changed", EventReaders::Everybody)));
        assert_eq!(kind("/v1/volumes", 499), Some(("volume.changed", EventReaders::Everybody)));
        assert_eq!(kind("/v1/orgs/{org}/members", 201), Some(("invite.changed", EventReaders::Admins)));
        assert_eq!(kind("/v1/orgs/{org}/budget", 200), Some(("billing.changed", EventReaders::People)));
        assert_eq!(kind("/v1/volumes", 400), None);
        for silent in ["/v1/sandboxes/{id}/exec", "/v1/webhooks/stripe", "/v1/orgs/invites/{token}/accept", "none"] {
            assert_eq!(kind(silent, 200), None, "{silent}");
        }
        assert_eq!((org_in("/v1/orgs/abc/leave"), org_in("/v1/volumes")), (Some("abc"), None));
    }
}
