"""psycopg 3 against a managed database. The URL is that of the API, the certificate must be right."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from decimal import Decimal

import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb

POOLED = f"{os.environ['DATABASE_URL']}?sslmode=verify-full&sslrootcert={os.environ['DATABASE_CA']}"
SESSION = f"{POOLED}&options=-cpandastack.session%3Don"
CONNECTIONS = 20


def strangers_to_the_authority_do_not_connect(_):
    try:
        psycopg.connect(f"{os.environ['DATABASE_URL']}?sslmode=verify-full&sslrootcert=system")
        raise AssertionError("nobody checked the certificate")
    except psycopg.OperationalError as error:
        assert "certificate verify failed" in str(error), error


def values_come_back_as_they_went(db):
    when = datetime(2024, 2, 29, 23, 59, 59, 123456, tzinfo=timezone.utc)
    sent = ([1, None, 3], ["a", 'b"c', "ünï"], Decimal("12345678901234567890.0123456789"), when, bytes(range(256)))
    kept = {"deep": [1, {"x": None}], "text": "ünï"}
    db.execute(
        "CREATE TABLE psycopg_kept (id int PRIMARY KEY, ints int[], words text[], amount numeric, at timestamptz,"
        " raw bytea, doc jsonb)"
    )
    for number, binary in enumerate((False, True)):
        db.execute(
            "INSERT INTO psycopg_kept VALUES (%s, %s, %s, %s, %s, %s, %s)", (number, *sent, Jsonb(kept)), binary=binary
        )
        ask = "SELECT ints, words, amount, at, raw, doc FROM psycopg_kept WHERE id = %s"
        row = db.execute(ask, (number,), binary=binary).fetchone()
        assert row == (*sent, kept), row


def prepared_statements_are_used_again(db):
    for number in range(8):
        row = db.execute("SELECT %s::int * 2", (number,), prepare=True).fetchone()
        assert row == (number * 2,), row
    assert db.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def a_transaction_rolls_back(db):
    db.execute("CREATE TABLE psycopg_rolled (n int)")
    try:
        with db.transaction():
            db.execute("INSERT INTO psycopg_rolled VALUES (1)")
            raise KeyError
    except KeyError:
        pass
    with db.transaction():
        db.execute("INSERT INTO psycopg_rolled VALUES (2)")
        with db.transaction(force_rollback=True):
            db.execute("INSERT INTO psycopg_rolled VALUES (3)")
    assert db.execute("SELECT n FROM psycopg_rolled").fetchall() == [(2,)]


def rows_are_copied_both_ways(db):
    db.execute("CREATE TABLE psycopg_copied (n int, word text)")
    rows = [(n, f"word {n}\t\\") for n in range(500)]
    with db.cursor() as cursor:
        with cursor.copy("COPY psycopg_copied FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        with cursor.copy("COPY psycopg_copied TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int4", "text"])
            assert list(copy.rows()) == rows


def errors_have_their_state(db):
    db.execute("CREATE TABLE psycopg_unique (n int PRIMARY KEY)")
    db.execute("INSERT INTO psycopg_unique VALUES (1)")
    try:
        db.execute("INSERT INTO psycopg_unique VALUES (%s)", (1,))
        raise AssertionError("a second row with the same key")
    except errors.UniqueViolation as error:
        assert error.sqlstate == "23505" and error.diag.constraint_name == "psycopg_unique_pkey", error.diag
    assert db.execute("SELECT count(*) FROM psycopg_unique").fetchone() == (1,)


def a_query_is_cancelled(db):
    def cancel():
        # PostgreSQL ignores a cancel that comes before its query.
        asked = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '/* psycopg */%' AND state = 'active'"
        with psycopg.connect(POOLED, autocommit=True) as other:
            while other.execute(asked).fetchone() == (0,):
                time.sleep(0.1)
        db.cancel_safe()

    timer = threading.Thread(target=cancel)
    timer.start()
    try:
        db.execute("/* psycopg */ SELECT pg_sleep(60)")
        raise AssertionError("it was not cancelled")
    except errors.QueryCanceled as error:
        assert error.sqlstate == "57014"
    timer.join()
    assert db.execute("SELECT 1").fetchone() == (1,)


def statements_are_pipelined(db):
    with db.pipeline():
        cursors = [db.execute("SELECT %s::int", (n,)) for n in range(20)]
    assert [cursor.fetchone()[0] for cursor in cursors] == list(range(20))


def vectors_are_near(db):
    db.execute("CREATE TABLE psycopg_vectors (id int, v vector(3))")
    with db.cursor() as cursor:
        rows = [(1, "[1,0,0]"), (2, "[0,1,0]"), (3, "[0.9,0.1,0]")]
        cursor.executemany("INSERT INTO psycopg_vectors VALUES (%s, %s)", rows)
    near = db.execute("SELECT id FROM psycopg_vectors ORDER BY v <-> %s::vector LIMIT 2", ("[1,0.05,0]",)).fetchall()
    assert near == [(1,), (3,)], near


def notifications_come(db):
    with psycopg.connect(SESSION, autocommit=True) as listener:
        listener.execute("LISTEN psycopg_news")
        db.execute("SELECT pg_notify('psycopg_news', %s)", ("hello",))
        heard = next(listener.notifies(timeout=30, stop_after=1))
        assert (heard.channel, heard.payload) == ("psycopg_news", "hello"), heard
        listener.execute("CREATE TEMP TABLE mine (n int)")
        listener.execute("INSERT INTO mine VALUES (1)")
        assert listener.execute("SELECT n FROM mine").fetchone() == (1,)


def many_connect_at_once(_):
    meet = threading.Barrier(CONNECTIONS)

    def one(number):
        with psycopg.connect(POOLED) as db:
            # Nobody goes on before all are connected.
            meet.wait(60)
            return db.execute("SELECT %s::int", (number,)).fetchone()[0]

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        assert list(pool.map(one, range(CONNECTIONS))) == list(range(CONNECTIONS))


CHECKS = [
    strangers_to_the_authority_do_not_connect,
    values_come_back_as_they_went,
    prepared_statements_are_used_again,
    a_transaction_rolls_back,
    rows_are_copied_both_ways,
    errors_have_their_state,
    a_query_is_cancelled,
    statements_are_pipelined,
    vectors_are_near,
    notifications_come,
    many_connect_at_once,
]

if __name__ == "__main__":
    with psycopg.connect(POOLED, autocommit=True) as connection:
        for check in CHECKS:
            check(connection)
            print(f"checked: {check.__name__}", flush=True)
