# Written by `cargo xtask sdk` from docs/openapi.json. Do not edit.
"""A function for each operation of the API. It describes the request; a transport sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from .call import (
    BytesCall,
    EmptyCall,
    EventsCall,
    JsonCall,
    SocketCall,
    TextCall,
    segment,
)

if TYPE_CHECKING:
    from . import models
    from .call import RequestBytes, RequestForm


def get_root_healthz() -> JsonCall[models.Health]:
    """Report whether the server is healthy."""
    return JsonCall("GET", "/healthz")


def post_root_mcp(body: dict[str, Any]) -> JsonCall[dict[str, Any]]:
    """The workspace as tools for agents (same as `/v1/mcp`).

    JSON-RPC 2.0 without sessions, one message per request. A tool call whose client asked for
    progress is answered with an event stream.
    """
    return JsonCall("POST", "/mcp", json=body)


def get_root_metrics() -> TextCall:
    """Metrics of the server, for Prometheus."""
    return TextCall("GET", "/metrics")


def get_root_repl_languages() -> JsonCall[list[str]]:
    """List the languages of code sessions (same as `/v1/repl/languages`)."""
    return JsonCall("GET", "/repl/languages")


def get_api_keys() -> JsonCall[models.ApiKeys]:
    """List the API keys of the workspace, newest first."""
    return JsonCall("GET", "/v1/api-keys")


def post_api_keys(body: models.CreateApiKey | None = None) -> JsonCall[models.ApiKey]:
    """Create an API key; the only answer that shows it."""
    return JsonCall("POST", "/v1/api-keys", json=body)


def delete_api_keys_key(key: str, *, force: bool | None = None) -> EmptyCall:
    """Revoke an API key, at once.

    Closes all requests, streams and WebSockets that were opened with the key.
    """
    return EmptyCall("DELETE", f"/v1/api-keys/{segment(key)}", query={"force": force})


def get_audit(
    *,
    since: str | None = None,
    limit: int | None = None,
    until: str | None = None,
    actor: str | None = None,
    method: str | None = None,
) -> JsonCall[models.AuditTrail]:
    """List the audit entries of the workspace.

    Every POST, PUT, PATCH and DELETE, also failed ones, and logins; newest first.
    """
    return JsonCall(
        "GET",
        "/v1/audit",
        query={"since": since, "limit": limit, "until": until, "actor": actor, "method": method},
    )


def get_audit_export(*, after: int | None = None) -> TextCall:
    """Export all audit entries of the workspace, oldest first.

    One JSON object per line, with the hash chain of the entries.
    """
    return TextCall("GET", "/v1/audit/export", query={"after": after})


def get_auth() -> JsonCall[models.LoginMethods]:
    """Show how people can log in."""
    return JsonCall("GET", "/v1/auth")


def post_auth_link(body: models.UseLink) -> JsonCall[models.LoggedIn]:
    """Log in with a one-time link."""
    return JsonCall("POST", "/v1/auth/link", json=body)


def post_auth_links() -> JsonCall[models.SignInLink]:
    """Make a link that logs the caller in once, for a browser.

    An API key of the first workspace gets a link for the first account, while there is none.
    """
    return JsonCall("POST", "/v1/auth/links")


def post_auth_login(body: models.LogIn) -> JsonCall[models.LoggedIn]:
    """Log in with a password.

    After several failures further attempts are delayed: `429` with `Retry-After`.
    """
    return JsonCall("POST", "/v1/auth/login", json=body)


def post_auth_logout() -> EmptyCall:
    """End the session of this request."""
    return EmptyCall("POST", "/v1/auth/logout")


def post_auth_oidc_token(body: models.ExchangeCode) -> JsonCall[models.LoggedIn]:
    """Exchange the code of a login for a session."""
    return JsonCall("POST", "/v1/auth/oidc/token", json=body)


def post_auth_password(body: models.ChangePassword) -> JsonCall[models.LoggedIn]:
    """Change the caller's password.

    Ends all sessions of the caller, and returns a new one.
    """
    return JsonCall("POST", "/v1/auth/password", json=body)


def post_auth_register(body: models.Register) -> JsonCall[models.LoggedIn]:
    """Make an account with an invite, and accept the invite."""
    return JsonCall("POST", "/v1/auth/register", json=body)


def post_auth_reset(body: models.ResetPassword) -> EmptyCall:
    """Set a new password with a reset link."""
    return EmptyCall("POST", "/v1/auth/reset", json=body)


def post_auth_reset_request(body: models.AskReset) -> EmptyCall:
    """Ask for a link to reset a password, by e-mail.

    The answer is the same whether or not there is such an account.
    """
    return EmptyCall("POST", "/v1/auth/reset-request", json=body)


def get_auth_sessions() -> JsonCall[list[models.LoginSession]]:
    """List the caller's sessions, newest first."""
    return JsonCall("GET", "/v1/auth/sessions")


def delete_auth_sessions_session(session: str) -> EmptyCall:
    """End a session of the caller."""
    return EmptyCall("DELETE", f"/v1/auth/sessions/{segment(session)}")


def post_auth_setup(body: models.SetUp) -> JsonCall[models.LoggedIn]:
    """Make the first account, which administers the server.

    Needs an API key of the server's first workspace, or a one-time `link`. The account becomes its
    owner.
    """
    return JsonCall("POST", "/v1/auth/setup", json=body)


def get_billing() -> JsonCall[models.Bill]:
    """Show what the workspace used and costs in this month."""
    return JsonCall("GET", "/v1/billing")


