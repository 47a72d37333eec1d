# Answers queries over a database file, a line of JSON each. Arguments: the database, a memory
# limit, a thread count, a count of clients, and optionally an access mode other than the default,
# read and write by a single process. Each client has a connection and a thread of its own.
# Rows are drained as Arrow arrays, which are not converted to Python objects unless the request
# asks for the rows. values.py is prepended to this file.

import ctypes
import json
import os
import queue
import sys
import threading
import time

import duckdb


class Stream(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


ArrayPointer = ctypes.POINTER(Array)
StreamPointer = ctypes.POINTER(Stream)
Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.c_void_p),
    ("children", ctypes.c_void_p),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ArrayPointer)),
    ("private_data", ctypes.c_void_p),
]
Stream._fields_ = [
    ("get_schema", ctypes.c_void_p),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, StreamPointer, ArrayPointer)),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, StreamPointer)),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype = ctypes.c_void_p
pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def drain(con, sql):
    # As __arrow_c_stream__ of a relation, but without the relation: it would bind the text twice.
    capsule = con._submit(sql, None, "stream").arrow_capsule()
    stream = ctypes.cast(pointer_of(capsule, b"arrow_array_stream"), StreamPointer)
    rows = 0
    while True:
        array = Array()
        if stream.contents.get_next(stream, ctypes.byref(array)):
            raise RuntimeError(stream.contents.get_last_error(stream).decode())
        if not array.release:
            return rows
        rows += array.length
        array.release(ctypes.byref(array))


output = threading.Lock()


def say(client, seconds=0.0, rows=0, error=None, answer=None):
    reply = {"client": client, "seconds": seconds, "rows": rows, "error": error, "answer": answer}
    with output:
        print(json.dumps(reply), flush=True)


def attend(client, con, requests):
    # The progress bar of long queries would be printed between the replies.
    con.execute("SET enable_progress_bar = false")
    say(client)
    for request in iter(requests.get, None):
        sql = request["sql"]
        began = time.perf_counter()
        try:
            if request["answer"]:
                con.execute(sql)
                rows = [[shown(value) for value in row] for row in con.fetchall()]
                say(client, time.perf_counter() - began, len(rows), answer={"rows": rows})
                continue
            rows = drain(con, sql)
            say(client, time.perf_counter() - began, rows)
        except Exception as error:
            say(client, error=str(error))


database, memory, threads, clients = sys.argv[1:5]
config = {"memory_limit": memory, "threads": int(threads), "temp_directory": database + ".tmp"}
if sys.argv[5:]:
    config |= {"access_mode": sys.argv[5], "temp_directory": f"{database}.{os.getpid()}.tmp"}
connection = duckdb.connect(database, config=config)
queues = [queue.Queue() for _ in range(int(clients))]
for number, requests in enumerate(queues):
    work = (number, connection.cursor(), requests)
    threading.Thread(target=attend, args=work, daemon=True).start()
for line in sys.stdin:
    request = json.loads(line)
    queues[request["client"]].put(request)
# The input has ended: exits without waiting for running queries.
os._exit(0)
