"""The example project, copied into a folder of its own and run as programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.postgres_server import url_of

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "django"
_WAIT = 120
_COMMON = {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", "DJANGO_SETTINGS_MODULE": "shop.settings"}


class Shop:
    """A copy of the example, on a SQLite file beside it or on a Postgres database."""

    def __init__(self, folder: Path, dsn: str | None = None) -> None:
        self.folder = Path(shutil.copytree(EXAMPLE, folder / "shop", ignore=shutil.ignore_patterns("__pycache__")))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "DJANGO_"))}
        where = {"SQLITE_FILE": str(self.folder / "shop.db")} if dsn is None else {"DATABASE_URL": url_of(dsn)}
        self.environment = kept | where | _COMMON
        self.log = folder / "log"

    def run(self, *command: str, code: int = 0) -> str:
        """Run a Python program to its end; return what it printed."""
        done = self._done(*command)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def pytest(self, *options: str) -> str:
        """Run the example's pytest suite with pytest-django, and without the plugins of everything else installed."""
        self.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        plugins = ("-p", "pytest_django.plugin", "-p", "xdist.plugin", "-p", "no:cacheprovider")
        return self.run("-m", "pytest", "-q", *plugins, *options)

    def manage(self, *arguments: str, code: int = 0) -> str:
        """Run `manage.py` to its end; return what it printed."""
        return self.run("manage.py", *arguments, code=code)

    def ask(self, code: str) -> Any:
        """Return the value that a piece of the project's code gives to `answer`."""
        script = f"import json, django; django.setup()\n{code}\nprint(json.dumps(answer, default=str))"
        done = self._done("-c", script)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def _done(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *command], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=_WAIT,
        )  # fmt: skip

    @contextmanager
    def running(self, *arguments: str, until: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """Run `manage.py` meanwhile, from when it has printed `until`."""
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", *arguments], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
        try:
            self.await_log(until, begin)
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def await_log(self, text: str, begin: int = 0, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait until a program has printed a text."""
        deadline = time.monotonic() + _WAIT
        while text not in self.log.read_text()[begin:]:
            assert time.monotonic() < deadline, f"{text!r} is not in\n{self.log.read_text()}"
            meanwhile()
            time.sleep(0.05)
