"""Databases: creating, waiting, branching, and SQL over HTTP."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import uuid
from typing import TYPE_CHECKING, Any, Dict, List, Tuple, Type

import pytest

from pandastack import (
    AsyncPandaStack,
    AuthError,
    BadRequestError,
    ConflictError,
    Database,
    ForbiddenError,
    PandastackError,
    QueryColumn,
    QueryError,
    ServerError,
)
from pandastack._sync import flavour

from .standin import KEY, Reply

if TYPE_CHECKING:
    from pandastack import PandaStack

    from .standin import Seen, StandIn

DB = "7d000000-0000-4000-8000-000000000001"
D = f"/v1/databases/{DB}"
Q = f"{D}/proxy/v1"
TOKEN = "pds_pg_first"


def database(**fields: Any) -> Dict[str, Any]:
    """A running database as the server describes it."""
    return {
        "id": DB,
        "status": "running",
        "template": "postgres-16",
        "size": "1g",
        "created_at": 1_790_000_000,
        "password": "secret",
        "connection_url": f"postgres://pandastack:secret@{DB}.db.localhost:5432/pandastack",
        "broker_url": f"http://server{D}/proxy",
        "broker_token": TOKEN,
        **fields,
    }


def connection(token: str = TOKEN) -> Dict[str, str]:
    return {"connection_url": "postgres://x", "broker_url": "http://x", "broker_token": token}


def waiting(status: str = "provisioning", **fields: Any) -> Dict[str, Any]:
    return {"id": DB, "status": status, "template": "postgres-16", **fields}


def by_token(token: str, body: Any) -> Any:
    """Answers only to this token."""

    def answer(seen: Seen) -> Reply:
        if seen.headers["authorization"] != f"Bearer {token}":
            return Reply(401, {"error": "bad broker token", "code": "database.bad_token"})
        return Reply(200, body)

    return answer


ROWS = {
    "columns": [{"name": "id", "type": "INT8"}, {"name": "name", "type": "TEXT"}],
    "rows": [[9223372036854775807, "a"], [2, None]],
    "count": 2,
    "duration_ms": 3,
}


@pytest.fixture
def naps(monkeypatch: pytest.MonkeyPatch) -> List[float]:
    """Nobody really waits; the times are kept."""
    seen: List[float] = []
    monkeypatch.setattr(flavour, "sleep", seen.append)
    return seen


@pytest.fixture
def db(client: PandaStack) -> Database:
    return Database(database(), client)


def test_a_create_waits_until_it_is_ready(
    server: StandIn, client: PandaStack, naps: List[float]
) -> None:
    server.on("POST", "/v1/databases", Reply(202, waiting()))
    # Without credentials it is not ready, whatever its status says.
    server.on(
        "GET", D, Reply(200, waiting()), Reply(200, waiting("running")), Reply(200, database())
    )
    made = client.databases.create(label="shop", size="4g", always_on=True)
    assert server.seen[0].json() == {"label": "shop", "size": "4g", "always_on": True}
    assert naps == [1.0, 1.5]
    assert (made.id, made.status, made["template"]) == (DB, "running", "postgres-16")
    assert made.connection_url == made["connection_url"]
    assert made == database()
    assert "secret" not in repr(made)


def test_a_create_need_not_wait(server: StandIn, client: PandaStack) -> None:
    server.on("POST", "/v1/databases", Reply(202, waiting()))
    made = client.databases.create(wait=False)
    assert (made.status, made.connection_url, made.always_on) == ("provisioning", None, False)
    server.on("GET", D, Reply(200, database()))
    made.wait_until_ready()
    assert made.status == "running"


def test_a_failed_database_ends_the_wait(server: StandIn, client: PandaStack) -> None:
    server.on("POST", "/v1/databases", Reply(202, waiting()))
    server.on("GET", D, Reply(200, waiting("failed", error="no template")))
    with pytest.raises(ServerError, match="failed: no template"):
        client.databases.create()


def test_a_wait_has_an_end(server: StandIn, client: PandaStack) -> None:
    server.on("GET", D, Reply(200, waiting("hibernated")))
    with pytest.raises(
        PandastackError, match=r"not ready after 0\.5 s; its status is 'hibernated'"
    ):
        client.databases.wait_until_ready(DB, timeout=0.5)


def test_reading_changing_and_deleting(server: StandIn, client: PandaStack) -> None:
    server.on("GET", "/v1/databases", Reply(200, {"items": [waiting("hibernated")], "count": 1}))
    server.on("GET", D, Reply(200, database(label="new")))
    server.on("PATCH", D, Reply(200, database(always_on=True)))
    server.on("POST", f"{D}/wake", Reply(200, {"id": DB, "status": "waking"}))
    server.on("DELETE", D, Reply(204))
    (found,) = client.databases.list()
    assert isinstance(found, Database)
    found.wake()
    assert found.status == "waking"
    found.refresh()
    assert (found.status, found.label) == ("running", "new")
    found.set_always_on(True)
    assert found.always_on
    # What the server left out is gone.
    assert found.label is None
    assert client.databases.update(DB, always_on=True).always_on
    assert server.seen[-1].json() == {"always_on": True}
    found.delete()
    assert server.count("DELETE", D) == 1


def test_a_branch(server: StandIn, client: PandaStack, db: Database) -> None:
    other = "7d000000-0000-4000-8000-000000000002"
    copy = database(id=other, branched_from=DB)
    server.on("POST", f"{D}/branches", Reply(202, {**waiting(), "id": other}))
    server.on("GET", f"/v1/databases/{other}", Reply(200, copy))
    branch = db.branch(label="try")
    assert server.seen[0].json() == {"label": "try"}
    assert (branch.id, branch.branched_from) == (other, DB)
    assert client.databases.branch(DB, wait=False).status == "provisioning"


def test_a_clone_of_a_moment(
    server: StandIn, client: PandaStack, db: Database, naps: List[float]
) -> None:
    other = "7d000000-0000-4000-8000-000000000002"
    server.on("POST", f"{D}/clone", Reply(202, {**waiting(), "id": other}))
    copy = database(id=other, cloned_from=DB)
    server.on(
        "GET", f"/v1/databases/{other}", Reply(200, {**waiting(), "id": other}), Reply(200, copy)
    )
    moment = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)
    clone = db.clone(label="before", target_time=moment, size="4g")
    assert server.seen[0].json() == {
        "label": "before",
        "target_time": "2026-01-02T03:04:00+00:00",
        "size": "4g",
    }
    assert (clone.id, clone.cloned_from, naps) == (other, DB, [1.0])
    made = client.databases.clone(DB, target_time="2026-01-02T03:04:00Z", wait=False)
    assert made.status == "provisioning"
    assert server.seen[-1].json() == {"target_time": "2026-01-02T03:04:00Z"}
    with pytest.raises(ValueError, match="needs a time zone"):
        db.clone(target_time=datetime.datetime(2026, 1, 2))
    server.on("POST", f"{D}/clone", Reply(409, {"error": "none", "code": "database.no_backup"}))
    with pytest.raises(ConflictError) as caught:
        db.clone()
    assert caught.value.code == "database.no_backup"


def test_restart_reset_and_failover(
    server: StandIn, client: PandaStack, db: Database, naps: List[float]
) -> None:
    # It keeps its credentials while it restarts.
    starting = database(status="provisioning")
    server.on("POST", f"{D}/restart", Reply(202, starting))
    server.on("POST", f"{D}/reset", Reply(202, starting))
    server.on("POST", f"{D}/failover", Reply(200, waiting()))
    server.on("GET", D, Reply(200, starting), Reply(200, database(update_available=True)))
    db.restart()
    assert (db.status, db.update_available, naps) == ("running", True, [1.0])
    db.reset(wait=False)
    assert db.status == "provisioning"
    db.failover()
    assert db.status == "running"
    assert client.databases.failover(DB).status == "provisioning"
    assert client.databases.restart(DB).status == "running"
    server.on("GET", D, Reply(200, waiting("failed", error="no volume")))
    with pytest.raises(ServerError, match="failed: no volume"):
        client.databases.reset(DB)


def test_a_diff_of_schemas(server: StandIn, db: Database) -> None:
    found = {"from": DB, "to": "p", "same": False, "diff": "+CREATE TABLE t ();"}
    server.on("GET", f"{D}/diff", Reply(200, found))
    assert db.diff()["diff"] == "+CREATE TABLE t ();"
    assert server.seen[-1].query == {}
    assert db.diff("p") == found
    assert server.seen[-1].query == {"to": ["p"]}


def test_backups(server: StandIn, db: Database) -> None:
    held = backups(window={"earliest": "a", "latest": "b"})
    server.on("GET", f"{D}/backups", Reply(200, held))
    taken = {"name": "b1", "taken_at": "2026-01-02T00:00:00.000Z", "size_bytes": 7}
    server.on("POST", f"{D}/backups", Reply(201, taken))
    assert db.backups() == held
    assert db.backup()["name"] == "b1"


def backups(**fields: Any) -> Dict[str, Any]:
    archive = {"health": "ok", "pending_segments": 0, "pending_bytes": 0}
    return {"items": [], "count": 0, "archive": archive, **fields}


def drill(status: str, started_at: str = "2026-01-02T00:00:00.000Z") -> Dict[str, Any]:
    return {"status": status, "started_at": started_at}


def test_a_drill_is_waited_for(
    server: StandIn, client: PandaStack, db: Database, naps: List[float]
) -> None:
    server.on("POST", f"{D}/verify-backup", Reply(202, drill("running")))
    # The list may still show an older drill.
    older = drill("failed", "2026-01-01T00:00:00.000Z")
    looks = [backups(drill=older), backups(), backups(drill=drill("passed"))]
    server.on("GET", f"{D}/backups", *(Reply(200, look) for look in looks))
    assert db.verify_backup(target_time="2026-01-01T00:00:00Z")["status"] == "passed"
    assert server.seen[0].json() == {"target_time": "2026-01-01T00:00:00Z"}
    assert naps == [1.0, 1.5, 2.25]
    assert client.databases.verify_backup(DB, wait=False)["status"] == "running"
    server.on("GET", f"{D}/backups", Reply(200, backups(drill=drill("running"))))
    with pytest.raises(PandastackError, match=r"has not ended after 0\.5 s"):
        client.databases.verify_backup(DB, timeout=0.5)


def test_stats_and_logs(server: StandIn, db: Database) -> None:
    server.on("GET", f"{D}/stats", Reply(200, {"connections": 3}))
    server.on("GET", f"{D}/logs", Reply(200, {"logs": "one\ntwo\n"}))
    assert db.stats()["connections"] == 3
    assert db.logs(lines=20) == "one\ntwo\n"
    assert server.seen[-1].query == {"lines": ["20"]}
    db.logs()
    assert server.seen[-1].query == {}


def test_a_query_is_sent_with_the_token_of_the_database(
    server: StandIn, client: PandaStack
) -> None:
    server.on("GET", f"{D}/connection", Reply(200, connection()))
    server.on("POST", f"{Q}/query", by_token(TOKEN, ROWS))
    result = client.databases.query(DB, "SELECT $1", [1], timeout=1.5, max_rows=2)
    assert server.seen[-1].json() == {
        "sql": "SELECT $1",
        "params": [1],
        "database": "pandastack",
        "timeout_ms": 1500,
        "max_rows": 2,
    }
    assert result.columns == [QueryColumn("id", "INT8"), QueryColumn("name", "TEXT")]
    assert (len(result), result.value, result.duration_ms) == (2, 9223372036854775807, 3)
    assert [row["name"] for row in result] == ["a", None]
    # The token is asked for once, and the key is not given to the broker.
    client.databases.query(DB, "SELECT 1", database="other")
    assert server.seen[-1].json() == {"sql": "SELECT 1", "database": "other"}
    assert server.count("GET", f"{D}/connection") == 1
    keyed = [one.path for one in server.seen if one.headers["authorization"] == f"Bearer {KEY}"]
    assert keyed == [f"{D}/connection"]


def test_a_database_that_was_read_needs_no_further_request(
    server: StandIn, client: PandaStack
) -> None:
    server.on("GET", D, Reply(200, database()))
    server.on("POST", f"{Q}/exec", by_token(TOKEN, {"rows_affected": 2, "duration_ms": 1}))
    result = client.databases.get(DB).execute("DELETE FROM item")
    assert (result.rows_affected, result.rows, result.value) == (2, [], None)
    assert result
    assert len(server.seen) == 2


def test_a_replaced_token_is_asked_for_again(server: StandIn, client: PandaStack) -> None:
    server.on("GET", f"{D}/connection", Reply(200, connection()), Reply(200, connection("new")))
    server.on("POST", f"{Q}/query", by_token("new", ROWS))
    assert len(client.databases.query(DB, "SELECT 1")) == 2
    assert server.count("POST", f"{Q}/query") == 2


def test_a_refused_token_that_is_the_current_one(server: StandIn, client: PandaStack) -> None:
    server.on("GET", f"{D}/connection", Reply(200, connection()))
    server.on("POST", f"{Q}/query", by_token("another", ROWS))
    with pytest.raises(AuthError, match="bad broker token"):
        client.databases.query(DB, "SELECT 1")
    assert server.count("POST", f"{Q}/query") == 1


def test_reset_credentials(server: StandIn, client: PandaStack, db: Database) -> None:
    server.on("POST", f"{D}/reset-credentials", Reply(200, database(broker_token="new")))
    server.on("POST", f"{Q}/query", by_token("new", ROWS))
    db.reset_credentials()
    assert db["broker_token"] == "new"
    db.query("SELECT 1")
    assert server.count("GET", f"{D}/connection") == 0
    # An answer without credentials is completed by a read.
    server.on("POST", f"{D}/reset-credentials", Reply(200, waiting("running")))
    server.on("GET", D, Reply(200, database()))
    assert client.databases.reset_credentials(DB).connection_url


def test_a_transaction(server: StandIn, db: Database) -> None:
    server.on("GET", f"{D}/connection", Reply(200, connection()))
    results = [{"index": 0, "rows_affected": 1}, {**ROWS, "index": 1}]
    server.on("POST", f"{Q}/transaction", Reply(200, {"results": results, "duration_ms": 4}))
    first, second = db.transaction(["DELETE FROM a", ("SELECT $1::int[]", [[1, 2]])], timeout=5)
    assert server.seen[-1].json() == {
        "statements": [
            {"sql": "DELETE FROM a"},
            {"sql": "SELECT $1::int[]", "params": [[1, 2]]},
        ],
        "database": "pandastack",
        "timeout_ms": 5000,
    }
    assert (first.rows_affected, second.value) == (1, 9223372036854775807)


def test_what_postgres_says(server: StandIn, db: Database) -> None:
    server.on("GET", f"{D}/connection", Reply(200, connection()))
    said = {
        "error": "duplicate key",
        "code": "23505",
        "detail": "Key (id)=(1) already exists.",
        "hint": "h",
        "where": "w",
        "statement": 1,
    }
    server.on("POST", f"{Q}/transaction", Reply(400, said))
    with pytest.raises(QueryError, match="duplicate key: Key") as caught:
        db.transaction(["SELECT 1", "INSERT …"])
    error = caught.value
    assert (error.code, error.status, error.statement) == ("23505", 400, 1)
    assert (error.detail, error.hint, error.where) == (said["detail"], "h", "w")
    assert isinstance(error, BadRequestError)
    late = {"error": "canceling statement due to timeout", "code": "57014"}
    server.on("POST", f"{Q}/query", Reply(408, late))
    with pytest.raises(QueryError) as caught:
        db.query("SELECT pg_sleep(60)")
    assert (caught.value.code, caught.value.hint) == ("57014", None)


@pytest.mark.parametrize(
    ("status", "kind"), [(403, ForbiddenError), (413, BadRequestError), (503, ServerError)]
)
def test_other_refusals_are_no_query_errors(
    server: StandIn, db: Database, status: int, kind: Type[PandastackError]
) -> None:
    server.on("GET", f"{D}/connection", Reply(200, connection()))
    server.on("POST", f"{Q}/exec", Reply(status, {"error": "no"}, {"retry-after": "1"}))
    with pytest.raises(kind) as caught:
        db.execute("SELECT 1")
    assert not isinstance(caught.value, QueryError)
    # It may have run: nothing is sent twice.
    assert server.count("POST", f"{Q}/exec") == 1


PARAMETERS: List[Tuple[Any, Any]] = [
    (b"\x00\xff", "\\x00ff"),
    (float("nan"), "nan"),
    (decimal.Decimal("1.10"), "1.10"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (datetime.date(2026, 1, 2), "2026-01-02"),
    (
        datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc),
        "2026-01-02T03:04:00+00:00",
    ),
    (datetime.timedelta(days=-1, seconds=2), "-1 days 2 seconds 0 microseconds"),
    ((1, None, [True]), [1, None, [True]]),
    ({"a": decimal.Decimal(1)}, {"a": "1"}),
]


@pytest.mark.parametrize(("value", "sent"), PARAMETERS)
def test_parameters(server: StandIn, db: Database, value: Any, sent: Any) -> None:
    server.on("GET", f"{D}/connection", Reply(200, connection()))
    server.on("POST", f"{Q}/query", Reply(200, ROWS))
    db.query("SELECT $1", [value])
    assert server.seen[-1].json()["params"] == [sent]


def test_parameters_that_cannot_be_sent(db: Database) -> None:
    with pytest.raises(TypeError, match="a parameter of type set cannot be sent"):
        db.query("SELECT $1", [{1}])
    with pytest.raises(TypeError, match="params must be a list"):
        db.query("SELECT $1", "abc")


def test_with_asyncio(server: StandIn) -> None:
    server.on("POST", "/v1/databases", Reply(202, waiting()))
    server.on("GET", D, Reply(200, database()))
    server.on("POST", f"{Q}/query", by_token(TOKEN, ROWS))

    async def main() -> None:
        async with AsyncPandaStack(server.url, KEY) as client:
            made = await client.databases.create()
            assert (await made.query("SELECT 1")).rows == ROWS["rows"]
            answers = await asyncio.gather(*(made.query("SELECT 1") for _ in range(4)))
            assert [len(one) for one in answers] == [2] * 4

    asyncio.run(asyncio.wait_for(main(), 20))