def post_billing_sync() -> JsonCall[models.MeterFlush]:
    """Post the usage of the workspace to Stripe now.

    Whole hours only. Answers with the number of events that were posted, and of those that wait.
    """
    return JsonCall("POST", "/v1/billing/sync")


def get_databases() -> JsonCall[models.ManagedDatabaseList]:
    """List databases without credentials, newest first."""
    return JsonCall("GET", "/v1/databases")


def post_databases(body: models.CreateDatabase | None = None) -> JsonCall[models.ManagedDatabase]:
    """Create a PostgreSQL database; returns at once.

    It is ready when its status is `running`. Another size than 1g needs the template of that size.
    """
    return JsonCall("POST", "/v1/databases", json=body)


def delete_databases_id(id_: str) -> EmptyCall:
    """Delete a database with its data."""
    return EmptyCall("DELETE", f"/v1/databases/{segment(id_)}")


def get_databases_id(id_: str) -> JsonCall[models.ManagedDatabase]:
    """Show a database; does not wake it."""
    return JsonCall("GET", f"/v1/databases/{segment(id_)}")


def patch_databases_id(
    id_: str,
    body: models.ChangeDatabase | None = None,
) -> JsonCall[models.ManagedDatabase]:
    """Change whether a database sleeps when idle."""
    return JsonCall("PATCH", f"/v1/databases/{segment(id_)}", json=body)


def get_databases_id_backups(id_: str) -> JsonCall[models.DatabaseBackups]:
    """Show backups, the restore window and the archive's state."""
    return JsonCall("GET", f"/v1/databases/{segment(id_)}/backups")


def post_databases_id_backups(id_: str) -> JsonCall[models.DatabaseBackup]:
    """Take a base backup now."""
    return JsonCall("POST", f"/v1/databases/{segment(id_)}/backups")


def post_databases_id_branches(
    id_: str,
    body: models.BranchDatabase | None = None,
) -> JsonCall[models.ManagedDatabase]:
    """Branch a database as it is now.

    The branch is a fork of the live server with its data and its cache. It has credentials of its
    own and is ready when its status is `running`. The source goes on.
    """
    return JsonCall("POST", f"/v1/databases/{segment(id_)}/branches", json=body)


def post_databases_id_clone(
    id_: str,
    body: models.CloneDatabase | None = None,
) -> JsonCall[models.ManagedDatabase]:
    """Clone a database as it was at a time.

    The clone is made from the archive: the source is not touched and may be asleep or failed.
    """
    return JsonCall("POST", f"/v1/databases/{segment(id_)}/clone", json=body)


def get_databases_id_connection(id_: str) -> JsonCall[models.DatabaseConnection]:
    """Show how to connect."""
    return JsonCall("GET", f"/v1/databases/{segment(id_)}/connection")


def get_databases_id_diff(id_: str, *, to: str | None = None) -> JsonCall[models.SchemaDiff]:
    """Compare the schemas of two databases."""
    return JsonCall("GET", f"/v1/databases/{segment(id_)}/diff", query={"to": to})


def post_databases_id_failover(id_: str) -> JsonCall[models.ManagedDatabase]:
    """Rebuild a failed database from its archive.

    It keeps its id and its host name and gets new credentials.
    """
    return JsonCall("POST", f"/v1/databases/{segment(id_)}/failover")


def get_databases_id_logs(id_: str, *, lines: int | None = None) -> JsonCall[models.DatabaseLogs]:
    """Show the last lines of a running database's log."""
    return JsonCall("GET", f"/v1/databases/{segment(id_)}/logs", query={"lines": lines})


def post_databases_id_reset(id_: str) -> JsonCall[models.ManagedDatabase]:
    """Reset a branch to what its parent is now.

    The branch keeps its id and its credentials and loses its own changes and backups.
    """
    return JsonCall("POST", f"/v1/databases/{segment(id_)}/reset")


def post_databases_id_reset_credentials(id_: str) -> JsonCall[models.ManagedDatabase]:
    """Replace password and broker token."""
    return JsonCall("POST", f"/v1/databases/{segment(id_)}/reset-credentials")


def post_databases_id_restart(id_: str) -> JsonCall[models.ManagedDatabase]:
    """Restart a database on the newest version of its template.

    Its data stays. Connections end. A database that failed is started again with its data.
    """
    return JsonCall("POST", f"/v1/databases/{segment(id_)}/restart")


def get_databases_id_stats(id_: str) -> JsonCall[models.DatabaseStats]:
    """Measure a running database."""
    return JsonCall("GET", f"/v1/databases/{segment(id_)}/stats")


def post_databases_id_verify_backup(
    id_: str,
    body: models.VerifyBackup | None = None,
) -> JsonCall[models.BackupDrill]:
    """Restore into a scratch machine and check the data.

    Returns at once. The result is the `drill` of the database's backups.
    """
    return JsonCall("POST", f"/v1/databases/{segment(id_)}/verify-backup", json=body)


def post_databases_id_wake(id_: str) -> JsonCall[models.DatabaseWake]:
    """Wake a database."""
    return JsonCall("POST", f"/v1/databases/{segment(id_)}/wake")


def get_events(
    *,
    limit: int | None = None,
    since: str | None = None,
    kind: Literal["sandbox", "database", "all"] | None = None,
    follow: bool | None = None,
) -> JsonCall[models.WorkspaceEvents]:
    """List recent events of the workspace, or follow them.

    Changes of sandboxes, templates, snapshots, volumes, webhooks, keys and members; oldest first.
    With `follow` the response is a stream: `ready` tells the place where it begins, `event` is an
    event, and `reset` means that events were lost. The header `Last-Event-ID` counts more than
    `since`.
    """
    return JsonCall(
        "GET",
        "/v1/events",
        query={"limit": limit, "since": since, "kind": kind, "follow": follow},
    )


