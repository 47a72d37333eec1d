"""psycopg 3: text and binary results, cursors, COPY, transactions, pipelines, asynchronous use."""

import datetime as dt
import threading
import time
from decimal import Decimal

import psycopg
from psycopg.rows import dict_row

from checks import DATABASE, HOST, PASSWORD, PORT, SSLMODE, USER, check, run, same

PLACE = dict(
    host=HOST, port=PORT, user=USER, password=PASSWORD, dbname=DATABASE, sslmode=SSLMODE
)

VALUES = """
    SELECT true AS b, 7::smallint AS i2, 70000 AS i4, 7000000000::bigint AS i8,
           1.5::real AS f4, -2.25::double precision AS f8, 123.450::numeric(10, 3) AS n,
           'gr\u00fcn'::text AS t, '\\x00ff'::bytea AS y, DATE '2024-02-29' AS d,
           TIME '23:59:58.5' AS c, TIMESTAMP '2024-02-29 12:34:56.789' AS s,
           TIMESTAMPTZ '2024-02-29 12:34:56+02' AS z, ARRAY[1, 2, 3]::bigint[] AS a,
           NULL::integer AS e
"""
EXPECTED = dict(
    b=True, i2=7, i4=70000, i8=7000000000, f4=1.5, f8=-2.25, n=Decimal("123.450"), t="gr\u00fcn",
    y=b"\x00\xff", d=dt.date(2024, 2, 29), c=dt.time(23, 59, 58, 500000),
    s=dt.datetime(2024, 2, 29, 12, 34, 56, 789000),
    z=dt.datetime(2024, 2, 29, 10, 34, 56, tzinfo=dt.timezone.utc), a=[1, 2, 3], e=None,
)


def connect(**more):
    return psycopg.connect(**PLACE, **more)


def numbers(connection, count=20000):
    connection.execute("DROP TABLE IF EXISTS psycopg_numbers")
    connection.execute(
        "CREATE TABLE psycopg_numbers AS SELECT value AS x, 'n' || value AS name "
        f"FROM generate_series(1, {count}) AS g(value)"
    )


@check
def values_of_every_type_in_text_and_binary():
    with connect(row_factory=dict_row) as connection:
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                same(cursor.execute(VALUES).fetchone(), EXPECTED)


@check
def parameters_of_every_type():
    with connect() as connection:
        types = "boolean bigint double precision numeric text bytea date time timestamp timestamptz"
        types = types.replace("double precision", "double_precision").split()
        values = [
            True, 2**40, 0.1, Decimal("-98765.4321"), "it's \u2602", b"\x00\x01\xfe",
            dt.date(1999, 12, 31), dt.time(1, 2, 3), dt.datetime(2001, 2, 3, 4, 5, 6),
            dt.datetime(2001, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc),
        ]
        for name, value in zip(types, values):
            name = name.replace("_", " ")
            for text in (f"SELECT %s::{name}", f"SELECT %b::{name}"):
                same(connection.execute(text, [value]).fetchone()[0], value)


@check
def the_same_statement_often_is_prepared():
    with connect() as connection:
        for number in range(20):
            row = connection.execute("SELECT %s::bigint + 1", [number]).fetchone()
            same(row, (number + 1,))


@check
def many_rows_are_inserted_at_once():
    with connect() as connection:
        connection.execute("DROP TABLE IF EXISTS psycopg_rows")
        connection.execute("CREATE TABLE psycopg_rows (k BIGINT, v TEXT)")
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO psycopg_rows VALUES (%s, %s)", [(n, f"v{n}") for n in range(200)]
            )
            same(cursor.rowcount, 200)
        same(connection.execute("SELECT count(*), sum(k) FROM psycopg_rows").fetchone(), (200, 19900))
        changed = connection.execute("UPDATE psycopg_rows SET v = 'x' WHERE k < %s", [50])
        same(changed.rowcount, 50)
        same(connection.execute("DELETE FROM psycopg_rows WHERE k >= 100").rowcount, 100)


@check
def server_cursors_take_rows_as_they_go():
    with connect() as connection:
        numbers(connection)
        connection.commit()
        for binary in (False, True):
            with connection.cursor("c", binary=binary) as cursor:
                cursor.itersize = 1000
                cursor.execute("SELECT x FROM psycopg_numbers WHERE x > %s ORDER BY x", [5])
                same(cursor.fetchone(), (6,))
                same([x for (x,) in cursor.fetchmany(3)], [7, 8, 9])
                same(sum(1 for _ in cursor), 20000 - 9)
        with connection.cursor("held", withhold=True) as cursor:
            cursor.execute("SELECT x FROM psycopg_numbers ORDER BY x")
            same(cursor.fetchone(), (1,))
            connection.commit()
            same(len(cursor.fetchall()), 19999)


