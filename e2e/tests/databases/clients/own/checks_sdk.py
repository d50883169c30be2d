"""Our Python SDK against a database that another test has made: it makes nothing itself."""

import os

from pandastack import PandaStack, QueryError

with PandaStack() as client:
    database = client.databases.get(os.environ["DATABASE"])
    assert (database.status, database.label) == ("running", "orders"), database
    listed = {one.id: one for one in client.databases.list()}
    assert "password" not in listed[database.id] and database["password"] not in repr(database)
    connection = client.databases.connection(database.id)
    for name in ("connection_url", "broker_url", "broker_token"):
        assert connection[name] == database[name], name

    result = database.query("SELECT $1::int + 1 AS n, $2::text[] AS words", [41, ["a", "b"]])
    assert result.dicts() == [{"n": 42, "words": ["a", "b"]}], result
    assert [column.type for column in result.columns][0] == "INT4", result
    assert database.execute("UPDATE t SET n = n WHERE n <= $1", [3]).rows_affected == 3
    first, second = database.transaction([("SELECT $1::int", [1]), "SELECT 2"])
    assert (first.value, second.value) == (1, 2), (first, second)
    try:
        database.query("SELEC 1")
        raise AssertionError("a wrong statement was accepted")
    except QueryError as error:
        assert error.code == "42601", error
    assert database.stats()["db_size_bytes"] > 1_000_000
    assert database["password"] not in database.logs(lines=50)
print("checked: our Python SDK")