def get_events_stream(
    *,
    limit: int | None = None,
    since: str | None = None,
    kind: Literal["sandbox", "database", "all"] | None = None,
    follow: bool | None = None,
) -> EventsCall:
    """List recent events of the workspace, or follow them.

    Changes of sandboxes, templates, snapshots, volumes, webhooks, keys and members; oldest first.
    With `follow` the response is a stream: `ready` tells the place where it begins, `event` is an
    event, and `reset` means that events were lost. The header `Last-Event-ID` counts more than
    `since`. Events: `ready` (EventPlace), `event` (WorkspaceEvent), `reset` (EventPlace).
    """
    return EventsCall(
        "GET",
        "/v1/events",
        query={"limit": limit, "since": since, "kind": kind, "follow": follow},
    )


def get_healthz() -> JsonCall[models.Health]:
    """Report whether the server is healthy (same as `/healthz`)."""
    return JsonCall("GET", "/v1/healthz")


def get_host_audit() -> JsonCall[models.Audit]:
    """Compare what exists on the host with what should exist."""
    return JsonCall("GET", "/v1/host/audit")


def post_mcp(body: dict[str, Any]) -> JsonCall[dict[str, Any]]:
    """The workspace as tools for agents (Model Context Protocol).

    JSON-RPC 2.0 without sessions, one message per request. A tool call whose client asked for
    progress is answered with an event stream.
    """
    return JsonCall("POST", "/v1/mcp", json=body)


def get_me() -> JsonCall[models.Me]:
    """Show the caller."""
    return JsonCall("GET", "/v1/me")


def post_me_current_org(body: models.CurrentOrgRequest) -> JsonCall[models.CurrentOrg]:
    """Choose the organisation that later requests act in."""
    return JsonCall("POST", "/v1/me/current-org", json=body)


def get_me_tokens() -> JsonCall[models.ApiKeys]:
    """List the API keys of the current organisation, newest first.

    For people only; a caller with an API key gets `401`.
    """
    return JsonCall("GET", "/v1/me/tokens")


def post_me_tokens(body: models.CreateApiKey | None = None) -> JsonCall[models.ApiKey]:
    """Create an API key of the current organisation."""
    return JsonCall("POST", "/v1/me/tokens", json=body)


def delete_me_tokens_prefix(prefix: str) -> EmptyCall:
    """Revoke the API keys with this prefix."""
    return EmptyCall("DELETE", f"/v1/me/tokens/{segment(prefix)}")


def get_metrics() -> TextCall:
    """Metrics of the server, for Prometheus (same as `/metrics`)."""
    return TextCall("GET", "/v1/metrics")


def get_metrics_overview(
    *,
    from_: str | None = None,
    to: str | None = None,
    range: str | None = None,
    step: Literal["15s", "1m", "5m", "1h"] | None = None,
) -> JsonCall[models.MetricSeries]:
    """Usage of all sandboxes of the workspace over time."""
    return JsonCall(
        "GET",
        "/v1/metrics/overview",
        query={"from": from_, "to": to, "range": range, "step": step},
    )


def get_metrics_sandbox_id(
    id_: str,
    *,
    from_: str | None = None,
    to: str | None = None,
    range: str | None = None,
    step: Literal["15s", "1m", "5m", "1h"] | None = None,
) -> JsonCall[models.MetricSeries]:
    """Usage of one sandbox over time."""
    return JsonCall(
        "GET",
        f"/v1/metrics/sandbox/{segment(id_)}",
        query={"from": from_, "to": to, "range": range, "step": step},
    )


def get_orgs() -> JsonCall[list[models.Org]]:
    """List the caller's organisations, oldest membership first."""
    return JsonCall("GET", "/v1/orgs")


def post_orgs(body: models.CreateOrg) -> JsonCall[models.Org]:
    """Create an organisation."""
    return JsonCall("POST", "/v1/orgs", json=body)


def get_orgs_invites_token(token: str) -> JsonCall[models.InviteInfo]:
    """Show an invite to the person who has its link."""
    return JsonCall("GET", f"/v1/orgs/invites/{segment(token)}")


def post_orgs_invites_token_accept(token: str) -> JsonCall[models.AcceptedInvite]:
    """Accept an invite."""
    return JsonCall("POST", f"/v1/orgs/invites/{segment(token)}/accept")


def delete_orgs_org(org: str, *, confirm: str | None = None) -> EmptyCall:
    """Delete an organisation with everything that it owns.

    Its keys stop at once. Sandboxes, snapshots, volumes, templates and webhooks follow.
    """
    return EmptyCall("DELETE", f"/v1/orgs/{segment(org)}", query={"confirm": confirm})


def get_orgs_org(org: str) -> JsonCall[models.Org]:
    """Show an organisation."""
    return JsonCall("GET", f"/v1/orgs/{segment(org)}")


def patch_orgs_org(org: str, body: models.RenameOrg) -> JsonCall[models.Org]:
    """Rename an organisation; its slug stays."""
    return JsonCall("PATCH", f"/v1/orgs/{segment(org)}", json=body)


def get_orgs_org_billing(org: str) -> JsonCall[models.Bill]:
    """Show what an organisation used and costs in this month."""
    return JsonCall("GET", f"/v1/orgs/{segment(org)}/billing")


def post_orgs_org_billing_checkout(org: str, body: models.BuyPlan) -> JsonCall[models.BillingPage]:
    """Make a page at Stripe to buy a plan."""
    return JsonCall("POST", f"/v1/orgs/{segment(org)}/billing/checkout", json=body)


