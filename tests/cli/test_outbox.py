"""Outboxes at the command line."""

from __future__ import annotations

from holdfast import App, Fail
from holdfast.model import OutboxEvent

from .kit import Run, answer


def _abandon(app: App) -> None:
    @app.destination("cloud", batch=1)
    async def cloud(events: list[OutboxEvent]) -> None:
        raise Fail("no")

    for n, kind in enumerate(("note", "note", "bill")):
        app.outbox("cloud").put(n, kind=kind)
    app.drain()


def test_outboxes_are_listed_by_where_their_entries_are(app: App, run: Run) -> None:
    assert "no outbox has entries" in run("outbox", "list").output
    _abandon(app)
    app.outbox("cloud").put("x")
    (listed,) = answer(run("outbox", "list", "--json"))["outboxes"]
    assert (listed["name"], listed["pending"], listed["abandoned"]) == ("cloud", 1, 3)
    assert "cloud" in run("outbox", "list").output


def test_drain_shows_and_only_with_apply_revives(app: App, run: Run) -> None:
    _abandon(app)
    shown = answer(run("outbox", "drain", "cloud", "--json"))
    assert shown == {"outbox": "cloud", "applied": False, "kinds": {"bill": 1, "note": 2}, "left": 0}
    assert "add --older-than 0 --apply" in run("outbox", "drain", "cloud").output
    assert "add --apply" in run("outbox", "drain", "cloud", "--older-than", "0").output
    assert answer(run("outbox", "drain", "cloud", "--older-than", "30d", "--json"))["kinds"] == {}
    assert app.outbox.list()[0].abandoned == 3
    refused = run("outbox", "drain", "cloud", "--apply")
    assert (refused.exit_code, "--apply needs --older-than" in refused.output) == (2, True)
    assert app.outbox.list()[0].abandoned == 3
    everything = ("outbox", "drain", "cloud", "--older-than", "0", "--apply")
    assert "pending again" in run(*everything, "--reason", "mended").output
    assert app.outbox.list()[0].pending == 3
    assert app.audit.list(action="outbox.drain")[0].actor == "ada"


def test_retry_makes_what_waits_due(app: App, run: Run) -> None:
    @app.destination("cloud")
    async def cloud(events: list[OutboxEvent]) -> None:
        raise ConnectionError("down")

    app.outbox("cloud").put_many(range(3))
    app.drain()
    assert answer(run("outbox", "retry", "cloud", "--json")) == {"outbox": "cloud", "due": 3}
    assert "0 entries of cloud" in run("outbox", "retry", "cloud").output


def test_with_a_tenant_it_is_about_that_tenants_entries(app: App, run: Run) -> None:
    _abandon(app)
    app.scoped("acme").outbox("cloud").put("theirs", kind="bill")
    app.drain()
    (listed,) = answer(run("outbox", "list", "--tenant", "acme", "--json"))["outboxes"]
    assert (listed["name"], listed["abandoned"]) == ("cloud", 1)
    assert answer(run("outbox", "retry", "cloud", "--tenant", "acme", "--json"))["due"] == 0
    drained = answer(run("outbox", "drain", "cloud", "--tenant", "acme", "--older-than", "0", "--apply", "--json"))
    assert drained["kinds"] == {"bill": 1}
    assert (app.outbox.list()[0].abandoned, app.outbox.list()[0].pending) == (3, 1)
