# Written by scripts/write_sync.py from _async/databases.py. Do not edit.
"""Managed PostgreSQL databases: each one in a machine of its own, with SQL over HTTP."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Union, cast

from .._core import operations
from .._core.call import JsonCall, segment
from .._queries import (
    MAIN_DATABASE,
    QUERY_SECONDS,
    TRANSACTION_SECONDS,
    QueryResult,
    query_error,
    request_seconds,
    statement_bodies,
    statement_body,
    with_limits,
)
from .._retry import Sending
from .._wire import fields_of, given, list_of
from ..exceptions import AuthError, BadRequestError, PandastackError, ServerError
from . import flavour

if TYPE_CHECKING:
    from typing import Sequence

    from .._core import models
    from .._queries import Statement
    from .client import PandaStack

_READY_SECONDS = 180.0
_CLONE_SECONDS = 600.0
_FAILOVER_SECONDS = 300.0
_CREDENTIALS_SECONDS = 180.0
_DIFF_SECONDS = 300.0
_BACKUP_SECONDS = 3600.0
_DRILL_SECONDS = 3600.0
_FIRST_LOOK_SECONDS = 1.0
_LOOK_SECONDS_MAX = 5.0
# What the broker answers about a statement: an error in it, or its time is over.
_STATEMENT_STATUSES = frozenset({400, 408})


class Database(Dict[str, Any]):
    """A database. It is a dict of the API's fields, with some of them as attributes.

    Example:
        database = client.databases.create(label="shop")
        database.execute("CREATE TABLE item (id int, name text)")
        print(database.query("SELECT $1::int + 1", [41]).value)
    """

    def __init__(self, data: Mapping[str, Any], client: PandaStack) -> None:
        super().__init__(data)
        self._client = client

    @property
    def id(self) -> str:
        return str(self["id"])

    @property
    def status(self) -> str:
        """`provisioning`, `running`, `hibernated`, `waking`, `failed` or `deleting`."""
        return str(self["status"])

    @property
    def label(self) -> Optional[str]:
        return self.get("label")

    @property
    def size(self) -> Optional[str]:
        """`1g`, `4g` or `16g`."""
        return self.get("size")

    @property
    def always_on(self) -> bool:
        """Whether it never sleeps."""
        return bool(self.get("always_on"))

    @property
    def branched_from(self) -> Optional[str]:
        """The id of the database that this one was branched from."""
        return self.get("branched_from")

    @property
    def cloned_from(self) -> Optional[str]:
        """The id of the database that this one was cloned from."""
        return self.get("cloned_from")

    @property
    def update_available(self) -> bool:
        """Whether a restart would bring a newer version."""
        return bool(self.get("update_available"))

    @property
    def error(self) -> Optional[str]:
        """Why it failed, or what it waits for."""
        return self.get("error")

    @property
    def connection_url(self) -> Optional[str]:
        """For PostgreSQL clients, with the password. It has no query: append `?sslmode=require`."""
        return self.get("connection_url")

    def refresh(self) -> None:
        """Read the fields again. This does not wake it."""
        self._take(self._client.databases.get(self.id))

    def wait_until_ready(self, *, timeout: float = _READY_SECONDS) -> None:
        """Wait until it accepts connections. A sleeping one must be woken first."""
        self._take(self._client.databases.wait_until_ready(self.id, timeout=timeout))

    def wake(self) -> None:
        """Wake it if it sleeps. Connections and statements do that too."""
        self["status"] = self._client.databases.wake(self.id)["status"]

    def set_always_on(self, always_on: bool) -> None:
        """Change whether it sleeps when nobody uses it."""
        self._take(self._client.databases.update(self.id, always_on=always_on))

    def reset_credentials(self) -> None:
        """Replace the password and the broker's token. The old ones stop working at once."""
        self._take(self._client.databases.reset_credentials(self.id))

    def delete(self) -> None:
        """Delete it with its data."""
        self._client.databases.delete(self.id)

    def branch(
        self,
        *,
        label: Optional[str] = None,
        wait: bool = True,
        timeout: float = _READY_SECONDS,
    ) -> Database:
        """Copy it as it is now, data included. The copy has credentials of its own."""
        return self._client.databases.branch(self.id, label=label, wait=wait, timeout=timeout)

    def reset(self, *, wait: bool = True, timeout: float = _READY_SECONDS) -> None:
        """Make this branch what its parent is now. Its own changes are lost."""
        self._take(self._client.databases.reset(self.id, wait=wait, timeout=timeout))

    def diff(self, to: Optional[str] = None) -> models.SchemaDiff:
        """Compare its schema with that of another database: its parent by default."""
        return self._client.databases.diff(self.id, to)

    def restart(self, *, wait: bool = True, timeout: float = _READY_SECONDS) -> None:
        """Restart it on the newest version of its template. Its data and credentials stay."""
        self._take(self._client.databases.restart(self.id, wait=wait, timeout=timeout))

    def failover(self, *, wait: bool = True, timeout: float = _CLONE_SECONDS) -> None:
        """Rebuild it from its archive after it failed. It gets new credentials."""
        fresh = self._client.databases.failover(self.id)
        if wait:
            fresh = self._client.databases.wait_until_ready(self.id, timeout=timeout)
        self._take(fresh)

    def clone(
        self,
        *,
        label: Optional[str] = None,
        target_time: Union[str, datetime, None] = None,
        size: Optional[str] = None,
        wait: bool = True,
        timeout: float = _CLONE_SECONDS,
    ) -> Database:
        """Copy it from its backups, as it was at a time. See `client.databases.clone`."""
        return self._client.databases.clone(
            self.id, label=label, target_time=target_time, size=size, wait=wait, timeout=timeout
        )

    def backups(self) -> models.DatabaseBackups:
        """Its backups, the times that it can be cloned at, and the state of its archive."""
        return self._client.databases.backups(self.id)

    def backup(self, *, timeout: float = _BACKUP_SECONDS) -> models.DatabaseBackup:
        """Take a base backup now, and wait for its end."""
        return self._client.databases.backup(self.id, timeout=timeout)

    def verify_backup(
        self,
        *,
        target_time: Union[str, datetime, None] = None,
        wait: bool = True,
        timeout: float = _DRILL_SECONDS,
    ) -> models.BackupDrill:
        """Restore a backup elsewhere and check it. See `client.databases.verify_backup`."""
        return self._client.databases.verify_backup(
            self.id, target_time=target_time, wait=wait, timeout=timeout
        )

    def stats(self) -> models.DatabaseStats:
        """Sizes, connections and the share of the cache, while it runs."""
        return self._client.databases.stats(self.id)

    def logs(self, *, lines: Optional[int] = None) -> str:
        """The last lines of the server's log, while it runs: 300, or from 10 to 2000."""
        return self._client.databases.logs(self.id, lines=lines)

    def query(
        self,
        sql: str,
        params: Optional[Sequence[Any]] = None,
        *,
        database: str = MAIN_DATABASE,
        timeout: Optional[float] = None,
        max_rows: Optional[int] = None,
    ) -> QueryResult:
        """Run a statement and return its rows. See `client.databases.query`."""
        return self._client.databases.query(
            self.id, sql, params, database=database, timeout=timeout, max_rows=max_rows
        )

    def execute(
        self,
        sql: str,
        params: Optional[Sequence[Any]] = None,
        *,
        database: str = MAIN_DATABASE,
        timeout: Optional[float] = None,
    ) -> QueryResult:
        """Run a statement without rows. See `client.databases.execute`."""
        return self._client.databases.execute(
            self.id, sql, params, database=database, timeout=timeout
        )

    def transaction(
        self,
        statements: Sequence[Statement],
        *,
        database: str = MAIN_DATABASE,
        timeout: Optional[float] = None,
    ) -> List[QueryResult]:
        """Run all statements or none. See `client.databases.transaction`."""
        return self._client.databases.transaction(
            self.id, statements, database=database, timeout=timeout
        )

    def _take(self, fresh: Mapping[str, Any]) -> None:
        self.clear()
        self.update(fresh)

    def __repr__(self) -> str:
        # Its fields have passwords in them.
        return f"<{type(self).__name__} {self.id} {self.status}>"


