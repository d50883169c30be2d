"""Every operation of the API is reached by a public method, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple, get_type_hints

import httpx
import pytest

from pandastack import AsyncPandaStack, AsyncSandbox, CommandStream, PandaStack, Sandbox
from pandastack._core import operations
from pandastack._core.call import Call

from .standin import KEY, sandbox

if TYPE_CHECKING:
    from pandastack._core.call import SocketCall

OPENAPI = Path(__file__).parents[3] / "docs" / "openapi.json"

ID = "sb-1"
ORG = "org-1"

# How each operation is reached: a name, and what to call. `c` is a client and `s` a sandbox.
# Some methods read their answer, so they are given one.
Reach = Tuple[str, Callable[[Any, Any], Any]]
PROCESS: Dict[str, Any] = {"id": "prc_1", "status": "running", "cmd": "x", "pid": 1}

METHODS: Dict[str, Reach] = {
    # Account
    "get_api_keys": ("api_keys.list", lambda c, s: c.api_keys.list()),
    "post_api_keys": ("api_keys.create", lambda c, s: c.api_keys.create("ci")),
    "delete_api_keys_key": ("api_keys.revoke", lambda c, s: c.api_keys.revoke("key_1")),
    "get_audit": ("audit.list", lambda c, s: c.audit.list()),
    "get_audit_export": ("audit.export", lambda c, s: c.audit.export()),
    "get_events": ("events.list", lambda c, s: c.events.list()),
    "get_events_stream": ("events.follow", lambda c, s: first(c.events.follow())),
    "get_me": ("me", lambda c, s: c.me()),
    "post_me_current_org": ("orgs.switch", lambda c, s: c.orgs.switch(ORG)),
    "get_me_tokens": ("tokens.list", lambda c, s: c.tokens.list()),
    "post_me_tokens": ("tokens.create", lambda c, s: c.tokens.create("ci")),
    "delete_me_tokens_prefix": ("tokens.revoke", lambda c, s: c.tokens.revoke("pds_1")),
    # Logins
    "get_auth": ("auth.methods", lambda c, s: c.auth.methods()),
    "post_auth_login": ("auth.login", lambda c, s: c.auth.login("a@b.c", "pw")),
    "post_auth_link": ("auth.use_link", lambda c, s: c.auth.use_link("psl_1")),
    "post_auth_links": ("auth.make_link", lambda c, s: c.auth.make_link()),
    "post_auth_logout": ("auth.logout", lambda c, s: c.auth.logout()),
    "post_auth_oidc_token": ("auth.exchange_code", lambda c, s: c.auth.exchange_code("c", "v")),
    "post_auth_password": (
        "auth.change_password",
        lambda c, s: c.auth.change_password("old", "new"),
    ),
    "post_auth_register": ("auth.register", lambda c, s: c.auth.register("inv", "pw")),
    "post_auth_reset": ("auth.reset_password", lambda c, s: c.auth.reset_password("t", "pw")),
    "post_auth_reset_request": (
        "auth.request_reset",
        lambda c, s: c.auth.request_reset("a@b.c"),
    ),
    "get_auth_sessions": ("auth.sessions", lambda c, s: c.auth.sessions()),
    "delete_auth_sessions_session": (
        "auth.end_session",
        lambda c, s: c.auth.end_session("ses_1"),
    ),
    "post_auth_setup": ("auth.set_up", lambda c, s: c.auth.set_up("a@b.c", "pw")),
    # Bills and usage
    "get_billing": ("billing.show", lambda c, s: c.billing.show()),
    "post_billing_sync": ("billing.sync", lambda c, s: c.billing.sync()),
    "get_pricing": ("billing.pricing", lambda c, s: c.billing.pricing()),
    "get_quotas": ("billing.quotas", lambda c, s: c.billing.quotas()),
    "get_usage": ("billing.usage", lambda c, s: c.billing.usage(by="day")),
    "get_usage_export": ("billing.export_usage", lambda c, s: c.billing.export_usage()),
    # The server
    "get_healthz": ("server.health", lambda c, s: c.server.health()),
    "get_root_version": ("server.version", lambda c, s: c.server.version()),
    "get_version": ("server.host_version", lambda c, s: c.server.host_version()),
    "get_metrics": ("server.metrics", lambda c, s: c.server.metrics()),
    "get_metrics_overview": (
        "server.usage_over_time",
        lambda c, s: c.server.usage_over_time(range="1h"),
    ),
    "get_host_audit": ("server.host_audit", lambda c, s: c.server.host_audit()),
    "get_stats_boot": ("server.boot_stats", lambda c, s: c.server.boot_stats()),
    "get_repl_languages": ("server.languages", lambda c, s: c.server.languages()),
    "post_mcp": ("server.mcp", lambda c, s: c.server.mcp({"jsonrpc": "2.0"})),
    # Databases
    "get_databases": ("databases.list", lambda c, s: c.databases.list()),
    "post_databases": ("databases.create", lambda c, s: c.databases.create(wait=False)),
    "get_databases_id": ("databases.get", lambda c, s: c.databases.get("db")),
    "delete_databases_id": ("databases.delete", lambda c, s: c.databases.delete("db")),
    "patch_databases_id": (
        "databases.update",
        lambda c, s: c.databases.update("db", always_on=True),
    ),
    "post_databases_id_branches": (
        "databases.branch",
        lambda c, s: c.databases.branch("db", wait=False),
    ),
    "get_databases_id_backups": ("databases.backups", lambda c, s: c.databases.backups("db")),
    "post_databases_id_backups": ("databases.backup", lambda c, s: c.databases.backup("db")),
    "post_databases_id_clone": (
        "databases.clone",
        lambda c, s: c.databases.clone("db", wait=False),
    ),
    "get_databases_id_diff": ("databases.diff", lambda c, s: c.databases.diff("db", "other")),
    "post_databases_id_failover": (
        "databases.failover",
        lambda c, s: c.databases.failover("db"),
    ),
    "post_databases_id_reset": (
        "databases.reset",
        lambda c, s: c.databases.reset("db", wait=False),
    ),
    "post_databases_id_restart": (
        "databases.restart",
        lambda c, s: c.databases.restart("db", wait=False),
    ),
    "post_databases_id_verify_backup": (
        "databases.verify_backup",
        lambda c, s: c.databases.verify_backup("db", wait=False),
    ),
    "get_databases_id_connection": (
        "databases.connection",
        lambda c, s: c.databases.connection("db"),
    ),
    "get_databases_id_logs": ("databases.logs", lambda c, s: c.databases.logs("db")),
    "post_databases_id_reset_credentials": (
        "databases.reset_credentials",
        lambda c, s: c.databases.reset_credentials("db"),
    ),
    "get_databases_id_stats": ("databases.stats", lambda c, s: c.databases.stats("db")),
    "post_databases_id_wake": ("databases.wake", lambda c, s: c.databases.wake("db")),
    # Organisations
    "get_orgs": ("orgs.list", lambda c, s: c.orgs.list()),
    "post_orgs": ("orgs.create", lambda c, s: c.orgs.create("Team")),
    "get_orgs_org": ("orgs.get", lambda c, s: c.orgs.get(ORG)),
    "patch_orgs_org": ("orgs.rename", lambda c, s: c.orgs.rename(ORG, "New")),
    "delete_orgs_org": ("orgs.delete", lambda c, s: c.orgs.delete(ORG, confirm="team")),
    "get_orgs_invites_token": ("orgs.show_invite", lambda c, s: c.orgs.show_invite("t")),
    "post_orgs_invites_token_accept": (
        "orgs.accept_invite",
        lambda c, s: c.orgs.accept_invite("t"),
    ),
    "get_orgs_org_billing": ("orgs.bill", lambda c, s: c.orgs.bill(ORG)),
    "post_orgs_org_billing_checkout": (
        "orgs.checkout",
        lambda c, s: c.orgs.checkout(ORG, "pro"),
    ),
    "post_orgs_org_billing_portal": (
        "orgs.billing_portal",
        lambda c, s: c.orgs.billing_portal(ORG),
    ),
    "put_orgs_org_budget": ("orgs.set_budget", lambda c, s: c.orgs.set_budget(ORG, 10)),
    "delete_orgs_org_budget": ("orgs.remove_budget", lambda c, s: c.orgs.remove_budget(ORG)),
    "get_orgs_org_invites": ("orgs.invites", lambda c, s: c.orgs.invites(ORG)),
    "delete_orgs_org_invites_invite": (
        "orgs.withdraw_invite",
        lambda c, s: c.orgs.withdraw_invite(ORG, "i"),
    ),
    "post_orgs_org_leave": ("orgs.leave", lambda c, s: c.orgs.leave(ORG)),
    "get_orgs_org_members": ("orgs.members", lambda c, s: c.orgs.members(ORG)),
    "post_orgs_org_members": ("orgs.invite", lambda c, s: c.orgs.invite(ORG, "a@b.c")),
    "delete_orgs_org_members_user": (
        "orgs.remove_member",
        lambda c, s: c.orgs.remove_member(ORG, "u"),
    ),
    "patch_orgs_org_members_user": (
        "orgs.set_role",
        lambda c, s: c.orgs.set_role(ORG, "u", "admin"),
    ),
    "post_orgs_org_transfer": ("orgs.transfer", lambda c, s: c.orgs.transfer(ORG, "u")),
    "get_orgs_org_usage": ("orgs.usage", lambda c, s: c.orgs.usage(ORG)),
    "get_orgs_org_usage_export": ("orgs.export_usage", lambda c, s: c.orgs.export_usage(ORG)),
    # Sandboxes
    "get_sandboxes": ("sandboxes.list", lambda c, s: c.sandboxes.list()),
    "post_sandboxes": ("sandboxes.create", lambda c, s: c.sandboxes.create("mini")),
    "delete_sandboxes_id": ("Sandbox.kill", lambda c, s: s.kill()),
    "get_sandboxes_id": ("Sandbox.refresh", lambda c, s: s.refresh()),
    "get_sandboxes_id_egress": ("Sandbox.egress", lambda c, s: s.egress()),
    "put_sandboxes_id_egress": ("Sandbox.set_egress", lambda c, s: s.set_egress(["a.b"])),
    "get_sandboxes_id_diff": ("Sandbox.diff", lambda c, s: s.diff("sb-2")),
    "get_sandboxes_id_events": ("Sandbox.events", lambda c, s: s.events()),
    "get_sandboxes_id_events_stream": ("Sandbox.follow_events", lambda c, s: s.follow_events()),
    "post_sandboxes_id_exec": ("Sandbox.exec", lambda c, s: s.exec("true")),
    "get_sandboxes_id_exec_pty": ("Sandbox.terminal", lambda c, s: s.terminal()),
    "post_sandboxes_id_exec_stream": (
        "Sandbox.commands.stream",
        lambda c, s: s.commands.stream("true"),
    ),
    "get_sandboxes_id_exec_ws": ("Sandbox.channel", lambda c, s: s.channel()),
    "post_sandboxes_id_fork": ("Sandbox.fork", lambda c, s: s.fork()),
    "post_sandboxes_id_fork_tree": ("Sandbox.fork_tree", lambda c, s: s.fork_tree(2)),
    "delete_sandboxes_id_fs": ("Sandbox.filesystem.remove", lambda c, s: s.files.remove("/a")),
    "get_sandboxes_id_fs": ("Sandbox.filesystem.read", lambda c, s: s.files.read("/a")),
    "put_sandboxes_id_fs": ("Sandbox.filesystem.write", lambda c, s: s.files.write("/a", "x")),
    "post_sandboxes_id_fs_chmod": (
        "Sandbox.filesystem.chmod",
        lambda c, s: s.files.chmod("/a", 0o755),
    ),
    "get_sandboxes_id_fs_dir": ("Sandbox.filesystem.listdir", lambda c, s: s.files.listdir("/")),
    "post_sandboxes_id_fs_mkdir": ("Sandbox.filesystem.mkdir", lambda c, s: s.files.mkdir("/a")),
    "post_sandboxes_id_fs_move": (
        "Sandbox.filesystem.move",
        lambda c, s: s.files.move("/a", "/b"),
    ),
    "get_sandboxes_id_fs_stat": ("Sandbox.filesystem.stat", lambda c, s: s.files.stat("/a")),
    "get_sandboxes_id_fs_tar": ("Sandbox.filesystem.read_tar", lambda c, s: s.files.read_tar("/a")),
    "put_sandboxes_id_fs_tar": (
        "Sandbox.filesystem.write_tar",
        lambda c, s: s.files.write_tar("/a", b""),
    ),
    "get_sandboxes_id_fs_watch": ("Sandbox.filesystem.watch", lambda c, s: s.files.watch("/a")),
    "post_sandboxes_id_hibernate": ("Sandbox.hibernate", lambda c, s: s.hibernate()),
    "get_sandboxes_id_lifecycle": ("Sandbox.lifecycle", lambda c, s: s.lifecycle()),
    "patch_sandboxes_id_lifecycle": ("Sandbox.set_ttl", lambda c, s: s.set_ttl(60)),
    "get_sandboxes_id_logs": ("Sandbox.logs", lambda c, s: s.logs()),
    "get_sandboxes_id_logs_stream": ("Sandbox.logs", lambda c, s: s.logs(follow=True)),
    "post_sandboxes_id_mcp": ("Sandbox.mcp", lambda c, s: s.mcp({"jsonrpc": "2.0"})),
    "get_sandboxes_id_metrics": ("Sandbox.metrics", lambda c, s: s.metrics()),
    "get_metrics_sandbox_id": ("Sandbox.usage_over_time", lambda c, s: s.usage_over_time()),
    "post_sandboxes_id_pause": ("Sandbox.pause", lambda c, s: s.pause()),
    "get_sandboxes_id_ports": ("Sandbox.ports", lambda c, s: s.ports()),
    "post_sandboxes_id_ports": ("Sandbox.declare_port", lambda c, s: s.declare_port(80)),
    "delete_sandboxes_id_ports_port": ("Sandbox.forget_port", lambda c, s: s.forget_port(80)),
    "post_sandboxes_id_preview_token": (
        "Sandbox.create_preview",
        lambda c, s: s.create_preview(80),
    ),
    "get_sandboxes_id_processes": ("Sandbox.processes.list", lambda c, s: s.processes.list()),
    "post_sandboxes_id_processes": ("Sandbox.spawn", lambda c, s: s.spawn("true")),
    "delete_sandboxes_id_processes_process": ("Process.kill", lambda c, s: process(s).kill()),
    "get_sandboxes_id_processes_process": (
        "Sandbox.processes.get",
        lambda c, s: s.processes.get("prc_1"),
    ),
    "get_sandboxes_id_processes_process_output": (
        "Process.output",
        lambda c, s: process(s).output(),
    ),
    "get_sandboxes_id_processes_process_output_stream": (
        "Process.follow",
        lambda c, s: process(s).follow(),
    ),
    "post_sandboxes_id_processes_process_signal": (
        "Process.signal",
        lambda c, s: process(s).signal("INT"),
    ),
    "post_sandboxes_id_processes_process_stdin": (
        "Process.write",
        lambda c, s: process(s).write("x"),
    ),
    "post_sandboxes_id_promote": ("Sandbox.promote", lambda c, s: s.promote()),
    "post_sandboxes_id_repl": ("Sandbox.run_code", lambda c, s: s.run_code("1")),
    "get_sandboxes_id_repl_sessions": ("Sandbox.code_contexts", lambda c, s: s.code_contexts()),
    "post_sandboxes_id_repl_sessions": (
        "Sandbox.create_code_context",
        lambda c, s: s.create_code_context(),
    ),
    "delete_sandboxes_id_repl_sessions_session": (
        "CodeContext.close",
        lambda c, s: close(context(s)),
    ),
    "post_sandboxes_id_repl_sessions_session_run": (
        "CodeContext.run_code",
        lambda c, s: context(s).run_code("1"),
    ),
    "post_sandboxes_id_resume": ("Sandbox.resume", lambda c, s: s.resume()),
    "post_sandboxes_id_snapshots": ("Sandbox.snapshot", lambda c, s: s.snapshot()),
    "get_sandboxes_id_ssh": ("Sandbox.ssh", lambda c, s: s.ssh()),
    "get_sandboxes_id_tree": ("Sandbox.tree", lambda c, s: s.tree()),
    "post_sandboxes_id_wake": ("Sandbox.wake", lambda c, s: s.wake()),
    # Snapshots, templates, volumes, webhooks
    "get_snapshots": ("snapshots.list", lambda c, s: c.snapshots.list()),
    "delete_snapshots_snapshot": ("snapshots.delete", lambda c, s: c.snapshots.delete("snp_1")),
    "get_snapshots_snapshot": ("snapshots.get", lambda c, s: c.snapshots.get("snp_1")),
    "get_templates": ("templates.list", lambda c, s: c.templates.list()),
    "post_templates_build": (
        "templates.build_from_dockerfile",
        lambda c, s: c.templates.build_from_dockerfile("t", "FROM base\n"),
    ),
    "get_templates_builds": ("templates.builds", lambda c, s: c.templates.builds()),
    "get_templates_builds_build": (
        "templates.get_build",
        lambda c, s: c.templates.get_build("bld_1"),
    ),
    "get_templates_builds_build_logs": (
        "templates.build_logs",
        lambda c, s: c.templates.build_logs("bld_1"),
    ),
    "delete_templates_name": ("templates.delete", lambda c, s: c.templates.delete("t")),
    "get_templates_name": ("templates.get", lambda c, s: c.templates.get("t")),
    "get_volumes": ("volumes.list", lambda c, s: c.volumes.list()),
    "post_volumes": ("volumes.create", lambda c, s: c.volumes.create("v", 256)),
    "delete_volumes_name": ("volumes.delete", lambda c, s: c.volumes.delete("v")),
    "get_volumes_name": ("volumes.get", lambda c, s: c.volumes.get("v")),
    "patch_volumes_name": ("volumes.grow", lambda c, s: c.volumes.grow("v", 512)),
    "get_webhooks": ("webhooks.list", lambda c, s: c.webhooks.list()),
    "post_webhooks": ("webhooks.create", lambda c, s: c.webhooks.create("https://a.b")),
    "get_webhooks_dead_letters": ("webhooks.dead_letters", lambda c, s: c.webhooks.dead_letters()),
    "get_webhooks_deliveries_delivery": (
        "webhooks.delivery",
        lambda c, s: c.webhooks.delivery("dlv_1"),
    ),
    "post_webhooks_deliveries_delivery_replay": (
        "webhooks.replay",
        lambda c, s: c.webhooks.replay("dlv_1"),
    ),
    "delete_webhooks_webhook": ("webhooks.delete", lambda c, s: c.webhooks.delete("whk_1")),
    "get_webhooks_webhook": ("webhooks.get", lambda c, s: c.webhooks.get("whk_1")),
    "patch_webhooks_webhook": (
        "webhooks.update",
        lambda c, s: c.webhooks.update("whk_1", enabled=False),
    ),
    "get_webhooks_webhook_deliveries": (
        "webhooks.deliveries",
        lambda c, s: c.webhooks.deliveries("whk_1"),
    ),
    "post_webhooks_webhook_ping": ("webhooks.ping", lambda c, s: c.webhooks.ping("whk_1")),
    "post_webhooks_webhook_rotate_secret": (
        "webhooks.rotate_secret",
        lambda c, s: c.webhooks.rotate_secret("whk_1"),
    ),
}

# Operations that are another name of one above. The API document says so in each case.
SAME_AS = {
    "get_root_healthz": "get_healthz",
    "get_root_metrics": "get_metrics",
    "get_root_repl_languages": "get_repl_languages",
    "post_root_mcp": "post_mcp",
    "post_sandboxes_id_preview": "post_sandboxes_id_preview_token",
    "post_sandboxes_id_start": "post_sandboxes_id_wake",
    "post_sandboxes_id_stop": "post_sandboxes_id_hibernate",
}

# Requests to programs in sandboxes, pages for browsers, and what Stripe sends.
NOT_FOR_CLIENTS = (
    "/proxy/",
    "/v1/p/",
    "/docs",
    "/openapi.json",
    "/v1/webhooks/stripe",
    "/oidc",
    "/.well-known/",
)

# One answer that has every field that a method reads.
ANSWER: Dict[str, Any] = {
    **sandbox(id=ID),
    "name": "n",
    "size_mb": 1,
    "prefix": "pds_1",
    "org_id": ORG,
    "url": "https://a.b",
    "bytes": 1,
    "entries": [],
    "events": [],
    "language": "python",
    "session_id": "ctx_1",
    "status": "running",
    "egress_allowlist": [],
    "logs": "",
    "stdout": "",
    "stderr": "",
    "exit_code": 0,
    "is_dir": False,
    "id": ID,
}


def process(box: Any) -> Any:
    from pandastack.aio import AsyncProcess
    from pandastack.sandbox import Process

    kind: Any = AsyncProcess if isinstance(box, AsyncSandbox) else Process
    return kind(box, dict(PROCESS))


def context(box: Any) -> Any:
    from pandastack import AsyncCodeContext, CodeContext

    kind: Any = AsyncCodeContext if isinstance(box, AsyncSandbox) else CodeContext
    return kind(box, "ctx_1")


def first(stream: Any) -> Any:
    """The first item of a stream without an end."""
    return stream.__anext__() if hasattr(stream, "__anext__") else next(stream)


def close(thing: Any) -> Any:
    return thing.aclose() if hasattr(thing, "aclose") else thing.close()


def all_operations() -> Dict[str, Callable[..., Call]]:
    found = inspect.getmembers(operations, inspect.isfunction)
    return {name: one for name, one in found if one.__module__ == operations.__name__}


def described(name: str) -> Call:
    """The request of an operation, with `x` for everything in its path."""
    operation = all_operations()[name]
    arguments: Dict[str, Any] = {}
    for parameter in inspect.signature(operation).parameters.values():
        if parameter.default is inspect.Parameter.empty:
            arguments[parameter.name] = {} if parameter.name == "body" else "x"
    return operation(**arguments)


def test_every_operation_has_a_method() -> None:
    known = set(METHODS) | set(SAME_AS)
    assert sorted(set(all_operations()) - known) == [], "these operations have no public method"
    assert sorted(known - set(all_operations())) == [], "these operations do not exist"


def test_aliases_are_documented_as_such() -> None:
    for name, target in SAME_AS.items():
        text = f"{all_operations()[name].__doc__} {all_operations()[target].__doc__}"
        assert "same as" in text, f"{name} is not documented as an alias of {target}: {text}"


def test_the_operations_are_those_of_the_document() -> None:
    document: Dict[str, Any] = json.loads(OPENAPI.read_text("utf-8"))
    missing: List[str] = []
    described_paths = {
        (call.method, re.sub(r"(?<=/)x(?=/|$)", "{}", call.path))
        for call in map(described, all_operations())
    }
    for path, methods in document["paths"].items():
        for method in methods:
            key = (method.upper(), re.sub(r"\{[^}]*\}", "{}", path))
            if method in {"get", "post", "put", "patch", "delete"} and key not in described_paths:
                missing.append(f"{method.upper()} {path}")
    assert [one for one in missing if not any(part in one for part in NOT_FOR_CLIENTS)] == []


# These answer with a list.
LISTS = ("/sessions", "/processes", "/sandboxes", "/builds", "/templates", "/ports", "/volumes")


class Recorder:
    """Answers every request, and remembers it."""

    def __init__(self) -> None:
        self.seen: List[Tuple[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append((request.method, request.url.path))
        path = request.url.path
        if request.method == "GET" and path.endswith(LISTS):
            return httpx.Response(200, json=[])
        if "text/event-stream" in request.headers["accept"]:
            name = "done" if path.endswith("/logs") and "builds" in path else "exit"
            name = "reset" if path == "/v1/events" else name
            ended = f'event: {name}\ndata: {{"exit_code":0,"cursor":"c-1"}}\n\n'
            return httpx.Response(200, content=ended.encode())
        if path.endswith("/audit/export"):
            return httpx.Response(200, content=b"{}\n")
        return httpx.Response(200, json={**ANSWER, "snapshots": []})


def expected(name: str) -> Tuple[str, str]:
    call = described(name)
    return call.method, re.sub(r"(?<=/)x(?=/|$)", "[^/]+", call.path)


def check(name: str, seen: List[Tuple[str, str]]) -> None:
    method, pattern = expected(name)
    assert any(one == method and re.fullmatch(pattern, path) for one, path in seen), (
        f"{METHODS[name][0]} sent {seen}, not {method} {pattern}"
    )


def run(value: Any) -> Optional[Any]:
    if inspect.isgenerator(value) or isinstance(value, CommandStream):
        return list(value)
    return value


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_sends_its_operation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    http = httpx.Client(transport=httpx.MockTransport(recorder))
    client = PandaStack("http://server", KEY, http_client=http)
    box = Sandbox.from_dict(sandbox(id=ID), client)

    def socket(call: SocketCall) -> None:
        recorder.seen.append((call.method, call.path))

    monkeypatch.setattr(client.transport, "socket", socket)
    run(METHODS[name][1](client, box))
    check(name, recorder.seen)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_an_asynchronous_method_sends_its_operation(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()

    async def main() -> None:
        http = httpx.AsyncClient(transport=httpx.MockTransport(recorder))
        client = AsyncPandaStack("http://server", KEY, http_client=http)
        box = AsyncSandbox.from_dict(sandbox(id=ID), client)

        async def socket(call: SocketCall) -> None:
            recorder.seen.append((call.method, call.path))

        monkeypatch.setattr(client.transport, "socket", socket)
        value = METHODS[name][1](client, box)
        if hasattr(value, "__aiter__"):
            async for _ in value:
                pass
        else:
            await value
        await http.aclose()

    asyncio.run(main())
    check(name, recorder.seen)


def test_both_flavours_have_the_same_methods() -> None:
    renamed = {"aclose": "close"}
    for sync_kind, async_kind in ((Sandbox, AsyncSandbox), (PandaStack, AsyncPandaStack)):
        theirs = {renamed.get(name, name) for name in dir(async_kind) if not name.startswith("_")}
        ours = {name for name in dir(sync_kind) if not name.startswith("_")}
        assert ours == theirs


def test_annotations_can_be_resolved() -> None:
    assert get_type_hints(Call)["method"] is str