def post_orgs_org_billing_portal(org: str) -> JsonCall[models.BillingPage]:
    """Make a page at Stripe to manage the subscription."""
    return JsonCall("POST", f"/v1/orgs/{segment(org)}/billing/portal")


def delete_orgs_org_budget(org: str) -> EmptyCall:
    """Remove the budget of an organisation."""
    return EmptyCall("DELETE", f"/v1/orgs/{segment(org)}/budget")


def put_orgs_org_budget(
    org: str,
    body: models.WorkspaceBudgetRequest,
) -> JsonCall[models.WorkspaceBudget]:
    """Limit what an organisation may cost in a month.

    Webhooks get an event at the share of the alert, and when the budget is used up.
    """
    return JsonCall("PUT", f"/v1/orgs/{segment(org)}/budget", json=body)


def get_orgs_org_invites(org: str) -> JsonCall[list[models.OrgInvite]]:
    """List the open invites of an organisation, newest first."""
    return JsonCall("GET", f"/v1/orgs/{segment(org)}/invites")


def delete_orgs_org_invites_invite(org: str, invite: str) -> EmptyCall:
    """Withdraw an invite."""
    return EmptyCall("DELETE", f"/v1/orgs/{segment(org)}/invites/{segment(invite)}")


def post_orgs_org_leave(org: str) -> EmptyCall:
    """Leave an organisation."""
    return EmptyCall("POST", f"/v1/orgs/{segment(org)}/leave")


def get_orgs_org_members(org: str) -> JsonCall[list[models.OrgMember]]:
    """List the members of an organisation."""
    return JsonCall("GET", f"/v1/orgs/{segment(org)}/members")


def post_orgs_org_members(org: str, body: models.CreateInvite) -> JsonCall[models.OrgInvite]:
    """Invite somebody to an organisation.

    The answer is the only one with the link. It is also sent by e-mail if the server can.
    """
    return JsonCall("POST", f"/v1/orgs/{segment(org)}/members", json=body)


def delete_orgs_org_members_user(org: str, user: str) -> EmptyCall:
    """Remove a member."""
    return EmptyCall("DELETE", f"/v1/orgs/{segment(org)}/members/{segment(user)}")


def patch_orgs_org_members_user(org: str, user: str, body: models.ChangeMember) -> EmptyCall:
    """Change the role of a member."""
    return EmptyCall("PATCH", f"/v1/orgs/{segment(org)}/members/{segment(user)}", json=body)


def post_orgs_org_transfer(org: str, body: models.TransferOrg) -> EmptyCall:
    """Make another member the owner, and the caller an admin."""
    return EmptyCall("POST", f"/v1/orgs/{segment(org)}/transfer", json=body)


def get_orgs_org_usage(
    org: str,
    *,
    by: Literal["day", "template", "sandbox", "member"] | None = None,
    from_: str | None = None,
    to: str | None = None,
) -> JsonCall[models.UsageReport]:
    """Usage of an organisation, split in the same ways."""
    return JsonCall(
        "GET",
        f"/v1/orgs/{segment(org)}/usage",
        query={"by": by, "from": from_, "to": to},
    )


def get_orgs_org_usage_export(
    org: str,
    *,
    by: Literal["day", "template", "sandbox", "member"] | None = None,
    from_: str | None = None,
    to: str | None = None,
) -> TextCall:
    """Usage of an organisation as a table in CSV."""
    return TextCall(
        "GET",
        f"/v1/orgs/{segment(org)}/usage/export",
        query={"by": by, "from": from_, "to": to},
    )


def get_pricing() -> JsonCall[models.Pricing]:
    """Show the prices and the plans."""
    return JsonCall("GET", "/v1/pricing")


def get_quotas() -> JsonCall[models.Quotas]:
    """Show the limits of the workspace, and what it uses."""
    return JsonCall("GET", "/v1/quotas")


def get_repl_languages() -> JsonCall[list[str]]:
    """List the languages of code sessions."""
    return JsonCall("GET", "/v1/repl/languages")


def get_sandboxes(
    *,
    limit: int | None = None,
    after: str | None = None,
    kind: Literal["sandbox", "database", "all"] | None = None,
) -> JsonCall[list[models.Sandbox]]:
    """List sandboxes, newest first."""
    return JsonCall("GET", "/v1/sandboxes", query={"limit": limit, "after": after, "kind": kind})


def post_sandboxes(body: models.CreateSandbox) -> JsonCall[models.Sandbox]:
    """Create a sandbox; returns when it is ready."""
    return JsonCall("POST", "/v1/sandboxes", json=body)


def delete_sandboxes_id(id_: str) -> EmptyCall:
    """Delete a sandbox."""
    return EmptyCall("DELETE", f"/v1/sandboxes/{segment(id_)}")


def get_sandboxes_id(id_: str) -> JsonCall[models.Sandbox]:
    """Show a sandbox."""
    return JsonCall("GET", f"/v1/sandboxes/{segment(id_)}")


def get_sandboxes_id_diff(
    id_: str,
    *,
    with_: str,
    path: str | None = None,
) -> JsonCall[models.BranchDiff]:
    """Compare the files and processes of two sandboxes.

    Wakes both. Compares folders of work, not the template's programs, within limits; of files that
    look the same only the youngest are read.
    """
    return JsonCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/diff",
        query={"with": with_, "path": path},
    )


def get_sandboxes_id_egress(id_: str) -> JsonCall[models.EgressList]:
    """Show the egress rules of a sandbox."""
    return JsonCall("GET", f"/v1/sandboxes/{segment(id_)}/egress")


