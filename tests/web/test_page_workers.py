"""The page of workers."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import holdfast
from holdfast.model.routing import Stranded
from holdfast.model.stats import Vitals, WorkerStats
from holdfast.model.workers import WorkerInfo
from holdfast.web.pages.workers import rows_of, shows
from tests.patience import SOON

from .form_kit import answer_of, live_parts, open_page, post, send
from .web_kit import Site


def test_without_workers_it_says_how_to_start_one(site: Site) -> None:
    assert "No workers yet" in open_page(site, "/workers")


def test_a_worker_is_shown_with_what_it_runs(site: Site, app: holdfast.App) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.task(queue="slow")
    def wait() -> None:
        begun.set()
        go_on.wait(SOON)

    app.enqueue(wait.job())
    with app.worker(concurrency=3, name="w<1>"):
        assert begun.wait(SOON)
        page = open_page(site, "/workers")
        parts = live_parts(site, "/workers")
        go_on.set()
    assert "w&lt;1&gt;" in page
    assert "1 / 3" in page
    assert "wait" in page and "Alive" in page
    assert parts == 3


def test_jobs_that_nobody_can_run_stand_at_the_top(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].options(requires=["gpu"]).job(1))
    page = open_page(site, "/workers")
    assert "1 queue has no matching worker" in page


def test_a_worker_is_declared_dead_with_a_reason_once(site: Site, app: holdfast.App) -> None:
    with app.worker(concurrency=1, name="w1"):
        (worker,) = (one for one in app.workers.list() if one.name == "w1")
        assert f"/workers/{worker.id}/dead" in open_page(site, "/workers")
        status, page = answer_of(site, f"/workers/{worker.id}/dead")
        assert (status, "Mark this worker dead?" in page, "required" in page) == (200, True, True)
        assert answer_of(site, f"/workers/{worker.id}/dead", confirmed="yes")[0] == 200
        _, said = send(site, f"/workers/{worker.id}/dead", confirmed="yes", reason="the host burned down")
        assert "of its jobs rescued" in said
        _, said = send(site, f"/workers/{worker.id}/dead", confirmed="yes", reason="again")
        assert "nothing changed" in said
    (record,) = app.audit.list(action="worker.dead")
    assert (record.actor, record.reason) == ("local", "the host burned down")


def test_a_worker_that_nobody_knows_is_said_so(site: Site) -> None:
    _, said = send(site, "/workers/nobody/dead", confirmed="yes", reason="gone")
    assert '"ok": false' in said


def test_viewers_see_no_actions_and_tenants_no_workers(site: Site, app: holdfast.App) -> None:
    with app.worker(concurrency=1, name="w1"):
        viewer = site.as_role("viewer")
        page = open_page(viewer, "/workers")
        assert "w1" in page
        assert "/dead" not in page
        (worker,) = (one for one in app.workers.list() if one.name == "w1")
        assert post(viewer, f"/workers/{worker.id}/dead", confirmed="yes", reason="x").status_code == 403
        assert open_page(site.as_role("operator", tenant="acme"), "/workers", 403)


def _worker(name: str, state: str = "alive") -> WorkerInfo:
    now = datetime.now(UTC)
    return WorkerInfo(
        id=name, name=name, host="h", pid=1, state=state, queues=("mail",), tasks=(), concurrency=2, capabilities=(),
        resident=(), versions={}, version="1.0", started_at=now, beat_at=now, lease=1.0, lease_until=now, running=0,
        oldest=(),
    )  # fmt: skip


def _stats(name: str) -> WorkerStats:
    return WorkerStats(
        id=name, name=name, host="h", pid=1, queues=(), state="x", slots=2, running=0, oldest=(), beat_age=0.0,
        vitals=Vitals(cpu=0.5, rss=100),
    )  # fmt: skip


def test_those_that_live_come_first_and_figures_count_them_alone() -> None:
    stats = [_stats("a"), _stats("b")]
    rows = rows_of([_worker("a", "lost"), _worker("b")], stats, [])
    assert [(row.worker.name, row.state) for row in rows] == [("b", "alive"), ("a", "lost")]
    shown = shows(rows, [Stranded("mail", "j", "no_worker", "nobody")], [])
    assert (shown["live"], shown["lost"], shown["slots"], shown["rss"]) == (1, 1, 2, 100)
    assert shown["stranded_queues"] == 1


def test_workers_of_one_process_are_measured_once() -> None:
    stats = [_stats("a"), _stats("b")]
    shown = shows(rows_of([_worker("a"), _worker("b")], stats, []), [], [])
    assert (shown["live"], shown["slots"], shown["rss"]) == (2, 4, 100)
