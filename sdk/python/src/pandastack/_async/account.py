"""The workspace and its people: keys, organisations, usage, audit, logins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, AsyncGenerator, List, Mapping, Optional, cast

from .._builds import Token
from .._core import models, operations
from .._wire import list_of

if TYPE_CHECKING:
    from .client import AsyncPandaStack


class AsyncTokensAPI:
    """API keys of the current organisation, for people who are logged in.

    A caller with an API key uses `api_keys` instead.
    """

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def list(self) -> List[Token]:
        """All keys, newest first."""
        found = list_of(await self._client.transport.json(operations.get_me_tokens()), "items")
        return [Token.from_dict(data) for data in found]

    async def create(self, name: str, expires_in_days: Optional[int] = None) -> Token:
        """Create a key. Only this answer has the whole key."""
        body: models.CreateApiKey = {"label": name}
        if expires_in_days is not None:
            body["expires_in_days"] = expires_in_days
        data = await self._client.transport.json(operations.post_me_tokens(body))
        return Token.from_dict({"name": name, **data})

    async def revoke(self, prefix: str) -> None:
        """Revoke the keys with this prefix."""
        await self._client.transport.empty(operations.delete_me_tokens_prefix(prefix))


class AsyncApiKeysAPI:
    """The API keys of the workspace."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def list(self) -> List[models.ApiKey]:
        """All keys, newest first."""
        return list_of(await self._client.transport.json(operations.get_api_keys()), "items")

    async def create(
        self,
        label: Optional[str] = None,
        *,
        expires_in_days: Optional[int] = None,
    ) -> models.ApiKey:
        """Create a key. Only this answer has the whole key, as `token`."""
        body: models.CreateApiKey = {}
        if label is not None:
            body["label"] = label
        if expires_in_days is not None:
            body["expires_in_days"] = expires_in_days
        return await self._client.transport.json(operations.post_api_keys(body))

    async def revoke(self, key: str, *, force: bool = False) -> None:
        """Revoke a key, by id or prefix, at once. `force` allows the one in use."""
        call = operations.delete_api_keys_key(key, force=force or None)
        await self._client.transport.empty(call)


