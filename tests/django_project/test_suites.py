"""The project's own tests, by Django's test runner: the tasks backend, the dashboard and the admin."""

from __future__ import annotations

import re

import pytest

from tests.django_project.conftest import Project

_COUNTED = re.compile(r"^Ran (\d+) tests", re.MULTILINE)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("suite", "least"), [("backend_suite.py", 32), ("dashboard_suite.py", 32)])
def test_the_projects_own_tests_pass(project: Project, suite: str, least: int) -> None:
    done = project.python("-m", "django", "test", "--noinput", "--pattern", suite, "tests.django_project")
    counted = _COUNTED.search(done.stderr)
    assert done.returncode == 0 and counted is not None and int(counted[1]) >= least, done.stderr[-20_000:]
