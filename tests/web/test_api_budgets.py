"""Budgets over HTTP."""

from __future__ import annotations

import holdfast

from .web_kit import Site


def test_a_budget_is_made_and_shown_exactly(site: Site) -> None:
    made = site.put("/budgets/team", {"limits": {"usd": "49.50", "tokens": 1_000_000}, "every": "1d"})
    assert made["changed"] is True
    lines = {line["dimension"]: line["limit"] for line in site.get("/budgets/team")["dimensions"]}
    assert lines == {"tokens": "1000000", "usd": "49.5"}
    assert site.put("/budgets/team", {"limits": {"usd": 49.5}})["changed"] is False
    assert [one["name"] for one in site.get("/budgets")["items"]] == ["team"]


def test_a_budget_is_spent_raised_reset_and_deleted(site: Site, app: holdfast.App) -> None:
    site.put("/budgets/team", {"limits": {"usd": 10}})
    spent = site.post("/budgets/team/spend", {"amounts": {"usd": "12.25"}, "key": "r1"})
    assert (spent["changed"], [one["kind"] for one in spent["crossed"]]) == (True, ["hard"])
    assert site.post("/budgets/team/spend", {"amounts": {"usd": "12.25"}, "key": "r1"})["again"] is True
    raised = site.post("/budgets/team/raise", {"limits": {"usd": 20}, "reason": "more customers"})
    assert (raised["changed"], raised["budget"]["dimensions"][0]["left"]) == (True, "7.75")
    assert site.post("/budgets/team/raise", {"limits": {"usd": 20}})["changed"] is False
    assert site.post("/budgets/team/reset") == {"changed": True}
    assert site.post("/budgets/team/reset") == {"changed": False}
    assert site.delete("/budgets/team") == {"changed": True}
    assert site.delete("/budgets/team") == {"changed": False}
    assert app.audit.list(action="budget.raise")[0].reason == "more customers"


def test_unknown_budgets_and_dimensions_are_named(site: Site) -> None:
    assert site.refused("GET", "/budgets/x")[0] == 404
    assert site.refused("POST", "/budgets/x/raise", {"limits": {"usd": 1}})[0] == 404
    assert site.refused("POST", "/budgets/x/spend", {"amounts": {"usd": 1}})[0] == 404
    site.put("/budgets/team", {"limits": {"usd": 10}})
    status, message = site.refused("POST", "/budgets/team/spend", {"amounts": {"eur": 1}})
    assert (status, "eur" in message) == (422, True)
    status, message = site.refused("PUT", "/budgets/team", {"limits": {"usd": "a lot"}})
    assert (status, "limits" in message) == (400, True)
    assert site.refused("PUT", "/budgets/team", {"limits": {"usd": 0.0000001}})[0] == 422
    assert site.refused("PUT", "/budgets/team", {"every": "whenever"})[0] == 422


def test_a_list_goes_on_where_it_ended(site: Site) -> None:
    for name in ("a", "b", "c"):
        site.put(f"/budgets/{name}", {"limits": {"usd": 1}})
    first = site.get("/budgets?limit=2")
    rest = site.get(f"/budgets?limit=2&after={first['next']}")
    assert [one["name"] for one in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert site.refused("GET", "/budgets?after=bogus")[0] == 422


def test_a_tenants_budgets_are_its_own(site: Site) -> None:
    site.put("/budgets/team", {"limits": {"usd": 1}})
    site.put("/budgets/team?tenant=acme", {"limits": {"usd": 2}})
    acme = site.as_role("operator", tenant="acme")
    assert acme.get("/budgets/team")["dimensions"][0]["limit"] == "2"
    assert [one["tenant"] for one in acme.get("/budgets")["items"]] == ["acme"]
    assert acme.refused("GET", "/budgets/team?tenant=globex")[0] == 422
    assert site.get("/budgets/team?tenant=acme")["dimensions"][0]["limit"] == "2"


def test_a_viewer_raises_nothing(site: Site, app: holdfast.App) -> None:
    site.put("/budgets/team", {"limits": {"usd": 1}})
    assert site.as_role("viewer").refused("POST", "/budgets/team/raise", {"limits": {"usd": 9}})[0] == 403
    assert len(app.audit.list(action="access.refused")) == 1