def put_sandboxes_id_egress(id_: str, body: models.SetEgress) -> JsonCall[models.EgressList]:
    """Replace the egress rules of a sandbox, at once."""
    return JsonCall("PUT", f"/v1/sandboxes/{segment(id_)}/egress", json=body)


def get_sandboxes_id_events(
    id_: str,
    *,
    tail: int | None = None,
    since: str | None = None,
    follow: bool | None = None,
) -> JsonCall[models.EventList]:
    """List recent events of a sandbox, or follow them.

    With `follow` the response is a stream of the same events as they happen.
    """
    return JsonCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/events",
        query={"tail": tail, "since": since, "follow": follow},
    )


def get_sandboxes_id_events_stream(
    id_: str,
    *,
    tail: int | None = None,
    since: str | None = None,
    follow: bool | None = None,
) -> EventsCall:
    """List recent events of a sandbox, or follow them.

    With `follow` the response is a stream of the same events as they happen. Events: `event`
    (Event).
    """
    return EventsCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/events",
        query={"tail": tail, "since": since, "follow": follow},
    )


def post_sandboxes_id_exec(id_: str, body: models.ExecRequest) -> JsonCall[models.ExecResponse]:
    """Run a command and return its output."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/exec", json=body)


def get_sandboxes_id_exec_pty(
    id_: str,
    *,
    rows: int | None = None,
    cols: int | None = None,
    cmd: str | None = None,
) -> SocketCall:
    """WebSocket with a terminal.

    A WebSocket. Binary frames carry input and output. Text frames from the client are
    `{"resize":{"rows":R,"cols":C}}` or `{"stdin":"…"}`. The last text frame from the server is
    `{"exit":N}` or `{"error":"…"}`.
    """
    return SocketCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/exec/pty",
        query={"rows": rows, "cols": cols, "cmd": cmd},
    )


def post_sandboxes_id_exec_stream(id_: str, body: models.ExecRequest) -> EventsCall:
    """Run a command and stream its output.

    The stream ends with exactly one `exit` or `error` event. If the client disconnects, the command
    is ended. Events: `stdout` (ExecChunk), `stderr` (ExecChunk), `exit` (ExecExit), `error`
    (ExecFailure).
    """
    return EventsCall("POST", f"/v1/sandboxes/{segment(id_)}/exec/stream", json=body)


def get_sandboxes_id_exec_ws(id_: str) -> SocketCall:
    """WebSocket that runs many commands at once.

    A WebSocket of JSON objects in text frames. The client sends `{"id","cmd",…}` with the fields
    of `ExecRequest`, `{"id","cancel":true}`, `{"id","stdin"}`, `{"id","stdin_close":true}` and
    `{"id","signal"}`; the server sends `{"id","stream","data"}` and, as the last frame of each id,
    `{"id","exit"}` or `{"id","error"}`.
    """
    return SocketCall("GET", f"/v1/sandboxes/{segment(id_)}/exec/ws")


def post_sandboxes_id_fork(
    id_: str,
    body: models.ForkRequest | None = None,
) -> JsonCall[models.Fork]:
    """Create a running copy of a sandbox."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/fork", json=body)


def post_sandboxes_id_fork_tree(
    id_: str,
    body: models.ForkRequest | None = None,
) -> JsonCall[models.ForkTree]:
    """Create several copies as one tree."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/fork-tree", json=body)


def delete_sandboxes_id_fs(id_: str, *, path: str) -> EmptyCall:
    """Delete a path and everything below it."""
    return EmptyCall("DELETE", f"/v1/sandboxes/{segment(id_)}/fs", query={"path": path})


def get_sandboxes_id_fs(id_: str, *, path: str) -> BytesCall:
    """Read a file."""
    return BytesCall("GET", f"/v1/sandboxes/{segment(id_)}/fs", query={"path": path})


def put_sandboxes_id_fs(
    id_: str,
    body: RequestBytes,
    *,
    path: str,
    mode: str | None = None,
) -> JsonCall[models.Written]:
    """Write a file atomically."""
    return JsonCall(
        "PUT",
        f"/v1/sandboxes/{segment(id_)}/fs",
        content=body,
        query={"path": path, "mode": mode},
    )


def post_sandboxes_id_fs_chmod(id_: str, body: models.Chmod) -> JsonCall[models.Changed]:
    """Set permission bits."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/fs/chmod", json=body)


def get_sandboxes_id_fs_dir(
    id_: str,
    *,
    path: str | None = None,
    recursive: bool | None = None,
    depth: int | None = None,
) -> JsonCall[models.DirListing]:
    """List a directory."""
    return JsonCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/fs/dir",
        query={"path": path, "recursive": recursive, "depth": depth},
    )


def post_sandboxes_id_fs_mkdir(id_: str, body: models.MakeDir) -> JsonCall[models.Changed]:
    """Create a directory."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/fs/mkdir", json=body)


def post_sandboxes_id_fs_move(id_: str, body: models.MovePath) -> JsonCall[models.Changed]:
    """Move a path."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/fs/move", json=body)


def get_sandboxes_id_fs_stat(id_: str, *, path: str) -> JsonCall[models.Entry]:
    """Show the metadata of a path."""
    return JsonCall("GET", f"/v1/sandboxes/{segment(id_)}/fs/stat", query={"path": path})


def get_sandboxes_id_fs_tar(id_: str, *, path: str) -> BytesCall:
    """Download a directory as a tar archive."""
    return BytesCall("GET", f"/v1/sandboxes/{segment(id_)}/fs/tar", query={"path": path})


def put_sandboxes_id_fs_tar(
    id_: str,
    body: RequestBytes,
    *,
    path: str,
) -> JsonCall[models.Unpacked]:
    """Unpack a tar archive into a directory."""
    return JsonCall(
        "PUT",
        f"/v1/sandboxes/{segment(id_)}/fs/tar",
        content=body,
        query={"path": path},
    )


