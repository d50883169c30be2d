"""Sandboxes, and what they give back."""

from __future__ import annotations

from ._results import ExecResult, Execution, FileChange, FileContent, FileInfo, OutputChunk, Result
from ._sync.client import get_default_client, set_default_client
from ._sync.code import CodeContext
from ._sync.commands import CommandStream, SandboxCommands
from ._sync.copies import ForkTree
from ._sync.filesystem import SandboxFilesystem
from ._sync.processes import Process, SandboxProcesses
from ._sync.sandbox import Sandbox
from ._sync.sockets import CommandChannel, Terminal

__all__ = [
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
    "get_default_client",
    "set_default_client",
]