class AsyncOrgsAPI:
    """Organisations, their members, invites and bills."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def list(self) -> List[models.Org]:
        """The caller's organisations, oldest membership first."""
        return list_of(await self._client.transport.json(operations.get_orgs()), "items")

    async def create(self, name: str, *, slug: Optional[str] = None) -> models.Org:
        body: models.CreateOrg = {"name": name}
        if slug is not None:
            body["slug"] = slug
        return await self._client.transport.json(operations.post_orgs(body))

    async def get(self, org_id: str) -> models.Org:
        return await self._client.transport.json(operations.get_orgs_org(org_id))

    async def rename(self, org_id: str, name: str) -> models.Org:
        """Rename an organisation; its slug stays."""
        call = operations.patch_orgs_org(org_id, {"name": name})
        return await self._client.transport.json(call)

    async def delete(self, org_id: str, *, confirm: Optional[str] = None) -> None:
        """Delete an organisation with everything that it owns. `confirm` is its slug."""
        await self._client.transport.empty(operations.delete_orgs_org(org_id, confirm=confirm))

    async def switch(self, org_id: str) -> str:
        """Choose the organisation that later requests of this person act in."""
        call = operations.post_me_current_org({"org_id": org_id})
        return (await self._client.transport.json(call))["org_id"]

    async def members(self, org_id: str) -> List[models.OrgMember]:
        return list_of(
            await self._client.transport.json(operations.get_orgs_org_members(org_id)), "items"
        )

    async def invite(
        self,
        org_id: str,
        email: str,
        *,
        role: Optional[str] = None,
    ) -> models.OrgInvite:
        """Invite somebody. Only this answer has the link."""
        body: models.CreateInvite = {"email": email}
        if role is not None:
            body["role"] = role
        return await self._client.transport.json(operations.post_orgs_org_members(org_id, body))

    async def invites(self, org_id: str) -> List[models.OrgInvite]:
        """The open invites, newest first."""
        return list_of(
            await self._client.transport.json(operations.get_orgs_org_invites(org_id)), "items"
        )

    async def withdraw_invite(self, org_id: str, invite_id: str) -> None:
        call = operations.delete_orgs_org_invites_invite(org_id, invite_id)
        await self._client.transport.empty(call)

    async def show_invite(self, token: str) -> models.InviteInfo:
        """What an invite is for. It needs the secret of its link, and no API key."""
        return await self._client.transport.json(operations.get_orgs_invites_token(token))

    async def accept_invite(self, token: str) -> models.AcceptedInvite:
        return await self._client.transport.json(operations.post_orgs_invites_token_accept(token))

    async def set_role(self, org_id: str, user_id: str, role: str) -> None:
        """Make a member an `admin` or a `member`."""
        call = operations.patch_orgs_org_members_user(org_id, user_id, {"role": role})
        await self._client.transport.empty(call)

    async def remove_member(self, org_id: str, user_id: str) -> None:
        call = operations.delete_orgs_org_members_user(org_id, user_id)
        await self._client.transport.empty(call)

    async def leave(self, org_id: str) -> None:
        await self._client.transport.empty(operations.post_orgs_org_leave(org_id))

    async def transfer(self, org_id: str, user_id: str) -> None:
        """Make another member the owner."""
        call = operations.post_orgs_org_transfer(org_id, {"user_id": user_id})
        await self._client.transport.empty(call)

    async def bill(self, org_id: str) -> models.Bill:
        """What the organisation used and costs in this month."""
        return await self._client.transport.json(operations.get_orgs_org_billing(org_id))

    async def checkout(
        self,
        org_id: str,
        plan: str,
        *,
        interval: Optional[str] = None,
    ) -> str:
        """The address of a page to buy a plan."""
        body: models.BuyPlan = {"plan": plan}
        if interval is not None:
            body["interval"] = interval
        call = operations.post_orgs_org_billing_checkout(org_id, body)
        return (await self._client.transport.json(call))["url"]

    async def billing_portal(self, org_id: str) -> str:
        """The address of a page to manage the subscription."""
        call = operations.post_orgs_org_billing_portal(org_id)
        return (await self._client.transport.json(call))["url"]

    async def set_budget(
        self,
        org_id: str,
        monthly_usd: float,
        *,
        alert_percent: int = 80,
        hard_cap: bool = False,
    ) -> models.WorkspaceBudget:
        """Limit what the organisation may cost in a month."""
        body: models.WorkspaceBudgetRequest = {
            "monthly_usd": monthly_usd,
            "alert_percent": alert_percent,
            "hard_cap": hard_cap,
        }
        return await self._client.transport.json(operations.put_orgs_org_budget(org_id, body))

    async def remove_budget(self, org_id: str) -> None:
        await self._client.transport.empty(operations.delete_orgs_org_budget(org_id))

    async def usage(
        self,
        org_id: str,
        *,
        by: Any = None,
        start: Optional[str] = None,
        end: Optional[str] = None,
    ) -> models.UsageReport:
        """Usage by `day`, `template`, `sandbox` or `member`."""
        call = operations.get_orgs_org_usage(org_id, by=by, from_=start, to=end)
        return await self._client.transport.json(call)

    async def export_usage(
        self,
        org_id: str,
        *,
        by: Any = None,
        start: Optional[str] = None,
        end: Optional[str] = None,
    ) -> str:
        """The same as a table in CSV."""
        call = operations.get_orgs_org_usage_export(org_id, by=by, from_=start, to=end)
        return await self._client.transport.text(call)


class AsyncBillingAPI:
    """What the workspace uses, may use, and costs."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def show(self) -> models.Bill:
        """What the workspace used and costs in this month."""
        return await self._client.transport.json(operations.get_billing())

    async def sync(self) -> models.MeterFlush:
        """Post the usage to Stripe now."""
        return await self._client.transport.json(operations.post_billing_sync())

    async def pricing(self) -> models.Pricing:
        """The prices and the plans."""
        return await self._client.transport.json(operations.get_pricing())

    async def quotas(self) -> models.Quotas:
        """The limits of the workspace, and what it uses of them."""
        return await self._client.transport.json(operations.get_quotas())

    async def usage(
        self,
        *,
        by: Any = None,
        start: Optional[str] = None,
        end: Optional[str] = None,
    ) -> models.UsageReport:
        """Usage by `day`, `template`, `sandbox` or `member`."""
        call = operations.get_usage(by=by, from_=start, to=end)
        return await self._client.transport.json(call)

    async def export_usage(
        self,
        *,
        by: Any = None,
        start: Optional[str] = None,
        end: Optional[str] = None,
    ) -> str:
        """The same as a table in CSV."""
        call = operations.get_usage_export(by=by, from_=start, to=end)
        return await self._client.transport.text(call)


class AsyncAuditAPI:
    """The audit trail of the workspace."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def list(
        self,
        *,
        since: Optional[str] = None,
        until: Optional[str] = None,
        limit: Optional[int] = None,
        actor: Optional[str] = None,
        method: Optional[str] = None,
    ) -> List[models.AuditEntry]:
        """Changing requests and logins, newest first."""
        call = operations.get_audit(
            since=since, limit=limit, until=until, actor=actor, method=method
        )
        return (await self._client.transport.json(call))["entries"]

    async def export(
        self,
        *,
        after: Optional[int] = None,
    ) -> AsyncGenerator[models.ExportedAuditEntry, None]:
        """Iterate over all entries, oldest first, with their hash chain."""
        import json

        call = operations.get_audit_export(after=after)
        async for line in self._client.transport.lines(call):
            if line.strip():
                yield cast(models.ExportedAuditEntry, json.loads(line))


