"""PgBouncer in transaction mode in front of a server, both on unix sockets in one folder of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.postgres_server import PostgresServer

PORT = 6432
_SETTINGS = """
[databases]
* = host={folder} user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
unix_socket_mode = 0777
listen_port = {port}
auth_type = any
pool_mode = transaction
default_pool_size = 4
reserve_pool_size = 0
max_client_conn = 300
logfile = {folder}/bouncer.log
"""


@contextmanager
def bouncer(server: PostgresServer) -> Iterator[str]:
    """The DSN through the pool: four connections to the server, for however many clients."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    assert program, "these tests need PgBouncer: apt-get install pgbouncer"
    folder = str(conninfo_to_dict(server.dsn)["host"])
    settings = Path(folder) / "bouncer.ini"
    settings.write_text(_SETTINGS.format(folder=folder, port=PORT))
    settings.chmod(0o644)
    # It refuses to run as root, as the server does.
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    process = subprocess.Popen([program, "-q", *user, str(settings)], stdin=subprocess.DEVNULL)
    dsn = make_conninfo(server.dsn, port=PORT)
    try:
        _await_ready(dsn)
        yield dsn
    finally:
        process.terminate()
        process.wait(30)


def _await_ready(dsn: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            psycopg.connect(dsn).close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
