"""asyncpg against a managed database. The URL is that of the API, the certificate must be right."""

import asyncio
import json
import os
import ssl
from datetime import datetime, timezone
from decimal import Decimal

import asyncpg

POOLED = f"{os.environ['DATABASE_URL']}?sslmode=verify-full&sslrootcert={os.environ['DATABASE_CA']}"
SESSION = f"{POOLED}&options=-cpandastack.session%3Don"
CONNECTIONS = 20


async def strangers_to_the_authority_do_not_connect(_):
    try:
        await asyncpg.connect(os.environ["DATABASE_URL"], ssl=ssl.create_default_context())
        raise AssertionError("nobody checked the certificate")
    except ssl.SSLCertVerificationError:
        pass


async def values_come_back_as_they_went(db):
    when = datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=timezone.utc)
    sent = ([1, None, 3], ["a", 'b"c', "ünï"], Decimal("12345678901234567890.0123456789"), when, bytes(range(256)))
    kept = {"deep": [1, {"x": None}], "text": "ünï"}
    await db.execute(
        "CREATE TABLE asyncpg_kept (ints int[], words text[], amount numeric, at timestamptz, raw bytea, doc jsonb)"
    )
    await db.execute("INSERT INTO asyncpg_kept VALUES ($1, $2, $3, $4, $5, $6)", *sent, json.dumps(kept))
    *row, doc = await db.fetchrow("SELECT * FROM asyncpg_kept")
    assert tuple(row) == sent and json.loads(doc) == kept, (row, doc)


async def prepared_statements_are_used_again(db):
    double = await db.prepare("SELECT $1::int * 2")
    for number in range(8):
        assert await double.fetchval(number) == number * 2
        assert await db.fetchval("SELECT $1::int * 3", number) == number * 3


async def a_transaction_rolls_back(db):
    await db.execute("CREATE TABLE asyncpg_rolled (n int)")
    try:
        async with db.transaction(isolation="serializable"):
            await db.execute("INSERT INTO asyncpg_rolled VALUES ($1)", 1)
            raise KeyError
    except KeyError:
        pass
    async with db.transaction():
        await db.executemany("INSERT INTO asyncpg_rolled VALUES ($1)", [(2,), (3,)])
        cursor = await db.cursor("SELECT n FROM asyncpg_rolled ORDER BY n")
        assert [row["n"] for row in await cursor.fetch(9)] == [2, 3]


async def rows_are_copied_both_ways(db):
    await db.execute("CREATE TABLE asyncpg_copied (n int, word text)")
    rows = [(n, f"word {n}\t\\") for n in range(500)]
    said = await db.copy_records_to_table("asyncpg_copied", records=rows)
    assert said == "COPY 500", said
    parts = []

    async def take(part):
        parts.append(part)

    await db.copy_from_query("SELECT n FROM asyncpg_copied ORDER BY n LIMIT $1", 3, output=take)
    assert b"".join(parts) == b"0\n1\n2\n", parts
    assert [tuple(row) for row in await db.fetch("SELECT * FROM asyncpg_copied ORDER BY n")] == rows


async def errors_have_their_state(db):
    await db.execute("CREATE TABLE asyncpg_unique (n int PRIMARY KEY)")
    await db.execute("INSERT INTO asyncpg_unique VALUES (1)")
    try:
        await db.execute("INSERT INTO asyncpg_unique VALUES ($1)", 1)
        raise AssertionError("a second row with the same key")
    except asyncpg.UniqueViolationError as error:
        assert (error.sqlstate, error.constraint_name) == ("23505", "asyncpg_unique_pkey"), error
    assert await db.fetchval("SELECT count(*) FROM asyncpg_unique") == 1


async def a_query_is_cancelled(db):
    other = await asyncpg.connect(POOLED)
    ask = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '/* asyncpg */%' AND state = 'active'"
    slow = asyncio.create_task(db.execute("/* asyncpg */ SELECT pg_sleep(60)"))
    # PostgreSQL ignores a cancel that comes before its query.
    while await other.fetchval(ask) == 0:
        await asyncio.sleep(0.1)
    slow.cancel()
    try:
        await slow
        raise AssertionError("it was not cancelled")
    except asyncio.CancelledError:
        pass
    # It answers only after the server has ended the other query.
    assert await db.fetchval("SELECT 1", timeout=30) == 1
    assert await other.fetchval(ask) == 0
    await other.close()


async def vectors_are_near(db):
    await db.execute("CREATE TABLE asyncpg_vectors (id int, v vector(3))")
    codec = {"encoder": str, "decoder": json.loads, "format": "text"}
    await db.set_type_codec("vector", schema="public", **codec)
    rows = [(1, [1, 0, 0]), (2, [0, 1, 0]), (3, [0.5, 0.5, 0])]
    await db.executemany("INSERT INTO asyncpg_vectors VALUES ($1, $2)", rows)
    near = await db.fetch("SELECT id, v FROM asyncpg_vectors ORDER BY v <-> $1 LIMIT 2", [1, 0.05, 0])
    assert [tuple(row) for row in near] == [(1, [1, 0, 0]), (3, [0.5, 0.5, 0])], near


async def notifications_come(db):
    heard = asyncio.get_running_loop().create_future()
    listener = await asyncpg.connect(SESSION)
    await listener.add_listener("asyncpg_news", lambda _, __, channel, text: heard.set_result((channel, text)))
    await db.execute("SELECT pg_notify('asyncpg_news', $1)", "hello")
    assert await asyncio.wait_for(heard, 30) == ("asyncpg_news", "hello")
    await listener.execute("CREATE TEMP TABLE mine AS SELECT 1 AS n")
    assert await listener.fetchval("SELECT n FROM mine") == 1
    await listener.close()


async def many_connect_at_once(_):
    async with asyncpg.create_pool(POOLED, min_size=CONNECTIONS, max_size=CONNECTIONS, timeout=60) as pool:
        assert pool.get_size() == CONNECTIONS
        answers = await asyncio.gather(*(pool.fetchval("SELECT $1::int", number) for number in range(CONNECTIONS)))
        assert answers == list(range(CONNECTIONS)), answers


CHECKS = [
    strangers_to_the_authority_do_not_connect,
    values_come_back_as_they_went,
    prepared_statements_are_used_again,
    a_transaction_rolls_back,
    rows_are_copied_both_ways,
    errors_have_their_state,
    a_query_is_cancelled,
    vectors_are_near,
    notifications_come,
    many_connect_at_once,
]


async def main():
    db = await asyncpg.connect(POOLED)
    for check in CHECKS:
        await check(db)
        print(f"checked: {check.__name__}", flush=True)
    await db.close()


asyncio.run(main())
