"""Workers over HTTP."""

from __future__ import annotations

import holdfast

from .web_kit import Site


def test_workers_are_listed_and_shown(site: Site, app: holdfast.App) -> None:
    assert site.get("/workers") == {"items": [], "next": None}
    with app.worker(name="bench", concurrency=3):
        (worker,) = site.get("/workers")["items"]
        assert (worker["name"], worker["state"], worker["concurrency"]) == ("bench", "alive", 3)
        assert site.get(f"/workers/{worker['id']}")["id"] == worker["id"]


def test_workers_tell_what_they_run(site: Site, app: holdfast.App) -> None:
    worker = app.remote.register("rusty", ["default"], ["double"], concurrency=3).worker
    jobs = [app.enqueue(app.tasks["double"].job(n)).id for n in range(2)]
    app.remote.claim(worker, 2)
    for path in ("/workers", "/stats/workers"):
        (told,) = site.get(path)["items"]
        assert (told["running"], sorted(told["oldest"])) == (2, jobs), path
    assert site.get(f"/workers/{worker}")["running"] == 2


def test_a_worker_is_declared_dead_once(site: Site, app: holdfast.App) -> None:
    with app.worker(name="bench"):
        (worker,) = site.get("/workers")["items"]
        done = site.post(f"/workers/{worker['id']}/dead", {"reason": "the machine is gone"})
        assert (done["changed"], done["again"], done["worker"]) == (True, False, worker["id"])
        again = site.post(f"/workers/{worker['id']}/dead", {"reason": "the machine is gone"})
        assert (again["changed"], again["again"]) == (False, True)


def test_an_unknown_worker_is_not_found_and_a_reason_is_needed(site: Site) -> None:
    assert site.refused("GET", "/workers/x")[0] == 404
    assert site.refused("POST", "/workers/x/dead", {"reason": "why not"})[0] == 404
    status, message = site.refused("POST", "/workers/x/dead", {})
    assert (status, "reason" in message) == (400, True)


def test_a_viewer_declares_nobody_dead_and_a_tenant_sees_nobody(site: Site, app: holdfast.App) -> None:
    assert site.as_role("viewer").refused("POST", "/workers/x/dead", {"reason": "x"})[0] == 403
    assert len(app.audit.list(action="access.refused")) == 1
    assert site.as_role("viewer", tenant="acme").refused("GET", "/workers")[0] == 403
