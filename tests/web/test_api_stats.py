"""Numbers over HTTP."""

from __future__ import annotations

import holdfast

from .web_kit import Site


def test_queues_and_workers_are_counted_now(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    (queue,) = site.get("/stats/queues")["items"]
    assert (queue["name"], queue["counts"]["waiting"], queue["workers"]) == ("default", 1, 0)
    assert site.get("/stats/workers")["items"] == []


def test_limits_show_how_full_they_are(site: Site, app: holdfast.App) -> None:
    app.limits.set_concurrency(4, task="double")
    (limit,) = site.get("/stats/limits")["items"]
    assert (limit["kind"], limit["key"], limit["saturation"]) == ("concurrency", "task:double", 0)


def test_minutes_that_nobody_has_closed_are_empty(site: Site) -> None:
    assert site.get("/stats/throughput")["items"] == []
    assert site.get("/stats/timeline?minutes=240")["items"] == []
    assert site.get("/stats/series?queue=default&metric=wait&before=2024-05-01T00:00:00Z")["items"] == []


def test_what_there_is_not_is_named(site: Site) -> None:
    for path, name in (
        ("/stats/series?queue=default&metric=joy", "metric"),
        ("/stats/series?metric=wait", "queue"),
        ("/stats/timeline?minutes=241", "minutes"),
        ("/stats/throughput?hours=1", "hours"),
    ):
        status, message = site.refused("GET", path)
        assert (status, name in message) == (400, True), path


def test_a_tenant_sees_its_own_queues_alone(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1), tenant="acme")
    acme = site.as_role("viewer", tenant="acme")
    assert acme.get("/stats/queues")["items"][0]["counts"]["waiting"] == 1
    assert site.as_role("viewer", tenant="globex").get("/stats/queues")["items"] == []
    for part in ("throughput", "timeline", "limits", "workers"):
        assert acme.refused("GET", f"/stats/{part}")[0] == 403
