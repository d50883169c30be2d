"""The asynchronous classes under short names.

from pandastack import AsyncPandaStack, AsyncSandbox
"""

from __future__ import annotations

from ._async.client import AsyncPandaStack, get_default_client, set_default_client
from ._async.code import AsyncCodeContext
from ._async.commands import AsyncCommandStream, AsyncSandboxCommands
from ._async.copies import AsyncForkTree
from ._async.databases import AsyncDatabase
from ._async.explore import (
    AsyncBranchOutcome,
    AsyncCandidate,
    AsyncExploreError,
    AsyncExploreResult,
    explore,
)
from ._async.filesystem import AsyncSandboxFilesystem
from ._async.processes import AsyncProcess, AsyncSandboxProcesses
from ._async.sandbox import AsyncSandbox
from ._async.sockets import AsyncCommandChannel, AsyncTerminal
from ._async.volumes import AsyncVolume

AsyncClient = AsyncPandaStack

__all__ = [
    "AsyncBranchOutcome",
    "AsyncCandidate",
    "AsyncClient",
    "AsyncCodeContext",
    "AsyncCommandChannel",
    "AsyncCommandStream",
    "AsyncDatabase",
    "AsyncExploreError",
    "AsyncExploreResult",
    "AsyncForkTree",
    "AsyncPandaStack",
    "AsyncProcess",
    "AsyncSandbox",
    "AsyncSandboxCommands",
    "AsyncSandboxFilesystem",
    "AsyncSandboxProcesses",
    "AsyncTerminal",
    "AsyncVolume",
    "explore",
    "get_default_client",
    "set_default_client",
]