def get_sandboxes_id_fs_watch(id_: str, *, path: str, recursive: bool | None = None) -> EventsCall:
    """Stream the changes below a path.

    An event stream that stays open until the client closes it. After an `error` event it ends.
    Events: `ready` (WatchNote), `change` (Change), `overflow` (WatchNote), `error` (ExecFailure).
    """
    return EventsCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/fs/watch",
        query={"path": path, "recursive": recursive},
    )


def post_sandboxes_id_hibernate(id_: str) -> JsonCall[models.Status]:
    """Hibernate a sandbox: memory and disk are saved, the machine ends."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/hibernate")


def get_sandboxes_id_lifecycle(id_: str) -> JsonCall[models.Lifecycle]:
    """Show the idle limit and the idle time of a sandbox."""
    return JsonCall("GET", f"/v1/sandboxes/{segment(id_)}/lifecycle")


def patch_sandboxes_id_lifecycle(
    id_: str,
    body: models.SetLifecycle | None = None,
) -> JsonCall[models.Lifecycle]:
    """Change the idle limit of a sandbox."""
    return JsonCall("PATCH", f"/v1/sandboxes/{segment(id_)}/lifecycle", json=body)


def get_sandboxes_id_logs_stream(
    id_: str,
    *,
    follow: bool | None = None,
    stream: str | None = None,
    tail: int | None = None,
) -> EventsCall:
    """Show the console of a sandbox, or follow it.

    Plain text. With `follow` the response is an event stream of lines. Events: `line` (LogLine).
    """
    return EventsCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/logs",
        query={"follow": follow, "stream": stream, "tail": tail},
    )


def get_sandboxes_id_logs(
    id_: str,
    *,
    follow: bool | None = None,
    stream: str | None = None,
    tail: int | None = None,
) -> TextCall:
    """Show the console of a sandbox, or follow it.

    Plain text. With `follow` the response is an event stream of lines.
    """
    return TextCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/logs",
        query={"follow": follow, "stream": stream, "tail": tail},
    )


def post_sandboxes_id_mcp(id_: str, body: Any) -> JsonCall[Any]:
    """The sandbox as tools for agents (Model Context Protocol).

    JSON-RPC 2.0 without sessions. A rejected message is answered with a JSON-RPC error.
    """
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/mcp", json=body)


def get_sandboxes_id_metrics(id_: str) -> JsonCall[models.MachineMetrics]:
    """Current usage of a sandbox."""
    return JsonCall("GET", f"/v1/sandboxes/{segment(id_)}/metrics")


def post_sandboxes_id_pause(id_: str) -> EmptyCall:
    """Pause a sandbox: its CPUs stop, its memory stays."""
    return EmptyCall("POST", f"/v1/sandboxes/{segment(id_)}/pause")


def get_sandboxes_id_ports(id_: str) -> JsonCall[list[models.Port]]:
    """List listening and declared ports."""
    return JsonCall("GET", f"/v1/sandboxes/{segment(id_)}/ports")


def post_sandboxes_id_ports(id_: str, body: models.DeclarePort) -> JsonCall[models.Port]:
    """Declare a port."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/ports", json=body)


def delete_sandboxes_id_ports_port(id_: str, port: int) -> EmptyCall:
    """Remove the declaration of a port."""
    return EmptyCall("DELETE", f"/v1/sandboxes/{segment(id_)}/ports/{segment(port)}")


def post_sandboxes_id_preview(id_: str, body: models.PreviewRequest) -> JsonCall[models.Preview]:
    """Create a signed preview link (same as `preview-token`)."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/preview", json=body)


def post_sandboxes_id_preview_token(
    id_: str,
    body: models.PreviewRequest,
) -> JsonCall[models.Preview]:
    """Create a signed preview link to a port, for some paths and a limited time."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/preview-token", json=body)


def get_sandboxes_id_processes(id_: str) -> JsonCall[list[models.Process]]:
    """List processes, oldest first."""
    return JsonCall("GET", f"/v1/sandboxes/{segment(id_)}/processes")


def post_sandboxes_id_processes(id_: str, body: models.SpawnRequest) -> JsonCall[models.Process]:
    """Start a process that outlives the request."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/processes", json=body)


def delete_sandboxes_id_processes_process(id_: str, process: str) -> EmptyCall:
    """Kill a process and its group, and remove it from the list."""
    return EmptyCall("DELETE", f"/v1/sandboxes/{segment(id_)}/processes/{segment(process)}")


def get_sandboxes_id_processes_process(id_: str, process: str) -> JsonCall[models.Process]:
    """Show a process."""
    return JsonCall("GET", f"/v1/sandboxes/{segment(id_)}/processes/{segment(process)}")


def get_sandboxes_id_processes_process_output(
    id_: str,
    process: str,
    *,
    offset: int | None = None,
    follow: bool | None = None,
) -> JsonCall[models.ProcessOutput]:
    """Output of a process from an offset on, or follow it.

    With `follow` the response is an event stream that ends with exactly one `exit` or `error`
    event. Event ids are offsets.
    """
    return JsonCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/processes/{segment(process)}/output",
        query={"offset": offset, "follow": follow},
    )


def get_sandboxes_id_processes_process_output_stream(
    id_: str,
    process: str,
    *,
    offset: int | None = None,
    follow: bool | None = None,
) -> EventsCall:
    """Output of a process from an offset on, or follow it.

    With `follow` the response is an event stream that ends with exactly one `exit` or `error`
    event. Event ids are offsets. Events: `stdout` (FollowedChunk), `stderr` (FollowedChunk), `lost`
    (LostOutput), `exit` (FollowedExit), `error` (ExecFailure).
    """
    return EventsCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/processes/{segment(process)}/output",
        query={"offset": offset, "follow": follow},
    )


def post_sandboxes_id_processes_process_signal(
    id_: str,
    process: str,
    body: models.SignalRequest,
) -> EmptyCall:
    """Send a signal to a process and its group."""
    return EmptyCall(
        "POST",
        f"/v1/sandboxes/{segment(id_)}/processes/{segment(process)}/signal",
        json=body,
    )


def post_sandboxes_id_processes_process_stdin(
    id_: str,
    process: str,
    body: RequestBytes,
    *,
    end: bool | None = None,
) -> JsonCall[models.Fed]:
    """Write to the standard input of a process."""
    return JsonCall(
        "POST",
        f"/v1/sandboxes/{segment(id_)}/processes/{segment(process)}/stdin",
        content=body,
        query={"end": end},
    )


def post_sandboxes_id_promote(
    id_: str,
    body: models.PromoteRequest | None = None,
) -> JsonCall[models.Promotion]:
    """Keep one copy of a tree; deletes its siblings if asked."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/promote", json=body)


