"""The page of limits and budgets."""

from __future__ import annotations

from decimal import Decimal

import holdfast
from holdfast.model.limits import Lane
from holdfast.model.values import micros_of
from holdfast.web.pages.limits import budget_row, lanes_of

from .form_kit import HOSTILE, answer_of, live_parts, open_page, post, send
from .web_kit import Site


def test_it_says_what_there_could_be(site: Site) -> None:
    page = open_page(site, "/limits")
    assert "No budgets" in page and "No breakers" in page and "No limits set" in page


def test_limits_and_rates_are_set_changed_and_removed(site: Site, app: holdfast.App) -> None:
    send(site, "/limits/lanes", kind="task", name="double", n="3", reason="slow")
    send(site, "/limits/rates", name="payments", capacity="5", per_second="2.5")
    view = app.limits.show()
    assert [(lane.key, lane.capacity) for lane in view.lanes] == [("task:double", 3)]
    assert [(rate.scope, rate.refill) for rate in view.rates] == [("payments", 2.5)]
    page = open_page(site, "/limits")
    assert "double" in page and "payments" in page
    assert "There was no such limit" in send(site, "/limits/lanes/clear", kind="queue", name="x", confirmed="yes")[1]
    assert answer_of(site, "/limits/lanes/clear", kind="task", name="double")[0] == 200
    assert "Limit removed" in send(site, "/limits/lanes/clear", kind="task", name="double", confirmed="yes")[1]
    assert answer_of(site, "/limits/rates/clear", name="payments")[0] == 200
    assert "Rate removed" in send(site, "/limits/rates/clear", name="payments", confirmed="yes")[1]
    assert "nothing changed" in send(site, "/limits/rates/clear", name="payments", confirmed="yes")[1]
    assert app.audit.list(action="limit.set")[0].reason == "slow"


def test_what_cannot_be_read_is_named(site: Site) -> None:
    assert "whole number" in send(site, "/limits/lanes", kind="task", name="double", n="many")[1]
    assert "missing" in send(site, "/limits/lanes", kind="task", name="double")[1]
    assert "give a number" in send(site, "/limits/rates", name="x", capacity="a", per_second="1")[1]
    assert "missing" in send(site, "/limits/breakers", name="x", failures="2")[1]
    assert post(site, "/limits/lanes", **{"kind": "shoe", "name": "x"}).status_code == 400


def test_a_breaker_is_tripped_and_reset_and_a_second_reset_says_so(site: Site, app: holdfast.App) -> None:
    send(site, "/limits/breakers", name="partner", failures="4", open_for="45s")
    assert answer_of(site, "/limits/breakers/trip", name="partner")[0] == 200
    assert app.breakers.get("partner").state == "closed"
    send(site, "/limits/breakers/trip", name="partner", confirmed="yes", reason="they asked")
    assert app.breakers.get("partner").state == "open"
    assert 'action="/limits/breakers/reset"' in open_page(site, "/limits")
    assert "stays open longer" in send(site, "/limits/breakers/trip", name="partner", confirmed="yes")[1]
    assert "is closed" in send(site, "/limits/breakers/reset", name="partner")[1]
    assert "already closed" in send(site, "/limits/breakers/reset", name="partner")[1]
    assert {record.reason for record in app.audit.list(action="breaker.trip")} == {"they asked", ""}


def test_a_budget_is_raised_and_begun_anew(site: Site, app: holdfast.App) -> None:
    app.budgets.set("research", {"tokens": 100}, soft={"tokens": 80}, every="1h")
    app.budgets.spend("research", tokens=100)
    page = open_page(site, "/limits")
    assert "exhausted" in page and "warns at 80" in page
    assert "new limit of 250 tokens" in send(site, "/limits/budgets/research/raise", dimension="tokens", limit="250")[1]
    assert app.budgets.get("research")["tokens"].limit == 250
    again = send(site, "/limits/budgets/research/raise", dimension="tokens", limit="250")[1]
    assert "already" in again
    assert send(site, "/limits/budgets/research/raise", dimension="tokens", limit="1")[0].startswith("/limits")
    assert app.budgets.get("research")["tokens"].limit == 250
    assert answer_of(site, "/limits/budgets/research/reset")[0] == 200
    assert "was reset" in send(site, "/limits/budgets/research/reset", confirmed="yes", reason="new quarter")[1]
    assert app.budgets.get("research")["tokens"].spent == 0
    assert "nothing changed" in send(site, "/limits/budgets/research/reset", confirmed="yes")[1]
    assert app.audit.list(action="budget.reset")[0].reason == "new quarter"
    assert "give a number" in send(site, "/limits/budgets/research/raise", dimension="tokens", limit="lots")[1]


