"""Everything that this package raises.

All exceptions derive from `PandastackError`:

| Exception | When |
|---|---|
| `AuthError` | there is no API key, or the server refused it (401) |
| `NotFoundError` | there is no such object in your workspace (404) |
| `BadRequestError` | the server refused the request (other 4xx) |
| `ForbiddenError` | … because your role does not allow it (403) |
| `ConflictError` | … because of the object's state (409) |
| `RateLimitError` | … because of a rate or a quota (429) |
| `QueryError` | … of a database, because the statement failed or its time was over |
| `ServerError` | the server failed (5xx) |
| `CapacityError` | … because it has no room now (503 or 507 of a create or fork) |
| `APIConnectionError` | the server could not be reached, or the connection broke |
| `RequestTimeout` | … because the answer did not come within the deadline |
| `SandboxTimeout` | a command or cell exceeded its own time limit |
| `ExecInterrupted` | a stream ended without an exit code: the command's result is unknown |
| `CommandFailed` | a command exited with a code other than 0, and `check=True` was given |
| `CreateCancelled` | the `cancel` event of a create or fork was set |
| `TemplateBuildError` | a template build failed or took too long |
| `SignatureError` | a webhook delivery has no valid signature |
"""

from __future__ import annotations

from typing import Any, Optional


class PandastackError(Exception):
    """The base of all exceptions of this package.

    Attributes:
        status: The HTTP status, if the server answered.
        code: The server's code for this error, such as `sandbox.not_found`.
        request_id: The id of the request. Name it when you report a problem.
        retry_after: Seconds after which the server expects that a retry can succeed.
        body: The decoded answer, if it was JSON.
    """

    def __init__(
        self,
        message: str = "",
        *,
        status: Optional[int] = None,
        code: Optional[str] = None,
        request_id: Optional[str] = None,
        retry_after: Optional[float] = None,
        body: object = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after
        self.body = body

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __repr__(self) -> str:
        parts = [repr(self.message)]
        for name in ("status", "code", "request_id", "retry_after"):
            value = getattr(self, name)
            if value is not None:
                parts.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


class AuthError(PandastackError):
    """There is no API key, or the server does not accept it."""


class NotFoundError(PandastackError):
    """There is no such object in your workspace."""


class BadRequestError(PandastackError):
    """The server refused the request."""


class ForbiddenError(BadRequestError):
    """You may not do this."""


class ConflictError(BadRequestError):
    """The state of the object does not allow this now."""


class RateLimitError(BadRequestError):
    """Too many requests, or a quota is used up. A quota has no `retry_after`."""


class QueryError(BadRequestError):
    """A statement failed, or its time was over. `code` is PostgreSQL's, such as `23505`.

    Attributes:
        detail: PostgreSQL's further words.
        hint: What PostgreSQL advises.
        where: Where it happened, such as a line of a function.
        statement: The index of the statement, in a transaction.
    """

    def __init__(
        self,
        message: str = "",
        *,
        detail: Optional[str] = None,
        hint: Optional[str] = None,
        where: Optional[str] = None,
        statement: Optional[int] = None,
        **answer: Any,
    ) -> None:
        super().__init__(message, **answer)
        self.detail = detail
        self.hint = hint
        self.where = where
        self.statement = statement


class ServerError(PandastackError):
    """The server failed."""


class CapacityError(ServerError):
    """The server has no room for a new sandbox now. Nothing was created."""


class APIConnectionError(PandastackError):
    """The server could not be reached, or the connection broke."""


class RequestTimeout(APIConnectionError):
    """The answer did not come within the deadline."""


# The name that version 0.10 used. It hides Python's own exception, so prefer the longer one.
ConnectionError = APIConnectionError


class SandboxTimeout(PandastackError):
    """A command or cell exceeded its time limit and was ended."""


class ExecInterrupted(PandastackError):
    """A stream of output ended without an exit code.

    The result of the command is unknown. `partial_stdout` and `partial_stderr` are what arrived.
    """

    def __init__(
        self,
        message: str = "",
        *,
        partial_stdout: str = "",
        partial_stderr: str = "",
    ) -> None:
        super().__init__(message)
        self.partial_stdout = partial_stdout
        self.partial_stderr = partial_stderr


class CommandFailed(PandastackError):
    """A command exited with a code other than 0."""

    def __init__(
        self,
        message: str = "",
        *,
        exit_code: int,
        stdout: str = "",
        stderr: str = "",
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr


class TemplateBuildError(PandastackError):
    """A template build failed or took too long. `build` is its last known state."""

    def __init__(self, message: str = "", *, build: Optional[object] = None) -> None:
        super().__init__(message)
        self.build = build


class CreateCancelled(PandastackError):
    """The `cancel` event of a create or fork was set. The last refusal is its `__cause__`."""


class SignatureError(PandastackError):
    """A webhook delivery has no valid signature, or its time is too far from now."""
