"""Python SDK for PandaStack: microVM sandboxes for agents, notebooks and tests.

    from pandastack import Sandbox

    with Sandbox(template="code-interpreter") as sandbox:
        print(sandbox.exec("python3 -c 'print(2 ** 10)'").stdout)

`PANDASTACK_API_KEY` and `PANDASTACK_API` name the key and the server. `PandaStack` is a client with
settings of its own, and `AsyncPandaStack` and `AsyncSandbox` are for asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._builds import Template, TemplateBuild, Token
from ._queries import QueryColumn, QueryResult
from ._results import (
    ExecResult,
    Execution,
    FileChange,
    FileContent,
    FileInfo,
    OutputChunk,
    Result,
)
from ._retry import CreateRetryEvent
from ._sync.account import ApiKeysAPI, AuditAPI, AuthAPI, BillingAPI, OrgsAPI, ServerAPI
from ._sync.client import PandaStack, get_default_client, set_default_client
from ._sync.code import CodeContext
from ._sync.commands import CommandStream, SandboxCommands
from ._sync.copies import ForkTree
from ._sync.databases import Database, DatabasesAPI
from ._sync.events import EventsAPI
from ._sync.explore import BranchOutcome, Candidate, ExploreError, ExploreResult, explore
from ._sync.filesystem import SandboxFilesystem
from ._sync.platform import AppsAPI, FunctionsAPI, SchedulesAPI
from ._sync.processes import Process, SandboxProcesses
from ._sync.sandbox import Sandbox
from ._sync.snapshots import SnapshotsAPI
from ._sync.sockets import CommandChannel, Terminal
from ._sync.templates import TemplatesAPI
from ._sync.volumes import Volume, VolumesAPI
from ._sync.webhooks import WebhooksAPI
from ._version import __version__
from .exceptions import (
    APIConnectionError,
    AuthError,
    BadRequestError,
    CapacityError,
    CommandFailed,
    ConflictError,
    ConnectionError,
    CreateCancelled,
    ExecInterrupted,
    ForbiddenError,
    NotFoundError,
    PandastackError,
    QueryError,
    RateLimitError,
    RequestTimeout,
    SandboxTimeout,
    ServerError,
    SignatureError,
    TemplateBuildError,
)

Client = PandaStack

# These are imported at their first use, so that programs without them start faster.
if TYPE_CHECKING:
    from .aio import (
        AsyncBranchOutcome,
        AsyncCandidate,
        AsyncClient,
        AsyncCodeContext,
        AsyncCommandChannel,
        AsyncCommandStream,
        AsyncDatabase,
        AsyncExploreError,
        AsyncExploreResult,
        AsyncForkTree,
        AsyncPandaStack,
        AsyncProcess,
        AsyncSandbox,
        AsyncTerminal,
        AsyncVolume,
    )
    from .cma import CmaConfig, Worker


def __getattr__(name: str) -> Any:
    if name in {"CmaConfig", "Worker"}:
        from . import cma

        return getattr(cma, name)
    if name.startswith("Async") and name in __all__:
        from . import aio

        return getattr(aio, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "__version__",
    # Clients
    "AsyncClient",
    "AsyncPandaStack",
    "Client",
    "CreateRetryEvent",
    "PandaStack",
    "get_default_client",
    "set_default_client",
    # Sandboxes
    "AsyncCodeContext",
    "AsyncCommandChannel",
    "AsyncCommandStream",
    "AsyncForkTree",
    "AsyncProcess",
    "AsyncSandbox",
    "AsyncTerminal",
    "AsyncVolume",
    "CodeContext",
    "CommandChannel",
    "CommandStream",
    "ExecResult",
    "Execution",
    "FileChange",
    "FileContent",
    "FileInfo",
    "ForkTree",
    "OutputChunk",
    "Process",
    "Result",
    "Sandbox",
    "SandboxCommands",
    "SandboxFilesystem",
    "SandboxProcesses",
    "Terminal",
    "Volume",
    # Best of several attempts
    "AsyncBranchOutcome",
    "AsyncCandidate",
    "AsyncExploreError",
    "AsyncExploreResult",
    "BranchOutcome",
    "Candidate",
    "ExploreError",
    "ExploreResult",
    "explore",
    # Databases
    "AsyncDatabase",
    "Database",
    "DatabasesAPI",
    "QueryColumn",
    "QueryResult",
    # The rest of the platform
    "ApiKeysAPI",
    "AppsAPI",
    "AuditAPI",
    "AuthAPI",
    "BillingAPI",
    "CmaConfig",
    "EventsAPI",
    "FunctionsAPI",
    "OrgsAPI",
    "SchedulesAPI",
    "ServerAPI",
    "SnapshotsAPI",
    "Template",
    "TemplateBuild",
    "TemplatesAPI",
    "Token",
    "VolumesAPI",
    "WebhooksAPI",
    "Worker",
    # Exceptions
    "APIConnectionError",
    "AuthError",
    "BadRequestError",
    "CapacityError",
    "CommandFailed",
    "ConflictError",
    "ConnectionError",
    "CreateCancelled",
    "ExecInterrupted",
    "ForbiddenError",
    "NotFoundError",
    "PandastackError",
    "QueryError",
    "RateLimitError",
    "RequestTimeout",
    "SandboxTimeout",
    "ServerError",
    "SignatureError",
    "TemplateBuildError",
]
