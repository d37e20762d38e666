"""Tasks of Django's framework in processes of their own."""

from __future__ import annotations

import json

import pytest

from tests.django_project.conftest import Project

_ISOLATED = """
import django, json, os; django.setup()
from holdfast.contrib.django import app
from tests.django_project.tasks import apart
result = apart.enqueue()
app.drain()
app.jobs.run_now(result.id)
app.drain()
result.refresh()
print(json.dumps([str(result.status), os.getpid(), *result.return_value]))
"""


# Six processes import Django, one after another.
@pytest.mark.timeout(300)
def test_an_isolated_task_is_retried_in_a_child_process_and_knows_its_errors(served_project: Project) -> None:
    done = served_project.python("-c", _ISOLATED)
    assert done.returncode == 0, done.stderr
    status, parent, child, errors = json.loads(done.stdout.splitlines()[-1])
    assert (status, errors) == ("SUCCESSFUL", 1)
    assert child != parent
