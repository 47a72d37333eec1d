"""Checks of a client: functions that are run one after the other, each told in a line of TAP.

The address comes from the environment: HOST, PORT, USER, PASSWORD and DATABASE with the prefix
TERRACE_, and TERRACE_SSLMODE.
"""

import asyncio
import inspect
import os
import sys
import traceback
from urllib.parse import quote

HOST = os.environ.get("TERRACE_HOST", "127.0.0.1")
PORT = int(os.environ["TERRACE_PORT"])
USER = os.environ["TERRACE_USER"]
PASSWORD = os.environ.get("TERRACE_PASSWORD", "")
DATABASE = os.environ.get("TERRACE_DATABASE", "main")
SSLMODE = os.environ.get("TERRACE_SSLMODE", "require")

URL = f"{USER}:{quote(PASSWORD)}@{HOST}:{PORT}/{DATABASE}"

_checks = []


def check(function):
    """Registers a check. Its name is what it sees."""
    _checks.append(function)
    return function


def run():
    """Runs every check, and ends with an error where one has failed."""
    failed = 0
    print(f"1..{len(_checks)}")
    for number, function in enumerate(_checks, 1):
        name = function.__name__.replace("_", " ")
        try:
            if inspect.iscoroutinefunction(function):
                asyncio.run(asyncio.wait_for(function(), 120))
            else:
                function()
            print(f"ok {number} - {name}", flush=True)
        except BaseException:
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            for line in traceback.format_exc().splitlines():
                print(f"# {line}", flush=True)
    sys.exit(1 if failed else 0)


def same(found, expected):
    """Fails unless both are equal."""
    assert found == expected, f"{found!r} is not {expected!r}"
