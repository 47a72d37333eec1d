"""postgres_fdw: a PostgreSQL server that reads and changes tables of this one."""

import contextlib

import psycopg

from checks import DATABASE, HOST, PASSWORD, PORT, SSLMODE, USER, check, run, same
from postgres_server import NAME, server


def local():
    """Tables of the server that is tested, for the foreign ones to stand for."""
    connection = psycopg.connect(
        host=HOST, port=PORT, user=USER, password=PASSWORD, dbname=DATABASE, sslmode=SSLMODE,
        autocommit=True,
    )
    for text in (
        "DROP TABLE IF EXISTS fdw_numbers",
        "DROP TABLE IF EXISTS fdw_names",
        "CREATE TABLE fdw_numbers AS SELECT value AS x, value % 10 AS k, "
        "DATE '2024-01-01' + (value % 28)::integer AS d FROM generate_series(1, 5000) AS g(value)",
        "CREATE TABLE fdw_names (k BIGINT, name TEXT)",
        "INSERT INTO fdw_names SELECT value, 'name ' || value FROM generate_series(0, 9) AS g(value)",
    ):
        connection.execute(text)
    return connection


def foreign(place):
    """A connection to the other server, with the tables of this one in it."""
    connection = psycopg.connect(place, autocommit=True)
    for text in (
        "CREATE EXTENSION postgres_fdw",
        "CREATE SERVER tested FOREIGN DATA WRAPPER postgres_fdw OPTIONS "
        f"(host '{HOST}', port '{PORT}', dbname '{DATABASE}', sslmode '{SSLMODE}', fetch_size '77')",
        f"CREATE USER MAPPING FOR {NAME} SERVER tested OPTIONS (user '{USER}', password '{PASSWORD}')",
        "IMPORT FOREIGN SCHEMA public LIMIT TO (fdw_numbers, fdw_names) FROM SERVER tested INTO public",
    ):
        connection.execute(text)
    return connection


@check
def tables_are_read_and_changed_by_another_server():
    with server() as place, local() as tested, foreign(place) as other:
        def found(text):
            return other.execute(text).fetchall()

        same(found("SELECT count(*), sum(x)::bigint FROM fdw_numbers"), [(5000, 12502500)])
        same(found("SELECT x FROM fdw_numbers WHERE x > 4997 ORDER BY x"), [(4998,), (4999,), (5000,)])
        joined = (
            "SELECT name, count(*) FROM fdw_numbers n JOIN fdw_names m ON n.k = m.k "
            "WHERE d >= DATE '2024-01-02' GROUP BY name ORDER BY name LIMIT 2"
        )
        same(found(joined), tested.execute(joined).fetchall())
        # A nested loop begins its inner cursor again for each row.
        for setting in ("enable_hashjoin", "enable_mergejoin", "enable_material"):
            other.execute(f"SET {setting} = off")
        other.execute("CREATE TABLE few AS SELECT generate_series(1, 3) AS k")
        same(found("SELECT count(*) FROM few f JOIN fdw_numbers n ON f.k + 0 = n.k + 0"), [(1500,)])
        with other.transaction():
            other.execute("INSERT INTO fdw_names VALUES (10, 'ten'), (11, 'eleven')")
            other.execute("UPDATE fdw_names SET name = 'TEN' WHERE k = 10")
            other.execute("DELETE FROM fdw_names WHERE k = 11")
        same(tested.execute("SELECT name FROM fdw_names WHERE k > 9").fetchall(), [("TEN",)])
        with contextlib.suppress(ZeroDivisionError), other.transaction():
            other.execute("INSERT INTO fdw_names VALUES (12, 'twelve')")
            raise ZeroDivisionError
        same(tested.execute("SELECT count(*) FROM fdw_names").fetchall(), [(11,)])


run()