@check
def rows_are_streamed():
    with connect() as connection:
        numbers(connection)
        with connection.cursor() as cursor:
            rows = cursor.stream("SELECT x FROM psycopg_numbers ORDER BY x", size=100)
            same(sum(x for (x,) in rows), 20000 * 20001 // 2)


@check
def copy_in_and_out():
    with connect() as connection:
        connection.execute("DROP TABLE IF EXISTS psycopg_copied")
        connection.execute(
            "CREATE TABLE psycopg_copied (k BIGINT, v TEXT, n NUMERIC(10, 2), d DATE)"
        )
        rows = [
            (1, "a\tb\\\n", Decimal("1.50"), dt.date(2024, 1, 1)),
            (2, None, Decimal("-3.25"), None),
        ]
        with connection.cursor() as cursor:
            with cursor.copy("COPY psycopg_copied FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            with cursor.copy("COPY psycopg_copied FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["int8", "text", "numeric", "date"])
                for row in rows:
                    copy.write_row(row)
            for form in ("", " (FORMAT BINARY)"):
                with cursor.copy(f"COPY (SELECT * FROM psycopg_copied ORDER BY k) TO STDOUT{form}") as copy:
                    copy.set_types(["int8", "text", "numeric", "date"])
                    same(list(copy.rows()), sorted(rows * 2, key=lambda row: row[0]))
            try:
                with cursor.copy("COPY psycopg_copied FROM STDIN") as copy:
                    copy.write("this is no row\n")
            except psycopg.Error as error:
                assert error.sqlstate, error
            else:
                raise AssertionError("rows that are none are taken")


@check
def transactions_and_savepoints():
    with connect(autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS psycopg_t")
        connection.execute("CREATE TABLE psycopg_t (x BIGINT)")
        with connection.transaction():
            connection.execute("INSERT INTO psycopg_t VALUES (1)")
            try:
                with connection.transaction():
                    connection.execute("INSERT INTO psycopg_t VALUES (2)")
                    connection.execute("SELECT 1 / 0")
            except psycopg.errors.DivisionByZero:
                pass
            connection.execute("INSERT INTO psycopg_t VALUES (3)")
        found = connection.execute("SELECT x FROM psycopg_t ORDER BY x").fetchall()
        same(found, [(1,), (3,)])


@check
def conflicts_are_serialization_failures():
    with connect() as one, connect() as two:
        one.execute("DROP TABLE IF EXISTS psycopg_c")
        one.execute("CREATE TABLE psycopg_c AS SELECT 1 AS k, 1 AS v")
        one.commit()
        for connection in (one, two):
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            same(connection.execute("SELECT v FROM psycopg_c").fetchone(), (1,))
        one.execute("UPDATE psycopg_c SET v = 2 WHERE k = 1")
        one.commit()
        try:
            two.execute("UPDATE psycopg_c SET v = 3 WHERE k = 1")
            two.commit()
        except psycopg.errors.SerializationFailure:
            two.rollback()
        else:
            raise AssertionError("a change is lost")


@check
def errors_have_their_classes():
    cases = {
        "SELECT * FROM missing_table": psycopg.errors.UndefinedTable,
        "SELECT missing FROM (SELECT 1 AS x) t": psycopg.errors.UndefinedColumn,
        "SELEC 1": psycopg.errors.SyntaxError,
        "SELECT 1 / 0": psycopg.errors.DivisionByZero,
        "SELECT missing_function(1)": psycopg.errors.UndefinedFunction,
        "SELECT 9223372036854775807 + 1": psycopg.errors.NumericValueOutOfRange,
        "SELECT 'x'::integer": psycopg.errors.InvalidTextRepresentation,
    }
    with connect(autocommit=True) as connection:
        for text, expected in cases.items():
            try:
                connection.execute(text)
            except psycopg.Error as error:
                assert isinstance(error, expected), f"{text}: {error.sqlstate} {error}"
            else:
                raise AssertionError(f"{text} has no error")


@check
def statements_in_a_pipeline():
    with connect(autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS psycopg_p")
        connection.execute("CREATE TABLE psycopg_p (x BIGINT)")
        with connection.pipeline() as pipeline:
            cursors = [connection.execute("SELECT %s::bigint", [n]) for n in range(50)]
            connection.execute("INSERT INTO psycopg_p VALUES (1)")
            pipeline.sync()
            same([cursor.fetchone()[0] for cursor in cursors], list(range(50)))
        same(connection.execute("SELECT count(*) FROM psycopg_p").fetchone(), (1,))


@check
def a_statement_is_cancelled():
    with connect(autocommit=True) as connection:
        threading.Timer(0.5, connection.cancel_safe).start()
        began = time.monotonic()
        try:
            connection.execute("SELECT count(*) FROM generate_series(1, 1000000000000) a")
        except psycopg.errors.QueryCanceled:
            assert time.monotonic() - began < 20
        else:
            raise AssertionError("it was not cancelled")
        same(connection.execute("SELECT 1").fetchone(), (1,))


@check
def a_late_statement_ends():
    with connect(autocommit=True, options="-c statement_timeout=300") as connection:
        try:
            connection.execute("SELECT count(*) FROM generate_series(1, 1000000000000) a")
        except psycopg.errors.QueryCanceled:
            return
        raise AssertionError("it had no limit")


@check
def what_the_server_says_of_itself():
    with connect(application_name="checks") as connection:
        info = connection.info
        assert info.server_version >= 130000, info.server_version
        same(info.parameter_status("client_encoding"), "UTF8")
        same(info.encoding, "utf-8")
        same(info.transaction_status, psycopg.pq.TransactionStatus.IDLE)
        same(connection.execute("SHOW application_name").fetchone(), ("checks",))
        assert connection.execute("SELECT version()").fetchone()[0].startswith("PostgreSQL ")


@check
async def asynchronous_connections():
    connection = await psycopg.AsyncConnection.connect(**PLACE)
    async with connection:
        async with connection.cursor(binary=True) as cursor:
            await cursor.execute(
                "SELECT value FROM generate_series(1, %s) AS g(value) ORDER BY value", [1000]
            )
            same([row[0] async for row in cursor], list(range(1, 1001)))
        async with connection.cursor("c") as cursor:
            await cursor.execute("SELECT value FROM generate_series(1, 10) AS g(value)")
            same(len(await cursor.fetchall()), 10)


run()
