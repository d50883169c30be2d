"""A worker for Claude Managed Agents: each session of an agent runs in a sandbox of its own.

    python -m pandastack cma --environment-id env_… --environment-key …

The worker asks the queue of a self-hosted environment for work. For each session it takes the
sandbox of the session, or makes one, and starts the runner in it. When the runner ends, the worker
saves the session's output files, and lets the sandbox sleep until the next turn.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from ._config import DEFAULT_API_URL
from ._sync.client import PandaStack
from ._wire import fields_of
from .exceptions import BadRequestError, NotFoundError, PandastackError

if TYPE_CHECKING:
    import httpx

    from ._sync.sandbox import Sandbox

ANTHROPIC_VERSION = "2023-06-01"
ANTHROPIC_BETA = "managed-agents-2026-04-01"

_ANTHROPIC_API = "https://api.anthropic.com"
_POLL_MS = 999
_QUEUE_SECONDS = 30.0
_WATCH_SECONDS = 5.0
_TTL_TOO_LONG = "ttl_seconds exceeds tier maximum"

_SCRIPT = "/tmp/cma-launch.sh"
_EXIT_FILE = "/tmp/cma-runner.exit"
_LOG_FILE = "/var/log/cma-runner.log"
_OUTPUTS = "/mnt/session/outputs"
_RUNNER = "ant beta:worker run"


def _default_worker_id() -> str:
    return os.environ.get("CMA_WORKER_ID") or f"pandastack-{socket.gethostname()}"


@dataclass
class CmaConfig:
    """The settings of a worker. The first three are required."""

    environment_id: str
    environment_key: str
    pandastack_token: str
    pandastack_api: str = DEFAULT_API_URL
    anthropic_api: str = _ANTHROPIC_API
    template: str = "claude-agent"
    # What happens to a sandbox between turns: `hibernate`, `running` or `delete`.
    on_idle: str = "hibernate"
    outputs_dir: Path = field(default_factory=lambda: Path("outputs"))
    sandbox_ttl_seconds: int = 3600
    max_session_seconds: int = 3600
    worker_id: str = field(default_factory=_default_worker_id)
    client_timeout: float = 60.0

    @classmethod
    def from_env(cls, **overrides: Any) -> CmaConfig:
        """Settings from the environment. Arguments that are not None come first."""
        get = os.environ.get
        found: Dict[str, Any] = {
            "environment_id": get("ANTHROPIC_ENVIRONMENT_ID", ""),
            "environment_key": get("ANTHROPIC_ENVIRONMENT_KEY", ""),
            "pandastack_token": get("PANDASTACK_API_KEY") or get("PANDASTACK_TOKEN", ""),
            "pandastack_api": get("PANDASTACK_API") or get("PANDASTACK_API_URL", DEFAULT_API_URL),
            "anthropic_api": get("ANTHROPIC_BASE_URL", _ANTHROPIC_API),
            "template": get("CMA_TEMPLATE", "claude-agent"),
            "on_idle": get("CMA_ON_IDLE", "hibernate"),
            "outputs_dir": Path(get("CMA_OUTPUTS_DIR", "outputs")),
            "sandbox_ttl_seconds": int(get("CMA_SANDBOX_TTL_SECONDS", "3600")),
            "max_session_seconds": int(get("CMA_MAX_SESSION_SECONDS", "3600")),
        }
        found.update({name: value for name, value in overrides.items() if value is not None})
        return cls(**found)

    def missing_required(self) -> List[str]:
        """The environment variables of required settings that are empty."""
        required = {
            "ANTHROPIC_ENVIRONMENT_ID": self.environment_id,
            "ANTHROPIC_ENVIRONMENT_KEY": self.environment_key,
            "PANDASTACK_API_KEY": self.pandastack_token,
        }
        return [name for name, value in required.items() if not value]


class Worker:
    """Takes sessions from the queue and runs each in a sandbox."""

    def __init__(
        self,
        config: CmaConfig,
        *,
        logger: Optional[Callable[[str], None]] = None,
    ) -> None:
        self.config = config
        self.log = logger or _print
        self._stopped = threading.Event()
        self._sessions: Dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Let `run` return. Runners in sandboxes go on."""
        self._stopped.set()

    def run(self, *, install_signal_handlers: bool = True) -> None:
        """Take work until `stop`, or until SIGINT or SIGTERM.

        Raises:
            ValueError: A required setting is missing.
        """
        missing = self.config.missing_required()
        if missing:
            raise ValueError(f"these settings are missing: {', '.join(missing)}")
        if install_signal_handlers and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._on_signal)
        self.config.outputs_dir.mkdir(parents=True, exist_ok=True)
        import httpx

        config = self.config
        with (
            PandaStack(
                config.pandastack_api, config.pandastack_token, config.client_timeout
            ) as client,
            httpx.Client(
                base_url=config.anthropic_api.rstrip("/"),
                headers=_queue_headers(config),
                timeout=_QUEUE_SECONDS,
            ) as http,
        ):
            queue = _Queue(http, config.environment_id)
            self.log(f"worker {config.worker_id} takes work of {config.environment_id}")
            self._take_work(queue, client)
        self.log("the worker has stopped; runners in sandboxes go on")

    def _on_signal(self, number: int, frame: object) -> None:
        del number, frame
        self.stop()

    def _take_work(self, queue: _Queue, client: PandaStack) -> None:
        import httpx

        failures = 0
        while not self._stopped.is_set():
            try:
                item = queue.poll()
                failures = 0
            except _KeyRefusedError:
                self.log("the environment key was refused: check ANTHROPIC_ENVIRONMENT_KEY")
                self.stop()
                return
            except httpx.HTTPError as error:
                failures += 1
                self.log(f"the queue cannot be read ({error}); trying again")
                self._stopped.wait(min(5.0, failures))
                continue
            if item is not None:
                self._start(item, queue, client)

    def _start(self, item: Dict[str, Any], queue: _Queue, client: PandaStack) -> None:
        work_id = str(item["id"])
        session_id = str(fields_of(item.get("data")).get("id") or "")
        if not session_id:
            self.log(f"work {work_id} has no session; ignored")
            return
        with self._lock:
            running = self._sessions.get(session_id)
            if running is not None and running.is_alive():
                self.log(f"session {session_id} is already active; work {work_id} ignored")
                return
        try:
            if not queue.claim(work_id):
                self.log(f"work {work_id} could not be claimed; ignored")
                return
            sandbox = self._sandbox_of(session_id, client)
            self._launch(sandbox, session_id, work_id)
        except (PandastackError, OSError, RuntimeError) as error:
            self.log(f"session {session_id} could not be started: {error}")
            return
        self.log(f"session {session_id} runs in sandbox {sandbox.id}")
        thread = threading.Thread(target=self._watch, args=(sandbox, session_id), daemon=True)
        with self._lock:
            self._sessions[session_id] = thread
        thread.start()

    def _sandbox_of(self, session_id: str, client: PandaStack) -> Sandbox:
        for sandbox in client.sandboxes.list():
            mine = sandbox.metadata.get("cma.session_id") == session_id
            if mine and sandbox.status not in {"deleted", "failed"}:
                try:
                    # Any command wakes a sandbox that sleeps.
                    sandbox.exec("true", timeout_seconds=60)
                    return sandbox
                except PandastackError as error:
                    self.log(f"sandbox {sandbox.id} cannot be used ({error}); making another one")
                    sandbox.close()
        metadata = {
            "cma.session_id": session_id,
            "cma.environment_id": self.config.environment_id,
        }
        template, seconds = self.config.template, self.config.sandbox_ttl_seconds
        try:
            return client.sandboxes.create(template, ttl_seconds=seconds, metadata=metadata)
        except BadRequestError as error:
            if _TTL_TOO_LONG not in str(error):
                raise
            self.log(f"the plan does not allow an idle limit of {seconds} s; using its default")
            return client.sandboxes.create(template, metadata=metadata)

    def _launch(self, sandbox: Sandbox, session_id: str, work_id: str) -> None:
        """Start the runner so that it outlives the command that starts it."""
        # The key is written to a file, because commands are logged.
        sandbox.filesystem.write(_SCRIPT, _launch_script(self.config, session_id, work_id))
        result = sandbox.exec(f"sh {_SCRIPT}; rm -f {_SCRIPT}", timeout_seconds=30)
        if not result.ok or "launched" not in result.stdout:
            raise RuntimeError(f"the runner did not start: {result.stderr[:300]}")

    def _watch(self, sandbox: Sandbox, session_id: str) -> None:
        ends = time.monotonic() + self.config.max_session_seconds
        while not self._stopped.wait(_WATCH_SECONDS):
            try:
                if time.monotonic() > ends:
                    self.log(f"session {session_id} takes too long; ending its runner")
                    sandbox.exec(f"pkill -f '{_RUNNER}' || true", timeout_seconds=15)
                    break
                code = sandbox.exec(f"cat {_EXIT_FILE} 2>/dev/null || true", timeout_seconds=15)
                if code.stdout.strip():
                    self.log(f"the runner of {session_id} exited with {code.stdout.strip()}")
                    break
            except NotFoundError:
                self.log(f"the sandbox of session {session_id} is gone")
                return
            except PandastackError as error:
                self.log(f"session {session_id}: {error}; trying again")
        try:
            saved = self._save_outputs(sandbox, session_id)
            self.log(f"session {session_id}: saved {saved} output files")
            self._rest(sandbox)
        except (PandastackError, OSError) as error:
            self.log(f"session {session_id}: {error}")

    def _save_outputs(self, sandbox: Sandbox, session_id: str) -> int:
        if not _is_plain_name(session_id):
            raise OSError(f"the session id {session_id!r} is not a valid directory name")
        if not sandbox.filesystem.exists(_OUTPUTS):
            return 0
        saved = 0
        for directory, _, files in sandbox.filesystem.walk(_OUTPUTS):
            parts = [part for part in directory[len(_OUTPUTS) :].split("/") if part]
            # Names come from the sandbox, so they must not lead out of the directory.
            if not all(_is_plain_name(part) for part in parts):
                continue
            for file in files:
                if _is_plain_name(file.name) and file.mode != "l":
                    target = self.config.outputs_dir.joinpath(session_id, *parts, file.name)
                    sandbox.filesystem.download(f"{directory}/{file.name}", target)
                    saved += 1
        return saved

    def _rest(self, sandbox: Sandbox) -> None:
        if self.config.on_idle == "delete":
            sandbox.kill()
        elif self.config.on_idle == "hibernate":
            sandbox.hibernate()


