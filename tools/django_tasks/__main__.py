"""`python -m tools.django_tasks 6.1`: run Django's own tests of its tasks framework against Holdfast's backend.

They come from Django's source distribution, of which nothing is kept. Their backends are replaced by ours: where they
use the dummy backend ours stores, where they use the immediate one ours also runs the task with a worker. For Django
5.2 the tests of 6.0 run against the package django-tasks. `make test-django` runs it with all versions and both stores.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from tests.postgres_server import running_server

_SUITES: Final = {"5.2": "6.0.*", "6.0": "6.0.*", "6.1": "6.1.*"}
"""The version of Django whose tests run, by the version that is installed."""

DIFFERENCES: Final = {
    "ImmediateBackendTestCase.test_cannot_get_result": "results can be read",
    "ImmediateBackendTestCase.test_cannot_refresh_result": "results can be refreshed",
    "ImmediateBackendTestCase.test_cannot_pass_run_after": "run_after is supported",
    "ImmediateBackendTestCase.test_throws_keyboard_interrupt": "a worker records it as the error of the task",
    "DummyBackendTestCase.test_refresh_result": "it changes the dummy's list in memory, and ours is a database",
    "DummyBackendTestCase.test_refresh_result_async": "it changes the dummy's list in memory, and ours is a database",
}
"""Tests that must fail, each with the reason."""

_CHANGES: Final = (
    (r"django\.tasks\.backends\.(?:dummy|immediate)", "tools.django_tasks.backends"),
    # Ours uses the database, which SimpleTestCase forbids. Some tests call blocking methods on an event loop, in a
    # thread that does not see the transaction of a TestCase.
    (r"\bSimpleTestCase, TransactionTestCase\b", "TransactionTestCase"),
    (r"\bSimpleTestCase\b", "TransactionTestCase"),
    (r"    available_apps = \[\]\n", ""),
    # A name that is not that of a module of our repository.
    (r'"tasks\.tasks\.', '"django_suite.tasks.'),
)
_ON_PACKAGE: Final = (
    (r"\bdjango\.tasks\b", "django_tasks"),
    (r"\bInvalidTask\b", "InvalidTaskError"),
    (r"\bInvalidTaskBackend\b", "InvalidTaskBackendError"),
    # Its words before they were changed in Django.
    (r"does not support async Tasks\.", "does not support async tasks."),
    # The words of Python 3.12.
    (r'"without an implementation for abstract method \'enqueue\'"', '""'),
)
_PACKAGE: Final = "django_suite"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.django_tasks")
    parser.add_argument("version", choices=sorted(_SUITES), help="the installed version of Django")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server() if given.store == "postgres" else nullcontext(folder) as where,
    ):
        os.environ["HOLDFAST_TEST_DATABASE"] = where
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.django_project.settings"
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
        _write_suite(_SUITES[given.version], Path(folder), on_package=given.version == "5.2")
        sys.path.insert(0, folder)
        sys.exit(_report(given.version, given.store, _run(given.version)))


def _write_suite(release: str, folder: Path, *, on_package: bool) -> None:
    """Write Django's tests, with our backends in them, as a package into a folder."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    # The tests of 6.0 also run on Python 3.11, with Django 5.2.
    source = ["--ignore-requires-python", "--no-binary", "django", "--dest", str(folder), f"django=={release}"]
    subprocess.run([*command, *source], check=True)
    (archive,) = folder.glob("[Dd]jango-*.tar.gz")
    suite = folder / _PACKAGE
    suite.mkdir()
    with tarfile.open(archive) as files:
        for member in files.getmembers():
            if re.fullmatch(r"[^/]+/tests/tasks/\w+\.py", member.name):
                text = files.extractfile(member).read().decode()  # type: ignore[union-attr]
                for pattern, instead in (*_CHANGES, *(_ON_PACKAGE if on_package else ())):
                    text = re.sub(pattern, instead, text)
                (suite / Path(member.name).name).write_text(text)


def _run(version: str) -> unittest.TestResult:
    import django
    from django.db import connection
    from django.test.runner import DiscoverRunner

    if not django.get_version().startswith(f"{version}."):
        sys.exit(f"Django {django.get_version()} is installed here, not {version}; use the environment of {version}")
    django.setup()

    class Runner(DiscoverRunner):  # type: ignore[misc]
        """Keeps the result, of which Django's own runner returns only the number of failures."""

        def suite_result(self, suite: Any, result: Any, **kwargs: Any) -> Any:
            self.result = result
            return super().suite_result(suite, result, **kwargs)

        def teardown_databases(self, old_config: Any, **kwargs: Any) -> None:
            """Close the sessions of event loops that have ended: Postgres drops no database that has any."""
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute(
                        "select pg_terminate_backend(pid) from pg_stat_activity"
                        " where datname = current_database() and pid <> pg_backend_pid()"
                    )
            super().teardown_databases(old_config, **kwargs)

    importlib.invalidate_caches()
    runner = Runner(verbosity=0, interactive=False)
    runner.run_tests([_PACKAGE])
    return runner.result  # type: ignore[no-any-return]


def _report(version: str, store: str, result: unittest.TestResult) -> int:
    failed = {_name(test) for test, _ in (*result.failures, *result.errors)}
    unexpected, missing = sorted(failed - DIFFERENCES.keys()), sorted(DIFFERENCES.keys() - failed)
    for name in sorted(failed & DIFFERENCES.keys()):
        print(f"differs: {name}: {DIFFERENCES[name]}")
    for name in unexpected:
        print(f"FAILED: {name}")
    for name in missing:
        print(f"PASSED, but is listed as a difference: {name}")
    passed = result.testsRun - len(failed)
    print(f"Django {version} on {store}: {passed} of {result.testsRun} pass, {len(failed) - len(unexpected)} differ")
    return bool(unexpected or missing)


def _name(test: Any) -> str:
    case = getattr(test, "test_case", test)  # a subtest belongs to its test
    return ".".join(case.id().split(".")[-2:])


if __name__ == "__main__":
    main()
