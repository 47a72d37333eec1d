"""pg_dump: a database of PostgreSQL that psql restores into this server."""

import os
import subprocess

import psycopg

from checks import DATABASE, HOST, PASSWORD, PORT, SSLMODE, USER, check, run, same
from postgres_server import binaries, server

OBJECTS = (
    "CREATE SCHEMA dumped",
    "SET search_path = dumped",
    "CREATE TYPE mood AS ENUM ('sad', 'it''s fine')",
    "CREATE SEQUENCE free INCREMENT BY 5 START WITH 10",
    "CREATE TABLE kinds (id serial, small smallint, wide bigint DEFAULT nextval('free'), "
    "n numeric(10, 2), x double precision, f boolean DEFAULT true, t text, c varchar(9), "
    "b bytea, d date, at time, ts timestamp, tz timestamptz, i interval, u uuid, j json, "
    "jb jsonb, m mood, a integer[], texts text[], CONSTRAINT positive CHECK (small > 0))",
    "CREATE TABLE numbered (id integer GENERATED ALWAYS AS IDENTITY (START WITH 7), v integer, "
    "twice integer GENERATED ALWAYS AS (v * 2) STORED)",
    "INSERT INTO kinds (small, n, x, t, c, b, d, at, ts, tz, i, u, j, jb, m, a, texts) VALUES "
    "(1, 12.50, 'NaN', E'tab\\tline\\nback\\\\', 'q', '\\x00ff', '2024-02-29', '12:34:56.789', "
    "'2024-01-02 03:04:05.678', '2024-01-02 03:04:05+02', '1 day 2:03:04', "
    "'00000000-0000-0000-0000-00000000000a', '{\"a\": [1, null]}', '{\"b\": 2}', 'it''s fine', "
    "'{1,NULL,3}', '{\"a,b\",NULL,\"\"}'), "
    "(2, NULL, '-Infinity', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
    "'{}', NULL)",
    "INSERT INTO numbered (v) VALUES (1), (2)",
    "CREATE VIEW summed AS SELECT v, count(*) AS c FROM numbered WHERE id > 7 GROUP BY v",
    "CREATE FUNCTION plus(a integer, b integer DEFAULT 1) RETURNS integer LANGUAGE sql IMMUTABLE "
    "AS 'SELECT a + b'",
    "COMMENT ON TABLE kinds IS 'it''s a table'",
    "COMMENT ON COLUMN kinds.n IS 'a number'",
    "COMMENT ON TYPE mood IS 'a type'",
    "COMMENT ON FUNCTION plus(integer, integer) IS 'a function'",
)

SAME = (
    "SELECT id, small, wide, n, x::text, f, t, c, b, d, at, ts, tz, i, u, m::text, a, texts "
    "FROM dumped.kinds ORDER BY id",
    "SELECT j::text, jb::text FROM dumped.kinds ORDER BY id",
    "SELECT id, v, twice FROM dumped.numbered ORDER BY id",
    "SELECT v, c FROM dumped.summed ORDER BY v",
    "SELECT obj_description('dumped.kinds'::regclass, 'pg_class')",
    "INSERT INTO dumped.kinds (small) VALUES (3) RETURNING id, wide, f",
    "INSERT INTO dumped.numbered (v) VALUES (3) RETURNING id, twice",
    "SELECT pg_get_serial_sequence('dumped.kinds', 'id')",
)


@check
def a_dump_is_restored_without_an_error():
    with server() as place:
        with psycopg.connect(place, autocommit=True) as other:
            for text in OBJECTS:
                other.execute(text)
        dump = subprocess.run(
            [binaries() / "pg_dump", "--no-owner", "--no-privileges", "-n", "dumped", place],
            check=True, capture_output=True, cwd="/",
        ).stdout
        environment = {**os.environ, "PGPASSWORD": PASSWORD, "PGSSLMODE": SSLMODE}
        restored = subprocess.run(
            [binaries() / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", HOST, "-p", str(PORT),
             "-U", USER, "-d", DATABASE],
            input=dump, capture_output=True, env=environment,
        )
        same((restored.returncode, restored.stderr.decode()), (0, ""))
        with (
            psycopg.connect(place, autocommit=True) as other,
            psycopg.connect(
                host=HOST, port=PORT, user=USER, password=PASSWORD, dbname=DATABASE,
                sslmode=SSLMODE, autocommit=True,
            ) as tested,
        ):
            for connection in (other, tested):
                connection.execute("SET timezone = 'UTC'")
            for text in SAME:
                same(tested.execute(text).fetchall(), other.execute(text).fetchall())
            tested.execute("DROP SCHEMA dumped CASCADE")


run()
