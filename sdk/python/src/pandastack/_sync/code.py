# Written by scripts/write_sync.py from _async/code.py. Do not edit.
"""Code contexts: interpreters that keep their variables between cells."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Optional

from .._core import operations
from .._results import Execution
from .._retry import Sending
from ..exceptions import PandastackError

if TYPE_CHECKING:
    from .._core import models
    from .sandbox import Sandbox


class CodeContext:
    """An interpreter in a sandbox that keeps its variables between cells.

    Example:
        with sandbox.create_code_context() as context:
            context.run_code("x = 20")
            print(context.run_code("x + 1").text)
    """

    def __init__(
        self,
        sandbox: Sandbox,
        session_id: str,
        language: str = "python",
    ) -> None:
        self.sandbox = sandbox
        self.id = session_id
        self.session_id = session_id
        self.language = language

    def run_code(self, code: str, timeout_seconds: Optional[float] = None) -> Execution:
        """Run a cell.

        An exception of the code is not raised here: it is the result's `error`.

        Raises:
            SandboxTimeout: The cell exceeded `timeout_seconds` and was interrupted.
        """
        body: models.RunCell = {"code": code}
        if timeout_seconds is not None:
            body["timeout_ms"] = int(timeout_seconds * 1000)
        call = operations.post_sandboxes_id_repl_sessions_session_run(
            self.sandbox.id, self.id, body
        )
        seconds = self.sandbox.client.command_seconds(timeout_seconds)
        sending = Sending(command=True, timeout=seconds)
        return Execution.from_dict(dict(self.sandbox.client.transport.json(call, sending)))

    def run(self, code: str, timeout_seconds: Optional[float] = None) -> Execution:
        """The same as `run_code`."""
        return self.run_code(code, timeout_seconds)

    def close(self) -> None:
        """End the interpreter. It is not an error if it has already ended."""
        call = operations.delete_sandboxes_id_repl_sessions_session(self.sandbox.id, self.id)
        with suppress(PandastackError):
            self.sandbox.client.transport.empty(call, Sending(repeats=False))

    def __enter__(self) -> CodeContext:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.language} in {self.sandbox.id}>"