def post_sandboxes_id_repl(id_: str, body: models.RunOnce) -> JsonCall[models.RanOnce]:
    """Run code without a session."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/repl", json=body)


def get_sandboxes_id_repl_sessions(id_: str) -> JsonCall[list[models.CodeSession]]:
    """List code sessions, oldest first."""
    return JsonCall("GET", f"/v1/sandboxes/{segment(id_)}/repl/sessions")


def post_sandboxes_id_repl_sessions(
    id_: str,
    body: models.OpenSession | None = None,
) -> JsonCall[models.CodeSession]:
    """Open a code session, which keeps its state between cells."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/repl/sessions", json=body)


def delete_sandboxes_id_repl_sessions_session(id_: str, session: str) -> EmptyCall:
    """Close a code session."""
    return EmptyCall("DELETE", f"/v1/sandboxes/{segment(id_)}/repl/sessions/{segment(session)}")


def post_sandboxes_id_repl_sessions_session_run(
    id_: str,
    session: str,
    body: models.RunCell,
) -> JsonCall[models.CellResult]:
    """Run a cell and return its output and results."""
    return JsonCall(
        "POST",
        f"/v1/sandboxes/{segment(id_)}/repl/sessions/{segment(session)}/run",
        json=body,
    )


def post_sandboxes_id_resume(id_: str) -> EmptyCall:
    """Resume a paused sandbox."""
    return EmptyCall("POST", f"/v1/sandboxes/{segment(id_)}/resume")


def post_sandboxes_id_snapshots(id_: str) -> JsonCall[models.Snapshot]:
    """Create a snapshot of memory and disk."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/snapshots")


def get_sandboxes_id_ssh(
    id_: str,
    *,
    rows: int | None = None,
    cols: int | None = None,
) -> SocketCall:
    """WebSocket with a terminal, for the `ssh` command of the CLI.

    A WebSocket. Binary frames carry input and output. Text frames from the client are
    `{"resize":{"rows":R,"cols":C}}` or `{"stdin":"…"}`. The last text frame from the server is
    `{"exit":N}` or `{"error":"…"}`.
    """
    return SocketCall(
        "GET",
        f"/v1/sandboxes/{segment(id_)}/ssh",
        query={"rows": rows, "cols": cols},
    )


def post_sandboxes_id_start(id_: str) -> JsonCall[models.Status]:
    """Wake a hibernated sandbox (same as `wake`)."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/start")