class AsyncAuthAPI:
    """Logins of people. An API key needs none of this."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def methods(self) -> models.LoginMethods:
        """How people can log in."""
        return await self._client.transport.json(operations.get_auth())

    async def login(self, email: str, password: str) -> models.LoggedIn:
        """Log in. Pass the answer's `token` to a new client as `token=`."""
        call = operations.post_auth_login({"email": email, "password": password})
        return await self._client.transport.json(call)

    async def exchange_code(self, code: str, verifier: str) -> models.LoggedIn:
        """Exchange the code of a login at an identity provider for a session."""
        call = operations.post_auth_oidc_token({"code": code, "verifier": verifier})
        return await self._client.transport.json(call)

    async def use_link(self, token: str) -> models.LoggedIn:
        """Log in with a one-time link: the part after the `#`."""
        return await self._client.transport.json(operations.post_auth_link({"token": token}))

    async def make_link(self) -> models.SignInLink:
        """Make a link that logs this person in once, for a browser."""
        return await self._client.transport.json(operations.post_auth_links())

    async def logout(self) -> None:
        """End the session of this client."""
        await self._client.transport.empty(operations.post_auth_logout())

    async def set_up(
        self, email: str, password: str, *, name: Optional[str] = None
    ) -> models.LoggedIn:
        """Make the first account. It needs an API key of the server's first workspace."""
        body: models.SetUp = {"email": email, "password": password}
        if name is not None:
            body["name"] = name
        return await self._client.transport.json(operations.post_auth_setup(body))

    async def register(
        self, invite: str, password: str, *, name: Optional[str] = None
    ) -> models.LoggedIn:
        """Make an account with an invite."""
        body: models.Register = {"invite": invite, "password": password}
        if name is not None:
            body["name"] = name
        return await self._client.transport.json(operations.post_auth_register(body))

    async def change_password(self, current: str, new: str) -> models.LoggedIn:
        """Change the password. All sessions end, and this answer is a new one."""
        call = operations.post_auth_password({"current_password": current, "new_password": new})
        return await self._client.transport.json(call)

    async def request_reset(self, email: str) -> None:
        """Ask for a link to set a new password, by e-mail."""
        await self._client.transport.empty(operations.post_auth_reset_request({"email": email}))

    async def reset_password(self, token: str, password: str) -> None:
        """Set a new password with the secret of a reset link."""
        call = operations.post_auth_reset({"token": token, "password": password})
        await self._client.transport.empty(call)

    async def sessions(self) -> List[models.LoginSession]:
        """The caller's sessions, newest first."""
        return list_of(await self._client.transport.json(operations.get_auth_sessions()), "items")

    async def end_session(self, session_id: str) -> None:
        await self._client.transport.empty(operations.delete_auth_sessions_session(session_id))


class AsyncServerAPI:
    """The server itself."""

    def __init__(self, client: AsyncPandaStack) -> None:
        self._client = client

    async def health(self) -> models.Health:
        """Whether the server works. A server that does not raises `ServerError`."""
        return await self._client.transport.json(operations.get_healthz())

    async def version(self) -> models.Version:
        """The version of the server."""
        return await self._client.transport.json(operations.get_root_version())

    async def host_version(self) -> models.Version:
        """The version of what runs the sandboxes."""
        return await self._client.transport.json(operations.get_version())

    async def metrics(self) -> str:
        """Metrics for Prometheus."""
        return await self._client.transport.text(operations.get_metrics())

    async def host_audit(self) -> models.Audit:
        """Compare what exists on the host with what should exist."""
        return await self._client.transport.json(operations.get_host_audit())

    async def boot_stats(self, *, limit: Optional[int] = None) -> models.BootStats:
        """Statistics of start times."""
        return await self._client.transport.json(operations.get_stats_boot(limit=limit))

    async def languages(self) -> List[str]:
        """The languages of code contexts."""
        answer = await self._client.transport.json(operations.get_repl_languages())
        return list_of(answer, "languages")

    async def mcp(self, message: Mapping[str, Any]) -> Any:
        """Send a message of the Model Context Protocol to the workspace's tools."""
        return await self._client.transport.json(operations.post_mcp(dict(message)))

    async def usage_over_time(
        self,
        *,
        start: Optional[str] = None,
        end: Optional[str] = None,
        range: Optional[str] = None,
        step: Any = None,
    ) -> models.MetricSeries:
        """What all sandboxes of the workspace used, as series over time."""
        call = operations.get_metrics_overview(from_=start, to=end, range=range, step=step)
        return await self._client.transport.json(call)
