"""Schedules over HTTP."""

from __future__ import annotations

from typing import Any

import holdfast

from .web_kit import Site

NIGHTLY = {"name": "nightly", "task": "double", "arguments": {"n": 2}, "cron": "0 3 * * *", "zone": "Europe/Paris"}


def test_a_schedule_is_made_shown_and_deleted(site: Site) -> None:
    made = site.post("/schedules", NIGHTLY)
    assert (made["name"], made["state"], made["cron"], made["arguments"]) == (
        "nightly",
        "active",
        "0 3 * * *",
        {"n": 2},
    )
    assert site.get("/schedules/nightly") == made
    assert [one["name"] for one in site.get("/schedules")["items"]] == ["nightly"]
    assert len(site.get("/schedules/nightly/next?count=3")["next"]) == 3
    assert site.delete("/schedules/nightly") == {"changed": True}
    assert site.refused("DELETE", "/schedules/nightly")[0] == 404


def test_a_schedule_is_edited_paused_and_resumed(site: Site, app: holdfast.App) -> None:
    site.post("/schedules", NIGHTLY)
    edited = site.patch("/schedules/nightly", {"cron": "0 4 * * *", "priority": 5, "reason": "later"})
    assert (edited["changed"], edited["schedule"]["cron"]) == (True, "0 4 * * *")
    assert site.patch("/schedules/nightly", {"cron": "0 4 * * *"})["changed"] is False
    assert site.post("/schedules/nightly/pause")["schedule"]["state"] == "paused"
    assert site.post("/schedules/nightly/pause")["changed"] is False
    assert site.get("/schedules/nightly/next")["next"] == []
    assert site.post("/schedules/nightly/resume")["changed"] is True
    assert site.post("/schedules/nightly/resume")["changed"] is False
    assert app.audit.list(action="schedule.edit")[0].reason == "later"


def test_a_schedule_is_run_now_and_for_the_past(site: Site, app: holdfast.App) -> None:
    site.post("/schedules", NIGHTLY)
    ran = site.post("/schedules/nightly/run")
    assert app.jobs.get(ran["job"]).task == "double"
    days = {"start": "2024-05-01T00:00:00Z", "end": "2024-05-03T00:00:00Z"}
    dry = site.post("/schedules/nightly/backfill", {**days, "dry_run": True})
    assert (dry["dry_run"], dry["made"]) == (True, ["2024-05-01T01:00:00Z", "2024-05-02T01:00:00Z"])
    assert site.post("/schedules/nightly/backfill", days)["made"] == dry["made"]
    assert site.post("/schedules/nightly/backfill", days)["existing"] == dry["made"]
    ticks = site.get("/schedules/nightly/ticks")["items"]
    assert [tick["tick"] for tick in ticks] == dry["made"][::-1]


def test_an_expression_is_tried_before_it_is_used(site: Site) -> None:
    found = site.get("/cron/preview", params={"cron": "0 3 * * *", "after": "2024-05-01T00:00:00Z", "count": 2})
    assert found["next"] == ["2024-05-01T03:00:00Z", "2024-05-02T03:00:00Z"]
    answer = site.call("GET", "/api/v1/cron/preview", params={"cron": "99 3 * * *", "after": "2024-05-01T00:00:00Z"})
    assert answer.status_code == 422


def test_unknown_schedules_are_not_found(site: Site) -> None:
    body: dict[str, Any] = {"start": "2024-05-01T00:00:00Z", "end": "2024-05-03T00:00:00Z"}
    for method, path, given in (
        ("GET", "/schedules/x", None),
        ("GET", "/schedules/x/ticks", None),
        ("GET", "/schedules/x/next", None),
        ("PATCH", "/schedules/x", {"priority": 1}),
        ("POST", "/schedules/x/run", {}),
        ("POST", "/schedules/x/backfill", body),
    ):
        assert site.refused(method, path, given)[0] == 404


def test_what_makes_no_schedule_is_named(site: Site) -> None:
    status, message = site.refused("POST", "/schedules", {**NIGHTLY, "task": "unheard"})
    assert (status, "unheard" in message) == (422, True)
    status, message = site.refused("POST", "/schedules", {**NIGHTLY, "every": 60})
    assert (status, "give one" in message) == (422, True)
    status, message = site.refused("POST", "/schedules", {**NIGHTLY, "zone": "Mars/Olympus"})
    assert (status, "Mars/Olympus" in message) == (422, True)
    status, message = site.refused("POST", "/schedules", {**NIGHTLY, "arguments": {"m": 1}})
    assert status == 422
    status, message = site.refused("POST", "/schedules", {**NIGHTLY, "missed": "some"})
    assert (status, "missed" in message) == (400, True)
    site.post("/schedules", NIGHTLY)
    assert site.refused("POST", "/schedules", NIGHTLY)[0] == 409


def test_a_list_goes_on_where_it_ended(site: Site) -> None:
    for name in ("a", "b", "c"):
        site.post("/schedules", {**NIGHTLY, "name": name})
    first = site.get("/schedules?limit=2")
    rest = site.get(f"/schedules?limit=2&after={first['next']}")
    assert [one["name"] for one in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert rest["next"] is None
    assert site.refused("GET", "/schedules?after=bogus")[0] == 422


def test_a_viewer_sees_no_arguments_and_changes_nothing(site: Site, app: holdfast.App) -> None:
    site.post("/schedules", NIGHTLY)
    viewer = site.as_role("viewer")
    assert viewer.get("/schedules/nightly")["arguments"] is None
    assert viewer.get("/schedules")["items"][0]["arguments"] is None
    assert viewer.refused("POST", "/schedules/nightly/run")[0] == 403
    assert app.audit.list(action="access.refused")[0].target == "POST /schedules/nightly/run"


def test_a_tenants_schedules_are_its_own(site: Site, app: holdfast.App) -> None:
    site.post("/schedules", NIGHTLY)
    acme = site.as_role("operator", tenant="acme")
    assert acme.get("/schedules")["items"] == []
    assert acme.refused("GET", "/schedules/nightly")[0] == 404
    acme.post("/schedules", NIGHTLY)
    assert acme.get("/schedules/nightly")["name"] == "nightly"
    job = acme.post("/schedules/nightly/run")["job"]
    assert app.jobs.get(job).tenant == "acme"
    shown = site.get("/schedules?limit=1")
    shown["items"] += site.get(f"/schedules?limit=1&after={shown['next']}")["items"]
    assert [(one["tenant"], one["name"]) for one in shown["items"]] == [("", "nightly"), ("acme", "nightly")]
    assert site.get("/schedules/nightly")["tenant"] == ""
    assert site.get("/schedules/nightly?tenant=acme")["tenant"] == "acme"
    site.post("/schedules/nightly/pause?tenant=acme")
    assert (acme.get("/schedules/nightly")["state"], site.get("/schedules/nightly")["state"]) == ("paused", "active")
    assert [(one["target"], one["tenant"]) for one in site.get("/audit?action=schedule.pause")["items"]] == [
        ("nightly", "acme")
    ]
