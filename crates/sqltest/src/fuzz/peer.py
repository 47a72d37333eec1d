# Answers lists of statements, a line of JSON each: {"rows": [[value]]} of the last statement, or
# {"error": text}. A value is null or a letter for its type and the value: b(ool), n(umber), f(loat),
# s(tring), t (microseconds since 1970), i(nterval), l(ist, as JSON of such values). Arguments: seconds
# and rows that an answer has at most.

import datetime
import decimal
import json
import os
import sys
import tempfile
import threading

import duckdb

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)


def shown(value):
    if value is None:
        return None
    if isinstance(value, bool):
        return "b1" if value else "b0"
    if isinstance(value, int):
        return "n" + str(value)
    if isinstance(value, float):
        return "f" + repr(value)
    if isinstance(value, decimal.Decimal):
        return "n" + format(value, "f")
    if isinstance(value, datetime.datetime):
        return "t" + str((value.replace(tzinfo=None) - EPOCH) // MICROSECOND)
    if isinstance(value, datetime.date):
        return "t" + str((datetime.datetime(value.year, value.month, value.day) - EPOCH) // MICROSECOND)
    if isinstance(value, dict):
        return "l" + json.dumps([shown(member) for member in value.values()])
    if isinstance(value, (list, tuple)):
        return "l" + json.dumps([shown(element) for element in value])
    if isinstance(value, bytes):
        return "s\\x" + value.hex()
    return "s" + str(value)


def fetched(con, statement):
    """The rows; moments with a time zone as numbers, since their class wants another package, and
    intervals as texts, since their class has no months."""
    con.execute(statement)
    types = [str(column[1]) for column in con.description or []]
    written = {"TIMESTAMP WITH TIME ZONE": "epoch_us(%s)", "INTERVAL": "CAST(%s AS VARCHAR)"}
    if any(kind in written for kind in types):
        names = [f"c{index}" for index in range(len(types))]
        items = [written.get(kind, "%s") % name for name, kind in zip(names, types)]
        con.execute(f"SELECT {', '.join(items)} FROM ({statement}) AS q({', '.join(names)})")
    rows = con.fetchmany(most + 1)
    if len(rows) > most:
        raise RuntimeError(f"peer limit: more than {most} rows")
    letters = {"TIMESTAMP WITH TIME ZONE": "t%d", "INTERVAL": "i%s"}
    letter = [letters.get(kind) for kind in types]
    return [
        [shown(v) if v is None or not l else l % v for v, l in zip(row, letter)] for row in rows
    ]


# Output of DuckDB itself, such as the progress of a slow query, goes to standard error.
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
seconds, most = float(sys.argv[1]), int(sys.argv[2])
# Spill files go away with this process, and not into the directory that it was started in.
spill = tempfile.TemporaryDirectory(prefix="terrace-sqltest-")
config = {"memory_limit": "2GiB", "threads": 1, "temp_directory": spill.name}
con = duckdb.connect(config=config)
con.execute("SET TimeZone = 'UTC'")
con.execute("SET enable_progress_bar = false")
# With it, DuckDB 2.0.0 finds no rows for EXISTS over a LEFT JOIN whose condition is never true, and
# too many for LIMIT over one.
con.execute("SET disabled_optimizers = 'statistics_propagation'")
for line in sys.stdin:
    statements = json.loads(line)
    # Cases end with a query; tables are loaded however long it takes.
    is_case = bool(statements) and statements[-1].lstrip("( ").startswith(("SELECT", "WITH"))
    timer = threading.Timer(seconds, con.interrupt)
    if is_case:
        timer.start()
    try:
        for statement in statements[:-1]:
            con.execute(statement)
        reply = {"rows": fetched(con, statements[-1]) if statements else []}
    except Exception as error:
        reply = {"error": str(error)}
    timer.cancel()
    if is_case:
        timer.join()
        try:
            # An interruption that came too late would end the next statement.
            con.execute("SELECT 1")
        except duckdb.InterruptException:
            pass
    print(json.dumps(reply), file=replies, flush=True)
