"""asyncpg: binary results of every type, prepared statements, cursors, COPY, transactions."""

import asyncio
import datetime as dt
import io
from decimal import Decimal

import asyncpg

from checks import DATABASE, HOST, PASSWORD, PORT, SSLMODE, USER, check, run, same


async def connect(**more):
    return await asyncpg.connect(
        host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE, ssl=SSLMODE, **more
    )


@check
async def values_and_parameters_of_every_type():
    connection = await connect()
    values = {
        "bool": True, "int2": 7, "int4": -70000, "int8": 2**40, "float4": 1.5, "float8": -0.1,
        "numeric": Decimal("12345.678"), "text": "gr\u00fcn", "bytea": b"\x00\xff",
        "date": dt.date(2024, 2, 29), "time": dt.time(23, 59, 58, 500000),
        "timestamp": dt.datetime(2024, 2, 29, 12, 34, 56, 789000),
        "timestamptz": dt.datetime(2024, 2, 29, 12, 34, 56, tzinfo=dt.timezone.utc),
        "int8[]": [1, 2, 3], "text[]": ["a", "b,c"],
    }
    for name, value in values.items():
        same(await connection.fetchval(f"SELECT $1::{name}", value), value)
        same(await connection.fetchval(f"SELECT $1::{name}", None), None)
    await connection.close()


@check
async def prepared_statements_live_through_changes_of_their_tables():
    connection = await connect()
    await connection.execute("DROP TABLE IF EXISTS asyncpg_t")
    await connection.execute("CREATE TABLE asyncpg_t (x BIGINT, y TEXT)")
    await connection.executemany(
        "INSERT INTO asyncpg_t VALUES ($1, $2)", [(n, str(n)) for n in range(100)]
    )
    statement = await connection.prepare("SELECT x, y FROM asyncpg_t WHERE x < $1 ORDER BY x")
    same([attribute.name for attribute in statement.get_attributes()], ["x", "y"])
    same([kind.name for kind in statement.get_parameters()], ["int8"])
    same(len(await statement.fetch(10)), 10)
    await connection.execute("DROP TABLE asyncpg_t")
    await connection.execute("CREATE TABLE asyncpg_t (x BIGINT, y TEXT)")
    same(await statement.fetch(10), [])
    await connection.close()


@check
async def cursors_in_transactions():
    connection = await connect()
    text = "SELECT value FROM generate_series(1, $1) AS g(value) ORDER BY value"
    async with connection.transaction(isolation="repeatable_read"):
        found = [row[0] async for row in connection.cursor(text, 5000, prefetch=100)]
        same(found, list(range(1, 5001)))
        cursor = await connection.cursor(text, 100)
        same([row[0] for row in await cursor.fetch(3)], [1, 2, 3])
        await cursor.forward(10)
        same((await cursor.fetchrow())[0], 14)
    await connection.close()


@check
async def copy_in_and_out():
    connection = await connect()
    await connection.execute("DROP TABLE IF EXISTS asyncpg_c")
    await connection.execute("CREATE TABLE asyncpg_c (k BIGINT, v TEXT, f DOUBLE PRECISION)")
    records = [(n, None if n % 3 else f"v{n}", n / 4) for n in range(10000)]
    await connection.copy_records_to_table("asyncpg_c", records=records)
    same(await connection.fetchval("SELECT count(*) FROM asyncpg_c WHERE v IS NULL"), 6666)
    out = io.BytesIO()
    await connection.copy_from_query("SELECT k FROM asyncpg_c WHERE k < 3 ORDER BY k", output=out)
    same(out.getvalue(), b"0\n1\n2\n")
    await connection.copy_to_table("asyncpg_c", source=io.BytesIO(b"-1,x,2.5\n"), format="csv")
    same(tuple(await connection.fetchrow("SELECT * FROM asyncpg_c WHERE k = -1")), (-1, "x", 2.5))
    await connection.close()


@check
async def transactions_and_savepoints():
    connection = await connect()
    await connection.execute("DROP TABLE IF EXISTS asyncpg_s")
    await connection.execute("CREATE TABLE asyncpg_s (x BIGINT)")
    async with connection.transaction():
        await connection.execute("INSERT INTO asyncpg_s VALUES (1)")
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO asyncpg_s VALUES (2)")
                await connection.fetch("SELECT 1 / 0")
        except asyncpg.DivisionByZeroError:
            pass
    same(await connection.fetchval("SELECT sum(x)::bigint FROM asyncpg_s"), 1)
    await connection.close()


@check
async def a_statement_that_is_given_up_is_cancelled():
    connection = await connect()
    try:
        await connection.fetchval(
            "SELECT count(*) FROM generate_series(1, 1000000000000) a", timeout=0.5
        )
    except asyncio.TimeoutError:
        pass
    else:
        raise AssertionError("it has ended")
    same(await connection.fetchval("SELECT 42"), 42)
    await connection.close()


@check
async def a_pool_gives_connections_back_clean():
    pool = await asyncpg.create_pool(
        host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE, ssl=SSLMODE,
        min_size=2, max_size=4,
    )
    async with pool:
        async def one(number):
            async with pool.acquire() as connection:
                return await connection.fetchval("SELECT $1::int8 * 2", number)

        same(await asyncio.gather(*(one(n) for n in range(40))), [2 * n for n in range(40)])


@check
async def errors_have_their_classes():
    connection = await connect()
    for text, expected in {
        "SELECT * FROM missing_table": asyncpg.UndefinedTableError,
        "SELEC 1": asyncpg.PostgresSyntaxError,
        "SELECT 1 / 0": asyncpg.DivisionByZeroError,
    }.items():
        try:
            await connection.fetch(text)
        except expected:
            continue
        raise AssertionError(f"{text} has another error or none")
    await connection.close()


run()