class _KeyRefusedError(Exception):
    pass


class _Queue:
    """The queue of an environment."""

    def __init__(self, http: httpx.Client, environment_id: str) -> None:
        self._http = http
        self._path = f"/v1/environments/{environment_id}/work"

    def poll(self) -> Optional[Dict[str, Any]]:
        """The next item; None if there is none."""
        answer = self._http.get(f"{self._path}/poll", params={"block_ms": _POLL_MS})
        if answer.status_code == 401:
            raise _KeyRefusedError
        if answer.status_code in {204, 404} or (answer.is_success and not answer.content):
            return None
        answer.raise_for_status()
        item: Optional[Dict[str, Any]] = answer.json()
        return item if item and item.get("id") else None

    def claim(self, work_id: str) -> bool:
        return self._http.post(f"{self._path}/{work_id}/ack").status_code == 200


def _queue_headers(config: CmaConfig) -> Dict[str, str]:
    return {
        "authorization": f"Bearer {config.environment_key}",
        "anthropic-version": ANTHROPIC_VERSION,
        "anthropic-beta": ANTHROPIC_BETA,
        "anthropic-worker-id": config.worker_id,
    }


def _launch_script(config: CmaConfig, session_id: str, work_id: str) -> str:
    variables = {
        "ANTHROPIC_ENVIRONMENT_ID": config.environment_id,
        "ANTHROPIC_ENVIRONMENT_KEY": config.environment_key,
        "ANTHROPIC_SESSION_ID": session_id,
        "ANTHROPIC_WORK_ID": work_id,
        "HOME": "/root",
        "MISE_CONFIG_DIR": "/opt/mise",
        "MISE_DATA_DIR": "/opt/mise",
    }
    run = f"{_RUNNER} --workdir /workspace --log-format json >>{_LOG_FILE} 2>&1"
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    lines += [
        "export PATH=/opt/mise/shims:$PATH",
        f"rm -f {_EXIT_FILE}",
        f"setsid sh -c '{run}; echo $? >{_EXIT_FILE}' </dev/null >/dev/null 2>&1 &",
        "echo launched",
    ]
    return "\n".join(["#!/bin/sh", *lines, ""])


def _is_plain_name(name: str) -> bool:
    return name not in {"", ".", ".."} and not any(mark in name for mark in "/\\\0")


def _print(text: str) -> None:
    now = datetime.now(timezone.utc).strftime("%H:%M:%S")
    print(f"{now} {text}", flush=True)
