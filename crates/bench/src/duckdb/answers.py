# Answers queries over Parquet files. Arguments: their directory, a memory limit, a thread count.
# Reads a JSON object of texts by query number, prints one of answers: {"Ok": {"columns", "rows"}}
# or {"Err": message}. values.py is prepended to this file.

import json
import os
import sys

import duckdb


def answer(con, text):
    try:
        con.execute(text)
        rows = [[shown(value) for value in row] for row in con.fetchall()]
        return {"Ok": {"columns": [column[0] for column in con.description], "rows": rows}}
    except duckdb.Error as error:
        return {"Err": str(error)}


directory, memory, threads = sys.argv[1:4]
spill = os.path.join(directory, "spill")
con = duckdb.connect(
    config={"memory_limit": memory, "threads": int(threads), "temp_directory": spill}
)
# The progress bar of long queries would be printed into the output.
con.execute("SET enable_progress_bar = false")
# The SQL standard leaves the default order of NULLs open; this is DataFusion's.
con.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
for name in sorted(os.listdir(directory)):
    table, kind = os.path.splitext(name)
    if kind == ".parquet":
        path = os.path.join(directory, name).replace("'", "''")
        con.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{path}')")
texts = json.load(sys.stdin)
print(json.dumps({number: answer(con, text) for number, text in texts.items()}))
