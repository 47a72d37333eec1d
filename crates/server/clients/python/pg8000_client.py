"""pg8000, which speaks the protocol in Python alone."""

import datetime as dt
import ssl
from decimal import Decimal

import pg8000.native

from checks import DATABASE, HOST, PASSWORD, PORT, SSLMODE, USER, check, run, same


def connect():
    context = None
    if SSLMODE != "disable":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return pg8000.native.Connection(
        USER, host=HOST, port=PORT, password=PASSWORD, database=DATABASE, ssl_context=context
    )


@check
def values_and_parameters():
    connection = connect()
    row = connection.run(
        "SELECT :i::bigint, :t::text, :n::numeric, :d::date, :b::boolean",
        i=7, t="it's", n=Decimal("1.25"), d=dt.date(2024, 2, 29), b=True,
    )
    same(row, [[7, "it's", Decimal("1.25"), dt.date(2024, 2, 29), True]])
    same([column["name"] for column in connection.columns], ["int8", "text", "numeric", "date", "bool"])
    connection.close()


@check
def tables_and_transactions():
    connection = connect()
    connection.run("DROP TABLE IF EXISTS pg8000_t")
    connection.run("CREATE TABLE pg8000_t (x BIGINT)")
    connection.run("START TRANSACTION")
    connection.run("INSERT INTO pg8000_t VALUES (1), (2)")
    same(connection.row_count, 2)
    connection.run("ROLLBACK")
    same(connection.run("SELECT count(*) FROM pg8000_t"), [[0]])
    connection.close()


run()
