"""ADBC's driver of Arrow Flight SQL: results, ingestion, transactions, metadata, cancellation.

TERRACE_FLIGHT is the location, and TERRACE_ROOT the certificate where it is one of TLS.
"""

import os
import threading
import time

import adbc_driver_flightsql.dbapi as flight
import pyarrow
from adbc_driver_flightsql import DatabaseOptions

from checks import PASSWORD, USER, check, run, same

LOCATION = os.environ["TERRACE_FLIGHT"]
ROOT = os.environ.get("TERRACE_ROOT", "")


def connect(password=PASSWORD, **options):
    login = {}
    if ROOT:
        with open(ROOT, encoding="ascii") as file:
            login[DatabaseOptions.TLS_ROOT_CERTS.value] = file.read()
        login.update(username=USER, password=password)
    return flight.connect(LOCATION, db_kwargs=login, **options)


def fails(work, part):
    try:
        work()
    except Exception as error:
        assert part in str(error), error
    else:
        raise AssertionError("it has not failed")


@check
def logins_take_the_password():
    if ROOT:
        fails(lambda: connect(password="wrong").cursor().execute("SELECT 1"), "28P01")
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT current_user")
            same(cursor.fetchone(), (USER,))


@check
def results_are_tables_of_arrow():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT value AS x, value::double precision / 4 AS f, 'n' || value AS t, "
            "value % 2 = 0 AS b, DATE '2024-01-01' AS d, TIMESTAMP '2024-01-01 10:00:00' AS s, "
            "ARRAY[value] AS l FROM generate_series(1, 100000) AS g(value) ORDER BY value"
        )
        table = cursor.fetch_arrow_table()
        same(table.num_rows, 100000)
        same(table.column_names, ["x", "f", "t", "b", "d", "s", "l"])
        same(table.schema.field("t").type, pyarrow.string())
        same(table["x"].to_pylist()[:3], [1, 2, 3])
        same(table["t"][99999].as_py(), "n100000")
        same(table["l"][2].as_py(), [3])
        same(str(table["d"][0].as_py()), "2024-01-01")


@check
def statements_change_tables():
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS flight_s")
        cursor.execute("CREATE TABLE flight_s (k BIGINT, v TEXT)")
        cursor.execute("INSERT INTO flight_s VALUES (1, 'a'), (2, NULL)")
        same(cursor.rowcount, 2)
        cursor.executemany("INSERT INTO flight_s VALUES (?, ?)", [(n, str(n)) for n in range(50)])
        same(cursor.rowcount, 50)
        cursor.execute("SELECT count(*), count(v) FROM flight_s")
        same(cursor.fetchone(), (52, 51))


@check
def parameters_are_bound():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT $1 + 1 AS x", (41,))
        same(cursor.fetchone(), (42,))
        cursor.execute("SELECT ? || '?' AS x, ?::double precision", ("a", 1.5))
        same(cursor.fetchone(), ("a?", 1.5))


@check
def tables_of_arrow_are_ingested():
    table = pyarrow.table({
        "k": pyarrow.array(range(50000), pyarrow.int64()),
        "v": pyarrow.array([None if n % 5 == 0 else f"v{n}" for n in range(50000)]),
        "f": pyarrow.array([n / 8 for n in range(50000)]),
    })
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS flight_t")
        same(cursor.adbc_ingest("flight_t", table, mode="create"), 50000)
        connection.commit()
        cursor.execute("SELECT * FROM flight_t ORDER BY k")
        same(cursor.fetch_arrow_table().equals(table), True)
        fails(lambda: cursor.adbc_ingest("flight_t", table, mode="create"), "42P07")
        connection.rollback()
        for mode, rows in [("append", 100000), ("replace", 50000), ("create_append", 100000)]:
            cursor.adbc_ingest("flight_t", table, mode=mode)
            cursor.execute("SELECT count(*) FROM flight_t")
            same(cursor.fetchone(), (rows,))
        connection.rollback()
        cursor.execute("SELECT count(*) FROM flight_t")
        same(cursor.fetchone(), (50000,))


@check
def transactions_are_kept_or_undone():
    with connect() as connection, connect(autocommit=True) as other:
        with connection.cursor() as cursor, other.cursor() as reader:
            cursor.execute("DROP TABLE IF EXISTS flight_u")
            cursor.execute("CREATE TABLE flight_u (k BIGINT)")
            connection.commit()
            for end, count in [(connection.rollback, 0), (connection.commit, 3)]:
                cursor.execute("INSERT INTO flight_u VALUES (1), (2), (3)")
                reader.execute("SELECT count(*) FROM flight_u")
                same(reader.fetchone(), (0,))
                end()
                reader.execute("SELECT count(*) FROM flight_u")
                same(reader.fetchone(), (count,))


@check
def tables_are_described():
    with connect() as connection:
        schema = connection.adbc_get_table_schema("flight_t")
        same(schema.names, ["k", "v", "f"])
        same(schema.field("k").type, pyarrow.int64())
        found = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        columns = {
            table["table_name"]: [column["column_name"] for column in table["table_columns"]]
            for catalog in found for schema in catalog["catalog_db_schemas"]
            for table in schema["db_schema_tables"]
        }
        same(columns["flight_t"], ["k", "v", "f"])
        same(connection.adbc_get_info()["vendor_name"], "Terrace")
        assert "VIEW" in connection.adbc_get_table_types()


@check
def settings_are_those_of_the_connection():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS flight_schema")
        connection.commit()
        cursor.execute("SET TimeZone = 'Europe/Berlin'")
        connection.adbc_current_db_schema = "flight_schema"
        same(connection.adbc_current_db_schema, "flight_schema")
        same(connection.adbc_current_catalog, "main")
        connection.commit()
        cursor.execute("SHOW TimeZone")
        same(cursor.fetchone(), ("Europe/Berlin",))


@check
def errors_have_their_state():
    with connect() as connection, connection.cursor() as cursor:
        fails(lambda: cursor.execute("SELECT * FROM nosuch"), "42P01")
        connection.rollback()
        cursor.execute("SELECT 2 AS x")
        same(cursor.fetchone(), (2,))


@check
def queries_are_cancelled():
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        threading.Timer(0.5, cursor.adbc_cancel).start()
        began = time.monotonic()

        def work():
            cursor.execute(
                "SELECT count(*) FROM generate_series(1, 1000000) AS a(x), "
                "generate_series(1, 1000000) AS b(y) WHERE x * y % 7 = 1"
            )
            cursor.fetchall()

        fails(work, "ancel")
        assert time.monotonic() - began < 20
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        for _ in range(100):
            cursor.execute("SELECT count(*) FROM terrace.queries WHERE statement LIKE '%1000000%'"
                           " AND statement NOT LIKE '%terrace.queries%'")
            if cursor.fetchone() == (0,):
                return
            time.sleep(0.1)
        raise AssertionError("the query goes on")


run()
