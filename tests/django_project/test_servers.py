"""The project under real servers, with a real worker beside them."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.django_project.conftest import SERVERS, Project, logged_in
from tests.patience import SOON


@pytest.mark.timeout(300)
@pytest.mark.parametrize("server", SERVERS)
def test_a_server_enqueues_and_serves_the_dashboard(served_project: Project, server: str) -> None:
    project = served_project
    address = project.serve(server)
    project.work()
    with logged_in(address, "otto") as client:
        for path in ("/enqueue/", "/enqueue-async/"):
            assert_runs(client, client.get(path).json()["id"])
        undone = client.get("/enqueue/?undo").json()["id"]
        assert client.get(f"/jobs/api/v1/jobs/{undone}").status_code == 404
        assert_acts_by_form(client)
        assert_shows_changes(client, ends=server != "uvicorn")
        assert client.get("/jobs/store").status_code == 200
        # More at once than there are processes and threads.
        with ThreadPoolExecutor(8) as together:
            assert set(together.map(lambda _: client.get("/jobs/jobs").status_code, range(24))) == {200}
    assert "Traceback" not in project.log(), project.log()


def assert_runs(client: httpx2.Client, id: str) -> None:
    deadline = time.monotonic() + SOON
    while (answer := client.get(f"/result/{id}/").json())["status"] != "SUCCESSFUL":
        assert answer["status"] in ("READY", "RUNNING")
        assert time.monotonic() < deadline
        time.sleep(0.05)


def assert_acts_by_form(client: httpx2.Client) -> None:
    """Pause a queue on its page, with the token that the page has."""
    page = client.get("/jobs/queues/default").text
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
    assert token is not None
    assert client.post("/jobs/queues/reports/pause", data={}).status_code == 403
    done = client.post("/jobs/queues/reports/pause", data={"csrfmiddlewaretoken": token[1]})
    assert done.status_code == 200
    assert "toast-text" in done.text
    assert client.get("/jobs/api/v1/queues/reports").json()["state"] == "paused"


def assert_shows_changes(client: httpx2.Client, *, ends: bool) -> None:
    """Follow a live page: one server holds it open, the others end it and ask the browser to come back."""
    events: list[str] = []
    with client.stream("GET", "/jobs/live?page=/jobs") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line.startswith("event: "):
                events.append(line.removeprefix("event: "))
                if events[-1] == "part" and not ends:
                    break
    assert events[0] == "part"
    assert (events[-1] == "later") == ends