class DatabasesAPI:
    """The databases of the workspace."""

    def __init__(self, client: PandaStack) -> None:
        self._client = client
        # The tokens of the databases that were seen, so that a query is one request.
        self._tokens: Dict[str, str] = {}

    def create(
        self,
        *,
        cpu: Optional[int] = None,
        memory_mb: Optional[int] = None,
        label: Optional[str] = None,
        size: Optional[str] = None,
        always_on: Optional[bool] = None,
        wait: bool = True,
        timeout: float = _READY_SECONDS,
    ) -> Database:
        """Create a database, and wait until it accepts connections.

        Args:
            cpu: Is accepted; the size decides.
            memory_mb: Is accepted; the size decides.
            label: A name for people.
            size: Its memory: `1g` (default), `4g` or `16g`.
            always_on: Never sleeps.
            wait: Wait for it; else it is returned while it is made.
            timeout: The longest wait in seconds.

        Raises:
            ServerError: It failed.
            PandastackError: It takes longer than `timeout` seconds. It goes on being made.
        """
        fields = given(cpu=cpu, memory_mb=memory_mb, label=label, size=size, always_on=always_on)
        call = operations.post_databases(cast("models.CreateDatabase", fields))
        made = self._client.transport.json(call)
        return self._made(made, wait, timeout)

    def wait_until_ready(
        self,
        database_id: str,
        *,
        timeout: float = _READY_SECONDS,
    ) -> Database:
        """Wait until a database accepts connections. A sleeping one must be woken first.

        Raises:
            ServerError: It failed.
            PandastackError: It takes longer than `timeout` seconds.
        """
        ends = time.monotonic() + timeout
        delay = _FIRST_LOOK_SECONDS
        while True:
            database = self.get(database_id)
            status = database.status
            if status == "running" and database.connection_url:
                return database
            if status in {"failed", "error"}:
                reason = database.error or f"its status is {status!r}"
                raise ServerError(f"database {database_id} failed: {reason}")
            if time.monotonic() + delay > ends:
                raise PandastackError(
                    f"database {database_id} is not ready after {timeout:g} s; "
                    f"its status is {status!r}"
                )
            flavour.sleep(delay)
            delay = min(_LOOK_SECONDS_MAX, delay * 1.5)

    def list(self) -> List[Database]:
        """All databases, newest first, without credentials."""
        found = self._client.transport.json(operations.get_databases())
        return [self._database(data) for data in list_of(found, "items")]

    def get(self, database_id: str) -> Database:
        """A database with its credentials. This does not wake it."""
        call = operations.get_databases_id(database_id)
        return self._database(self._client.transport.json(call))

    def delete(self, database_id: str) -> None:
        """Delete a database with its data."""
        self._client.transport.empty(operations.delete_databases_id(database_id))
        self._tokens.pop(database_id, None)

    def connection(self, database_id: str) -> models.DatabaseConnection:
        """How to connect: `connection_url`, `broker_url` and `broker_token`."""
        call = operations.get_databases_id_connection(database_id)
        found = self._client.transport.json(call)
        self._note_token(database_id, found)
        return found

    def update(
        self,
        database_id: str,
        *,
        always_on: Optional[bool] = None,
    ) -> Database:
        """Change whether a database sleeps when nobody uses it."""
        body: models.ChangeDatabase = {} if always_on is None else {"always_on": always_on}
        call = operations.patch_databases_id(database_id, body)
        return self._database(self._client.transport.json(call))

    def wake(self, database_id: str) -> models.DatabaseWake:
        """Wake a sleeping database. `wait_until_ready` waits for it."""
        return self._client.transport.json(operations.post_databases_id_wake(database_id))

    def reset_credentials(self, database_id: str) -> Database:
        """Replace the password and the broker's token. The old ones stop working at once."""
        call = operations.post_databases_id_reset_credentials(database_id)
        sending = Sending(timeout=_CREDENTIALS_SECONDS)
        fresh = fields_of(self._client.transport.json(call, sending))
        if fresh.get("connection_url"):
            return self._database(fresh)
        return self.get(database_id)

    def branch(
        self,
        database_id: str,
        *,
        label: Optional[str] = None,
        wait: bool = True,
        timeout: float = _READY_SECONDS,
    ) -> Database:
        """Copy a database as it is now, data included, and wait until the copy is ready.

        The copy has credentials of its own, and neither sees later changes of the other.
        """
        body: models.BranchDatabase = {} if label is None else {"label": label}
        call = operations.post_databases_id_branches(database_id, body)
        return self._made(self._client.transport.json(call), wait, timeout)

    def stats(self, database_id: str) -> models.DatabaseStats:
        """Sizes, connections and the share of the cache of a running database."""
        return self._client.transport.json(operations.get_databases_id_stats(database_id))

    def logs(self, database_id: str, *, lines: Optional[int] = None) -> str:
        """The last lines of a running database's log: 300, or from 10 to 2000."""
        call = operations.get_databases_id_logs(database_id, lines=lines)
        return self._client.transport.json(call)["logs"]

    def query(
        self,
        database_id: str,
        sql: str,
        params: Optional[Sequence[Any]] = None,
        *,
        database: str = MAIN_DATABASE,
        timeout: Optional[float] = None,
        max_rows: Optional[int] = None,
    ) -> QueryResult:
        """Run a statement over HTTP and return its rows. A sleeping database wakes.

        Args:
            database_id: The server.
            sql: One statement, with `$1` and so on for parameters.
            params: The parameters. Lists are arrays, and dicts are JSON.
            database: The database of that server.
            timeout: The statement's time limit in seconds: 30 by default, at most 300.
            max_rows: The most rows to return, at most 10 000. Further ones are left out.

        Raises:
            QueryError: PostgreSQL refused the statement, or its time was over.
        """
        body = statement_body(sql, params)
        with_limits(body, database=database, timeout=timeout, max_rows=max_rows)
        seconds = request_seconds(timeout, QUERY_SECONDS)
        return QueryResult.from_dict(self._ask(database_id, "query", body, seconds))

    def execute(
        self,
        database_id: str,
        sql: str,
        params: Optional[Sequence[Any]] = None,
        *,
        database: str = MAIN_DATABASE,
        timeout: Optional[float] = None,
    ) -> QueryResult:
        """Run a statement without rows. `rows_affected` says how many it changed.

        Without `params`, `sql` may be several statements. The rest is as for `query`.
        """
        body = with_limits(statement_body(sql, params), database=database, timeout=timeout)
        seconds = request_seconds(timeout, QUERY_SECONDS)
        return QueryResult.from_dict(self._ask(database_id, "exec", body, seconds))

    def transaction(
        self,
        database_id: str,
        statements: Sequence[Statement],
        *,
        database: str = MAIN_DATABASE,
        timeout: Optional[float] = None,
    ) -> List[QueryResult]:
        """Run up to 100 statements, all or none, and return the result of each.

        A statement is its text, or a pair of text and parameters. `statement` of a `QueryError` is
        the index of the one that failed. `timeout` is for all of them: 60 by default.
        """
        body: Dict[str, Any] = {"statements": statement_bodies(statements)}
        with_limits(body, database=database, timeout=timeout)
        seconds = request_seconds(timeout, TRANSACTION_SECONDS)
        answer = self._ask(database_id, "transaction", body, seconds)
        return [QueryResult.from_dict(fields_of(one)) for one in list_of(answer.get("results"))]

    def clone(
        self,
        database_id: str,
        *,
        label: Optional[str] = None,
        target_time: Union[str, datetime, None] = None,
        size: Optional[str] = None,
        wait: bool = True,
        timeout: float = _CLONE_SECONDS,
    ) -> Database:
        """Copy a database from its backups, and wait until the copy is ready.

        The source is not touched; it may sleep or have failed. `branch` copies it as it is now.

        Args:
            database_id: The source.
            label: A name for people.
            target_time: The moment to restore: RFC 3339, or a datetime with a time zone. It must be
                in the `window` of `backups`. The latest by default.
            size: The memory of the copy: that of the source by default.
            wait: Wait for it; else it is returned while it is made.
            timeout: The longest wait in seconds.

        Raises:
            ConflictError: There is no backup yet.
            BadRequestError: The time is outside the window.
        """
        fields = given(label=label, target_time=_time(target_time), size=size)
        call = operations.post_databases_id_clone(database_id, cast("models.CloneDatabase", fields))
        return self._made(self._client.transport.json(call), wait, timeout)

    def failover(self, database_id: str) -> Database:
        """Rebuild a failed database from its archive. It gets new credentials.

        It keeps its id and its host name. `restart` is better if its disk is still there: it loses
        nothing. `wait_until_ready` waits for it.
        """
        call = operations.post_databases_id_failover(database_id)
        sending = Sending(timeout=_FAILOVER_SECONDS)
        return self._database(self._client.transport.json(call, sending))

    def restart(
        self,
        database_id: str,
        *,
        wait: bool = True,
        timeout: float = _READY_SECONDS,
    ) -> Database:
        """Restart a database on the newest version of its template, and wait until it is ready.

        Its data and credentials stay; connections end. This also starts one that failed.
        """
        call = operations.post_databases_id_restart(database_id)
        return self._made(self._client.transport.json(call), wait, timeout)

    def reset(
        self,
        database_id: str,
        *,
        wait: bool = True,
        timeout: float = _READY_SECONDS,
    ) -> Database:
        """Make a branch what its parent is now, and wait until it is ready.

        It keeps its id and its credentials, and loses its own changes and backups.
        """
        call = operations.post_databases_id_reset(database_id)
        return self._made(self._client.transport.json(call), wait, timeout)

    def diff(self, database_id: str, to: Optional[str] = None) -> models.SchemaDiff:
        """Compare the schemas of two databases; without `to`, of a branch and its parent.

        `diff` of the answer is a unified diff, and `same` tells whether there is none.
        """
        call = operations.get_databases_id_diff(database_id, to=to)
        return self._client.transport.json(call, Sending(timeout=_DIFF_SECONDS))

    def backups(self, database_id: str) -> models.DatabaseBackups:
        """The backups of a database, newest first.

        `window` has the times that it can be cloned at, `archive` the state of its archive, and
        `drill` the last restore drill.
        """
        return self._client.transport.json(operations.get_databases_id_backups(database_id))

    def backup(
        self,
        database_id: str,
        *,
        timeout: float = _BACKUP_SECONDS,
    ) -> models.DatabaseBackup:
        """Take a base backup now, and wait for its end."""
        call = operations.post_databases_id_backups(database_id)
        return self._client.transport.json(call, Sending(timeout=timeout))

    def verify_backup(
        self,
        database_id: str,
        *,
        target_time: Union[str, datetime, None] = None,
        wait: bool = True,
        timeout: float = _DRILL_SECONDS,
    ) -> models.BackupDrill:
        """Restore a backup into a scratch machine, check the data, and wait for the result.

        Args:
            database_id: The database. It is not touched.
            target_time: The moment to restore, as for `clone`.
            wait: Wait for the result; else `backups` has it later.
            timeout: The longest wait in seconds.

        Returns:
            The drill. Its `status` is `passed` or `failed`, then with an `error`.

        Raises:
            PandastackError: It takes longer than `timeout` seconds. The drill goes on.
        """
        fields = given(target_time=_time(target_time))
        call = operations.post_databases_id_verify_backup(
            database_id, cast("models.VerifyBackup", fields)
        )
        drill = begun = self._client.transport.json(call)
        ends = time.monotonic() + timeout
        delay = _FIRST_LOOK_SECONDS
        # The list may still show an older drill.
        while wait and (drill["status"] == "running" or drill["started_at"] < begun["started_at"]):
            if time.monotonic() + delay > ends:
                raise PandastackError(
                    f"the drill of database {database_id} has not ended after {timeout:g} s"
                )
            flavour.sleep(delay)
            delay = min(_LOOK_SECONDS_MAX, delay * 1.5)
            drill = self.backups(database_id).get("drill") or begun
        return drill

    def _ask(
        self,
        database_id: str,
        verb: str,
        body: Dict[str, Any],
        seconds: float,
    ) -> Dict[str, Any]:
        """Send a statement with the database's own token, which is looked up if need be."""
        path = f"/v1/databases/{segment(database_id)}/proxy/v1/{verb}"
        call = JsonCall[Any]("POST", path, json=body)
        known = self._tokens.get(database_id)
        token = known or self.connection(database_id)["broker_token"]
        try:
            return self._send(call, token, seconds)
        except AuthError:
            # Somebody may have replaced the token. A refused request has run nothing.
            fresh = self.connection(database_id)["broker_token"]
            if fresh == token:
                raise
            return self._send(call, fresh, seconds)

    def _send(self, call: JsonCall[Any], token: str, seconds: float) -> Dict[str, Any]:
        sending = Sending(timeout=seconds, bearer=token)
        try:
            return fields_of(self._client.transport.json(call, sending))
        except BadRequestError as error:
            if error.status not in _STATEMENT_STATUSES:
                raise
            raise query_error(error) from None

    def _made(self, made: Mapping[str, Any], wait: bool, timeout: float) -> Database:
        if not wait:
            return self._database(made)
        return self.wait_until_ready(str(made["id"]), timeout=timeout)

    def _database(self, data: Mapping[str, Any]) -> Database:
        self._note_token(str(data["id"]), data)
        return Database(data, self._client)

    def _note_token(self, database_id: str, data: Mapping[str, Any]) -> None:
        token = data.get("broker_token")
        if token:
            self._tokens[database_id] = str(token)


def _time(value: Union[str, datetime, None]) -> Optional[str]:
    """A moment as RFC 3339. A datetime without a time zone is refused: it could be any moment."""
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise ValueError("target_time needs a time zone, such as datetime.timezone.utc")
    return value.isoformat()
