# Loads Parquet files into a database file. Arguments: the database, their directory.

import os
import sys

import duckdb

database, directory = sys.argv[1:3]
con = duckdb.connect(database)
for name in sorted(os.listdir(directory)):
    table, kind = os.path.splitext(name)
    if kind == ".parquet":
        path = os.path.join(directory, name).replace("'", "''")
        con.execute(f"CREATE TABLE {table} AS SELECT * FROM read_parquet('{path}')")
con.execute("CHECKPOINT")
con.close()
