"""Budgets and quotas at the command line."""

from __future__ import annotations

from holdfast import App

from .kit import Run, answer


def test_a_budget_is_set_raised_reset_and_deleted_and_it_is_recorded(app: App, run: Run) -> None:
    made = answer(
        run("budgets", "set", "team", "tokens=1000", "usd=49.50", "--soft", "tokens=800", "--every", "1d", "--json")
    )
    assert (made["changed"], made["every"], made["origin"]) == (True, 86_400.0, "operator")
    assert [(one["dimension"], one["limit"], one["soft"]) for one in made["dimensions"]] == [
        ("tokens", "1000", "800"), ("usd", "49.5", None),
    ]  # fmt: skip
    assert not answer(run("budgets", "set", "team", "tokens=1000", "--json"))["changed"]
    app.budgets.spend("team", tokens=900)
    assert "budget team: 2000 tokens, 49.5 usd" in run("budgets", "raise", "team", "tokens=2000").output
    (listed,) = answer(run("budgets", "list", "--json"))["budgets"]
    assert (listed["dimensions"][0]["spent"], listed["dimensions"][0]["left"]) == ("900", "1100")
    assert "every 1d" in run("budgets", "list").output
    assert "soft breaches" in run("budgets", "show", "team").output
    assert answer(run("budgets", "reset", "team", "--reason", "a new month", "--json")) == {"reset": True}
    assert answer(run("budgets", "reset", "team", "--json")) == {"reset": False}
    shown = answer(run("budgets", "show", "team", "--json"))
    assert (shown["dimensions"][0]["spent"], shown["dimensions"][0]["lifetime"], shown["resets"]) == ("0", "900", 1)
    assert answer(run("budgets", "delete", "team", "--json")) == {"removed": True}
    assert answer(run("budgets", "delete", "team", "--json")) == {"removed": False}
    records = app.audit.list(target_kind="budget")
    assert [record.action for record in reversed(records)] == [
        "budget.set", "budget.raise", "budget.reset", "budget.delete",
    ]  # fmt: skip
    assert {(record.actor, record.target) for record in records} == {("ada", "team")}


def test_a_budget_of_a_tenant_is_apart(app: App, run: Run) -> None:
    answer(run("budgets", "set", "team", "tokens=5", "--tenant", "acme", "--json"))
    assert run("budgets", "show", "team").exit_code == 3
    assert answer(run("budgets", "show", "team", "--tenant", "acme", "--json"))["tenant"] == "acme"
    assert "acme/team" in run("budgets", "list").output
    assert answer(run("budgets", "list", "--tenant", "other", "--json")) == {"budgets": []}


def test_budgets_that_make_no_sense_are_refused(app: App, run: Run) -> None:
    for words in (
        ["team", "tokens=-1"], ["team", "tokens=nan"], ["team", "tokens"], ["team"], ["team", "=5"],
        ["team", "tokens=0.0000001"], ["team", "tokens=5", "--every", "soon"],
    ):  # fmt: skip
        assert run("budgets", "set", *words).exit_code == 2, words
    assert run("budgets", "set", "team", "tokens=5", "--within", "nobody").exit_code == 3
    assert run("budgets", "raise", "nobody", "tokens=5").exit_code == 3
    assert app.budgets.list() == []


def test_a_quota_is_set_shown_and_deleted_and_it_is_recorded(app: App, run: Run) -> None:
    made = answer(run("quotas", "set", "api", "--limit", "100", "--window", "1h", "--concurrency", "5", "--json"))
    assert (made["changed"], made["limit"], made["window"], made["concurrency"]) == (True, 100, 3600.0, 5)
    assert "already set" in run("quotas", "set", "api", "--limit", "100", "--window", "1h", "--concurrency", "5").output
    app.quotas.admit("api", "a")
    assert "100 in 1h" in run("quotas", "list").output
    shown = answer(run("quotas", "show", "api", "--json"))
    assert (shown["used"], shown["active"], shown["admitted"], shown["refused"]) == (1, 1, 1, 0)
    assert "1 admitted and 0 refused" in run("quotas", "show", "api").output
    assert answer(run("quotas", "delete", "api", "--json")) == {"removed": True}
    assert answer(run("quotas", "delete", "api", "--json")) == {"removed": False}
    assert run("quotas", "show", "api").exit_code == 3
    assert run("quotas", "set", "api", "--limit", "5").exit_code == 2
    assert [record.action for record in reversed(app.audit.list(target_kind="quota"))] == ["quota.set", "quota.delete"]


def test_what_is_left_out_of_a_quota_stays_and_none_takes_it_away(app: App, run: Run) -> None:
    run("quotas", "set", "api", "--limit", "100", "--window", "1h")
    for words, limit, window, concurrency in (
        (("--concurrency", "5"), 100, 3600.0, 5),
        (("--limit", "200"), 200, 3600.0, 5),
        (("--window", "60"), 200, 60.0, 5),
        (("--limit", "none"), None, None, 5),
    ):
        now = answer(run("quotas", "set", "api", *words, "--json"))
        assert (now["limit"], now["window"], now["concurrency"]) == (limit, window, concurrency)
    assert run("quotas", "set", "api", "--concurrency", "none").exit_code == 2, "nothing would be left of it"
    assert run("quotas", "set", "api", "--limit", "many").exit_code == 2


def test_who_waits_for_a_tenants_budget_is_told_how_to_raise_that_one(app: App, run: Run) -> None:
    @app.task(reserve={"team": {"tokens": 10}})
    def ask() -> None: ...

    app.budgets.of("acme").set("team", {"tokens": 5})
    job = ask.options(tenant="acme").enqueue()
    app.drain()
    assert "holdfast budgets raise team tokens=… --tenant acme" in run("jobs", "explain", job.id).output
