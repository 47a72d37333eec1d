"""The ADBC driver of PostgreSQL: results and tables as Arrow, which it moves by binary COPY."""

import adbc_driver_postgresql.dbapi as adbc
import pyarrow

from checks import SSLMODE, URL, check, run, same


def connect():
    return adbc.connect(f"postgresql://{URL}?sslmode={SSLMODE}")


@check
def results_are_tables_of_arrow():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT value AS x, value::double precision / 4 AS f, 'n' || value AS t, "
            "value % 2 = 0 AS b, DATE '2024-01-01' AS d, TIMESTAMP '2024-01-01 10:00:00' AS s "
            "FROM generate_series(1, 10000) AS g(value) ORDER BY value"
        )
        table = cursor.fetch_arrow_table()
        same(table.num_rows, 10000)
        same(table.column_names, ["x", "f", "t", "b", "d", "s"])
        same(table["x"].to_pylist()[:3], [1, 2, 3])
        same(table["t"][9999].as_py(), "n10000")
        same(table["b"].to_pylist()[:2], [False, True])
        same(str(table["d"][0].as_py()), "2024-01-01")


@check
def tables_of_arrow_are_ingested():
    table = pyarrow.table({
        "k": pyarrow.array(range(5000), pyarrow.int64()),
        "v": pyarrow.array([None if n % 5 == 0 else f"v{n}" for n in range(5000)]),
        "f": pyarrow.array([n / 8 for n in range(5000)]),
    })
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS adbc_t")
        cursor.adbc_ingest("adbc_t", table, mode="create")
        connection.commit()
        cursor.execute("SELECT * FROM adbc_t ORDER BY k")
        same(cursor.fetch_arrow_table().equals(table), True)


@check
def parameters_are_bound():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT $1 + 1 AS x", (41,))
        same(cursor.fetchone(), (42,))


@check
def tables_are_described():
    with connect() as connection:
        schema = connection.adbc_get_table_schema("adbc_t")
        same(schema.names, ["k", "v", "f"])
        same(schema.field("k").type, pyarrow.int64())
        found = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        names = {
            table["table_name"]
            for catalog in found for schema in catalog["catalog_db_schemas"]
            for table in schema["db_schema_tables"]
        }
        assert "adbc_t" in names, names


run()
