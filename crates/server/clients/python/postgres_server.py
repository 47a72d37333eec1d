"""A PostgreSQL server of this machine, beside the server that is tested."""

import contextlib
import glob
import os
import pathlib
import pwd
import subprocess
import tempfile

NAME = "postgres"


def binaries():
    """The directory of the programs of the newest PostgreSQL server of this machine."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    newest = max(found, key=lambda path: int(pathlib.Path(path).parts[4]))
    return pathlib.Path(newest).parent


@contextlib.contextmanager
def server():
    """A PostgreSQL server at a socket of a directory that goes with it."""
    with tempfile.TemporaryDirectory() as home:
        as_user = {}
        # It does not run as root.
        if os.geteuid() == 0:
            as_user = dict(user=NAME, group=pwd.getpwnam(NAME).pw_gid, extra_groups=[])
            os.chown(home, pwd.getpwnam(NAME).pw_uid, pwd.getpwnam(NAME).pw_gid)
        data = f"{home}/data"
        environment = {**os.environ, "HOME": home}
        quiet = dict(check=True, stdout=subprocess.DEVNULL, cwd="/", env=environment, **as_user)
        subprocess.run([binaries() / "initdb", "-D", data, "-U", NAME, "--auth=trust"], **quiet)
        control = [binaries() / "pg_ctl", "-D", data, "-w", "-l", f"{home}/log"]
        options = f"-c listen_addresses= -c unix_socket_directories={home} -c fsync=off"
        subprocess.run([*control, "-o", options, "start"], **quiet)
        try:
            yield f"host={home} user={NAME} dbname={NAME}"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], **quiet)
