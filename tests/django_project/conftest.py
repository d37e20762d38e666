"""The project on a database of its own, with its commands, its servers and its worker as processes.

Every test runs on SQLite and on Postgres; in `make test` on one of them, in turn.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

import httpx2
import pytest

from tests.patience import SOON
from tests.postgres_server import Databases
from tests.turns import take_turns

ROOT: Final = Path(__file__).parent.parent.parent
SETTINGS: Final = "tests.django_project.settings"
_WSGI: Final = ("-m", "gunicorn", "tests.django_project.wsgi", "--bind", "fd://{fd}", "--log-level", "warning")
SERVERS: Final = {
    "uvicorn": (
        *("-m", "uvicorn", "tests.django_project.asgi:application", "--fd", "{fd}", "--log-level", "warning"),
        # It would wait for browsers to close live pages.
        *("--timeout-graceful-shutdown", "1"),
    ),
    "gunicorn with threads": (*_WSGI, "--threads", "4"),
    "gunicorn with forks": (*_WSGI, "--workers", "2", "--preload"),
}
_USERS: Final = """
import django; django.setup()
from django.contrib.auth.models import Permission, User
for name, codename in (("vera", "view_job"), ("otto", "operate_job"), ("ada", "administer_job"), ("nils", None)):
    user = User.objects.create_user(name, password="pw", is_staff=True)
    if codename: user.user_permissions.add(Permission.objects.get(codename=codename))
"""


@dataclass
class Project:
    """The project's processes. They are ended with the test."""

    where: str
    folder: Path
    _open: ExitStack = field(default_factory=ExitStack)

    @property
    def environment(self) -> dict[str, str]:
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST", "DJANGO", "PYTEST"))
        }
        path = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        return own | {"HOLDFAST_TEST_DATABASE": self.where, "DJANGO_SETTINGS_MODULE": SETTINGS, "PYTHONPATH": path}

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python to its end."""
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=self.environment, cwd=ROOT, text=True, capture_output=True, timeout=300)

    def prepare(self) -> None:
        """Migrate, and create the users."""
        for arguments in (("-m", "django", "migrate", "--verbosity", "0"), ("-c", _USERS)):
            done = self.python(*arguments)
            assert done.returncode == 0, done.stderr

    def serve(self, server: str) -> str:
        """Start a server on loopback; return its address."""
        listening = self._open.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.set_inheritable(True)
        command = [part.format(fd=listening.fileno()) for part in SERVERS[server]]
        self._start(command, pass_fds=(listening.fileno(),))
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    def work(self) -> None:
        """Start a worker."""
        self._start(["-m", "django", "holdfast_worker", "--concurrency", "2"])

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def _start(self, command: list[str], **how: Any) -> None:
        log: IO[bytes] = self._open.enter_context((self.folder / "log").open("ab"))
        process = subprocess.Popen(
            [sys.executable, *command], env=self.environment, cwd=ROOT, stdout=log, stderr=log, **how
        )
        self._open.callback(_end, process)

    def close(self) -> None:
        self._open.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(SOON)
    finally:
        process.kill()
        process.wait(SOON)


@contextmanager
def logged_in(address: str, name: str | None) -> Iterator[httpx2.Client]:
    """A browser without script in which a user has logged in by Django's own page."""
    with httpx2.Client(base_url=address, timeout=SOON, follow_redirects=True) as client:
        page = client.get("/admin/login/")
        if name is not None:
            form = {"username": name, "password": "pw", "csrfmiddlewaretoken": client.cookies["csrftoken"]}
            page = client.post("/admin/login/?next=/admin/", data=form, headers={"referer": address})
            assert page.status_code == 200
            assert "sessionid" in client.cookies
        yield client


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for fixture in ("project", "served_project"):
        take_turns(items, Path(__file__).parent, fixture, ["sqlite", "postgres"])


@pytest.fixture(params=["sqlite", "postgres"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    """The project on an empty database."""
    where = str(tmp_path) if request.param == "sqlite" else request.getfixturevalue("blank_postgres_dsn")
    return Project(where, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def served_project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    """The project with its tables and users, to serve and to work for."""
    made = request.getfixturevalue(f"{request.param}_project")(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def sqlite_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Project]:
    template = tmp_path_factory.mktemp("django")
    Project(str(template), template).prepare()

    def copy(folder: Path) -> Project:
        shutil.copy(template / "project.db", folder)
        return Project(str(folder), folder)

    return copy


@pytest.fixture(scope="session")
def postgres_project(
    postgres_databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Path], Project]]:
    template, made = postgres_databases.create(), list[str]()
    Project(template, tmp_path_factory.mktemp("django")).prepare()

    def copy(folder: Path) -> Project:
        made.append(postgres_databases.create(template))
        return Project(made[-1], folder)

    yield copy
    for dsn in (*made, template):
        postgres_databases.drop(dsn)
