"""`holdfast cron` on both stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import holdfast
from tests.acceptance.cli_kit import call


@pytest.fixture
def shop(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.App]:
    monkeypatch.setenv("HOLDFAST_STORE", store_url)
    app = holdfast.App(store_url)

    @app.cron("0 3 * * *", zone="Europe/Paris", overlap="skip")
    def nightly(region: str = "eu") -> None: ...

    @app.every(90)
    def beat() -> None: ...

    app.schedules.ensure()
    yield app
    app.close()


def test_schedules_are_listed_and_shown(shop: holdfast.App) -> None:
    found = call("cron", "list", "--json").data["schedules"]
    assert [(item["name"], item["cron"], item["every"], item["state"]) for item in found] == [
        ("beat", None, 90.0, "active"), ("nightly", "0 3 * * *", None, "active"),
    ]  # fmt: skip
    text = call("cron", "list").out
    assert "0 3 * * * Europe/Paris" in text
    assert "every 90s" in text
    assert "overlap" in call("cron", "show", "nightly").out
    assert call("cron", "show", "nightly", "--json").data["zone"] == "Europe/Paris"
    assert call("cron", "show", "nobody").code == 3


def test_next_answers_for_schedules_and_for_expressions(shop: holdfast.App) -> None:
    assert len(call("cron", "next", "nightly", "--count", "3", "--json").data["next"]) == 3
    assert "03:00:00" in call("cron", "next", "nightly").out
    assert len(call("cron", "next", "0 6 * * MON", "--zone", "Asia/Tokyo", "--json").data["next"]) == 5
    wrong = call("cron", "next", "0 0 30 2 *")
    assert wrong.code == 2
    assert "never fires" in wrong.err


def test_a_run_heeds_the_overlap_policy(shop: holdfast.App) -> None:
    first = call("cron", "run", "nightly", "--json")
    assert first.code == 0
    assert shop.jobs.get(first.data["results"][0]["outcome"]).task == "nightly"
    again = call("cron", "run", "nightly")
    assert (again.code, "is not done" in again.out) == (4, True)


def test_pause_edit_resume_and_delete_are_done_and_audited(shop: holdfast.App) -> None:
    assert call("cron", "pause", "nightly", "beat", "--actor", "ann", "--reason", "holiday").code == 0
    assert {item.state for item in shop.schedules.list()} == {"paused"}
    edited = call("cron", "edit", "nightly", "--cron", "30 4 * * *", "--args", '{"region": "us"}', "--json")
    assert edited.data["arguments"] == {"region": "us"}
    assert edited.data["edited"] == ["expression", "payload"]
    assert call("cron", "resume", "nightly").code == 0
    for wrong in (["--cron", "rubbish"], ["--zone", "Mars/Base"], ["--args", "[1]"], ["--args", "{"], ["--every", "0"]):
        assert call("cron", "edit", "nightly", *wrong).code == 2, wrong
    assert "comes back" in call("cron", "delete", "beat").out
    assert call("cron", "delete", "beat").code == 3
    records = shop.audit.list(target_kind="schedule")
    assert [record.action for record in records][-1:] == ["schedule.pause"]
    assert records[-1].actor == "ann"


def test_a_backfill_is_shown_before_it_is_done(shop: holdfast.App) -> None:
    shown = call("cron", "backfill", "nightly", "--from", "2024-05-01", "--to", "2024-05-04", "--dry-run")
    assert (shown.code, shown.out.splitlines()[0]) == (0, "2024-05-01 03:00:00+02:00")
    assert "would make 3 jobs" in shown.out
    assert shop.jobs.find() == []
    done = call("cron", "backfill", "nightly", "--from", "2024-05-01", "--to", "2024-05-04", "--json")
    assert len(done.data["made"]) == len(shop.jobs.find()) == 3
    assert call("cron", "backfill", "nightly", "--from", "yesterday", "--to", "2024-05-04").code == 2
