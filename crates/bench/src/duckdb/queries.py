# Prints the texts of the TPC-DS queries: a JSON object by query number.

import json
import os
import sys

import duckdb
from duckdb_extensions import import_extension

extensions = os.path.join(sys.prefix, "extensions")
con = duckdb.connect(config={"extension_directory": extensions})
import_extension("tpcds", con=con)
con.execute("LOAD tpcds")
rows = con.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
print(json.dumps({str(number): text for number, text in rows}))