def post_sandboxes_id_stop(id_: str) -> JsonCall[models.Status]:
    """Hibernate a sandbox (same as `hibernate`)."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/stop")


def get_sandboxes_id_tree(id_: str) -> JsonCall[models.FamilyTree]:
    """Show ancestors, siblings and descendants."""
    return JsonCall("GET", f"/v1/sandboxes/{segment(id_)}/tree")


def post_sandboxes_id_wake(id_: str) -> JsonCall[models.Status]:
    """Wake a hibernated sandbox; succeeds if it is awake."""
    return JsonCall("POST", f"/v1/sandboxes/{segment(id_)}/wake")


def get_snapshots(*, sandbox_id: str | None = None) -> JsonCall[models.SnapshotList]:
    """List snapshots, newest first."""
    return JsonCall("GET", "/v1/snapshots", query={"sandbox_id": sandbox_id})


def delete_snapshots_snapshot(snapshot: str) -> EmptyCall:
    """Delete a snapshot."""
    return EmptyCall("DELETE", f"/v1/snapshots/{segment(snapshot)}")


def get_snapshots_snapshot(snapshot: str) -> JsonCall[models.Snapshot]:
    """Show a snapshot."""
    return JsonCall("GET", f"/v1/snapshots/{segment(snapshot)}")


def get_stats_boot(*, limit: int | None = None) -> JsonCall[models.BootStats]:
    """Statistics of start times."""
    return JsonCall("GET", "/v1/stats/boot", query={"limit": limit})


def get_templates() -> JsonCall[list[models.Template]]:
    """List templates."""
    return JsonCall("GET", "/v1/templates")


def post_templates_build(
    body: RequestForm,
    *,
    replace: bool | None = None,
) -> JsonCall[models.Build]:
    """Build a template; returns the build at once.

    Send exactly one of `dockerfile`, `rootfs`, `from_snapshot` and `image_ref`.
    """
    return JsonCall("POST", "/v1/templates/build", form=body, query={"replace": replace})


def get_templates_builds() -> JsonCall[list[models.Build]]:
    """List builds, newest first."""
    return JsonCall("GET", "/v1/templates/builds")


def get_templates_builds_build(build: str) -> JsonCall[models.Build]:
    """Show a build."""
    return JsonCall("GET", f"/v1/templates/builds/{segment(build)}")


def get_templates_builds_build_logs(build: str, *, follow: bool | None = None) -> EventsCall:
    """Show the log of a build, or follow it.

    The data of each event is one line of plain text. The last event is `done`.
    """
    return EventsCall(
        "GET",
        f"/v1/templates/builds/{segment(build)}/logs",
        query={"follow": follow},
    )


def delete_templates_name(name: str) -> EmptyCall:
    """Delete a template; sandboxes created from it are not affected."""
    return EmptyCall("DELETE", f"/v1/templates/{segment(name)}")


def get_templates_name(name: str) -> JsonCall[models.Template]:
    """Show a template."""
    return JsonCall("GET", f"/v1/templates/{segment(name)}")


def get_usage(
    *,
    by: Literal["day", "template", "sandbox", "member"] | None = None,
    from_: str | None = None,
    to: str | None = None,
) -> JsonCall[models.UsageReport]:
    """Usage of the workspace by day, template, sandbox or member."""
    return JsonCall("GET", "/v1/usage", query={"by": by, "from": from_, "to": to})


def get_usage_export(
    *,
    by: Literal["day", "template", "sandbox", "member"] | None = None,
    from_: str | None = None,
    to: str | None = None,
) -> TextCall:
    """The same usage as a table in CSV."""
    return TextCall("GET", "/v1/usage/export", query={"by": by, "from": from_, "to": to})


def get_version() -> JsonCall[models.Version]:
    """Show the version of what runs the sandboxes."""
    return JsonCall("GET", "/v1/version")


def get_volumes() -> JsonCall[list[models.Volume]]:
    """List volumes by name."""
    return JsonCall("GET", "/v1/volumes")


def post_volumes(body: models.CreateVolume) -> JsonCall[models.Volume]:
    """Create a volume."""
    return JsonCall("POST", "/v1/volumes", json=body)


def delete_volumes_name(name: str) -> EmptyCall:
    """Delete a volume that no sandbox uses."""
    return EmptyCall("DELETE", f"/v1/volumes/{segment(name)}")


def get_volumes_name(name: str) -> JsonCall[models.Volume]:
    """Show a volume."""
    return JsonCall("GET", f"/v1/volumes/{segment(name)}")


def patch_volumes_name(name: str, body: models.GrowVolume) -> JsonCall[models.Volume]:
    """Grow a volume, also while it is in use."""
    return JsonCall("PATCH", f"/v1/volumes/{segment(name)}", json=body)


def get_webhooks() -> JsonCall[list[models.Webhook]]:
    """List webhooks, newest first."""
    return JsonCall("GET", "/v1/webhooks")


def post_webhooks(body: models.CreateWebhook) -> JsonCall[models.Webhook]:
    """Subscribe a URL to events; shows its secret."""
    return JsonCall("POST", "/v1/webhooks", json=body)


def get_webhooks_dead_letters(*, limit: int | None = None) -> JsonCall[list[models.Delivery]]:
    """List deliveries that failed for good."""
    return JsonCall("GET", "/v1/webhooks/dead-letters", query={"limit": limit})


def get_webhooks_deliveries_delivery(delivery: str) -> JsonCall[models.Delivery]:
    """Show a delivery and its attempts."""
    return JsonCall("GET", f"/v1/webhooks/deliveries/{segment(delivery)}")


def post_webhooks_deliveries_delivery_replay(delivery: str) -> JsonCall[models.Delivery]:
    """Deliver again."""
    return JsonCall("POST", f"/v1/webhooks/deliveries/{segment(delivery)}/replay")


def delete_webhooks_webhook(webhook: str) -> EmptyCall:
    """Delete a webhook and its deliveries."""
    return EmptyCall("DELETE", f"/v1/webhooks/{segment(webhook)}")


def get_webhooks_webhook(webhook: str) -> JsonCall[models.Webhook]:
    """Show a webhook."""
    return JsonCall("GET", f"/v1/webhooks/{segment(webhook)}")


def patch_webhooks_webhook(webhook: str, body: models.ChangeWebhook) -> JsonCall[models.Webhook]:
    """Change, enable or disable a webhook."""
    return JsonCall("PATCH", f"/v1/webhooks/{segment(webhook)}", json=body)


def get_webhooks_webhook_deliveries(
    webhook: str,
    *,
    status: Literal["pending", "failed", "delivered", "dead"] | None = None,
    limit: int | None = None,
) -> JsonCall[list[models.Delivery]]:
    """List deliveries, newest first."""
    return JsonCall(
        "GET",
        f"/v1/webhooks/{segment(webhook)}/deliveries",
        query={"status": status, "limit": limit},
    )


def post_webhooks_webhook_ping(webhook: str) -> JsonCall[models.Ping]:
    """Send a test event and show the receiver's answer."""
    return JsonCall("POST", f"/v1/webhooks/{segment(webhook)}/ping")


def post_webhooks_webhook_rotate_secret(
    webhook: str,
    body: models.RotateSecret | None = None,
) -> JsonCall[models.Webhook]:
    """Create a new secret; the old one also signs during a grace period."""
    return JsonCall("POST", f"/v1/webhooks/{segment(webhook)}/rotate-secret", json=body)


def get_root_version() -> JsonCall[models.Version]:
    """Show the version of the server."""
    return JsonCall("GET", "/version")