def test_a_quota_is_set_and_shown(site: Site, app: holdfast.App) -> None:
    send(site, "/limits/quotas", name="exports", limit="100", window="1h", concurrency="5")
    assert app.quotas.get("exports").window == 3600
    assert "exports" in open_page(site, "/limits")
    same = {"name": "exports", "limit": "100", "window": "1h", "concurrency": "5"}
    assert "nothing changed" in send(site, "/limits/quotas", **same)[1]
    assert "belong together" in send(site, "/limits/quotas", name="y", limit="3")[1]


def test_a_viewer_sees_no_actions_and_may_not_act(site: Site, app: holdfast.App) -> None:
    app.budgets.set("research", {"tokens": 100})
    app.breakers.set("partner", failures=2, open_for=5)
    viewer = site.as_role("viewer")
    page = open_page(viewer, "/limits")
    assert "partner" in page
    assert 'action="/limits' not in page
    data = {"name": "partner", "confirmed": "yes"}
    assert post(viewer, "/limits/breakers/trip", **data).status_code == 403
    assert app.breakers.get("partner").state == "closed"


def test_a_tenant_sees_and_raises_its_own_budget_alone(site: Site, app: holdfast.App) -> None:
    app.budgets.set("shared", {"tokens": 100})
    app.budgets.of("acme").set("own", {"tokens": 100})
    app.budgets.of("globex").set("theirs", {"tokens": 100})
    app.breakers.set("partner", failures=2, open_for=5)
    acme = site.as_role("operator", tenant="acme")
    page = open_page(acme, "/limits")
    assert "own" in page
    assert "theirs" not in page and "partner" not in page
    send(acme, "/limits/budgets/own/raise", dimension="tokens", limit="300")
    assert app.budgets.of("acme").get("own")["tokens"].limit == 300
    assert post(acme, "/limits/breakers/reset", name="partner").status_code == 403
    other = {"dimension": "tokens", "limit": "300", "tenant": "globex"}
    assert '"ok": false' in send(acme, "/limits/budgets/theirs/raise", **other)[1]
    assert app.budgets.of("globex").get("theirs")["tokens"].limit == 100


def test_hostile_names_stay_text(site: Site, app: holdfast.App) -> None:
    app.budgets.set(HOSTILE, {HOSTILE: 5})
    app.breakers.set(HOSTILE, failures=2, open_for=5)
    app.limits.set_rate(HOSTILE, capacity=1, per_second=1)
    app.limits.set_concurrency(2, task=HOSTILE)
    app.quotas.set(HOSTILE, concurrency=1)
    page = open_page(site, "/limits")
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page


def test_a_budget_tells_its_pace_and_how_long_it_lasts(app: holdfast.App) -> None:
    app.budgets.set("research", {"tokens": 100}, every="1h")
    app.budgets.spend("research", tokens=80)
    budget = app.budgets.get("research")
    assert budget.next_reset is not None
    now = micros_of(budget.next_reset) - 30 * 60_000_000
    (line,) = budget_row(budget, now).lines
    assert line.burn == Decimal(160)
    assert (line.spent_share, line.tone) == (0.8, "warn")
    assert line.lasts_until is not None
    assert abs(line.lasts_until - (now + 7 * 60_000_000)) < 61_000_000


def test_lanes_are_named_as_people_made_them() -> None:
    rows = lanes_of([Lane("key:a%3ab:c:d", True, 2, 1), Lane("fair:mail:acme:k", True, 1, 0)], ())
    assert [(row.kind, row.tenant, row.name, row.queue) for row in rows] == [
        ("key", "a:b", "c:d", ""),
        ("fair", "acme", "k", "mail"),
    ]


def test_its_parts_can_be_followed(site: Site, app: holdfast.App) -> None:
    app.budgets.set("research", {"tokens": 100})
    assert live_parts(site, "/limits") == 5
