"""Limits over HTTP: concurrency, rates and totals."""

from __future__ import annotations

import holdfast

from .web_kit import Site


def test_limits_are_set_shown_and_removed(site: Site) -> None:
    assert site.put("/limits/tasks/double", {"most": 3}) == {"most": 3}
    assert site.put("/limits/queues/mail", {"most": 2}) == {"most": 2}
    shown = site.get("/limits")
    assert {(lane["key"], lane["capacity"]) for lane in shown["lanes"]} == {("task:double", 3), ("queue:mail", 2)}
    assert site.delete("/limits/tasks/double") == {"changed": True}
    assert site.delete("/limits/tasks/double") == {"changed": False}
    assert site.delete("/limits/queues/mail?reason=enough") == {"changed": True}
    assert site.get("/limits")["lanes"] == []


def test_rates_are_set_drained_and_removed(site: Site, app: holdfast.App) -> None:
    site.put("/limits/rates/openai", {"capacity": 10, "per_second": 0.5})
    (rate,) = site.get("/limits")["rates"]
    assert (rate["scope"], rate["capacity"], rate["refill"], rate["origin"]) == ("openai", 10, 0.5, "operator")
    site.post("/limits/rates/openai/drain", {"reason": "they refuse us"})
    assert app.audit.list(action="rate.drain")[0].reason == "they refuse us"
    assert site.get("/limits")["rates"][0]["tokens"] < 1
    assert site.delete("/limits/rates/openai")["changed"] is True
    assert site.delete("/limits/rates/openai")["changed"] is False


def test_totals_are_set_and_removed(site: Site, app: holdfast.App) -> None:
    assert site.put("/limits/totals/mail", {"total": 7}) == {"queue": "mail", "total": 7}
    assert site.get("/limits")["totals"] == {"mail": 7}
    assert site.delete("/limits/totals/mail")["changed"] is True
    assert site.delete("/limits/totals/mail")["changed"] is False
    assert len(app.audit.list(action="queue.total")) == 2


def test_a_limit_that_cannot_be_is_refused_by_name(site: Site) -> None:
    status, message = site.refused("PUT", "/limits/tasks/double", {"most": 0})
    assert (status, "most" in message) == (400, True)
    status, message = site.refused("PUT", "/limits/rates/openai", {"capacity": 1, "per_second": -1})
    assert (status, "per_second" in message) == (400, True)
    assert site.refused("PUT", "/limits/tasks/double", {})[0] == 400


def test_a_viewer_looks_and_does_not_set(site: Site, app: holdfast.App) -> None:
    viewer = site.as_role("viewer")
    assert viewer.get("/limits")["lanes"] == []
    assert viewer.refused("PUT", "/limits/tasks/double", {"most": 3})[0] == 403
    assert viewer.refused("DELETE", "/limits/rates/openai")[0] == 403
    assert len(app.audit.list(action="access.refused")) == 2


def test_a_tenant_sees_the_limits_of_its_own_keys_alone(site: Site) -> None:
    site.put("/limits/tasks/double", {"most": 3})
    acme = site.as_role("operator", tenant="acme")
    assert acme.get("/limits") == {"lanes": [], "rates": [], "totals": {}, "breakers": []}
    assert acme.refused("PUT", "/limits/tasks/double", {"most": 1})[0] == 403
