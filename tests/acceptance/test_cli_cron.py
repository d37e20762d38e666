"""`holdfast cron` on both stores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

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
    assert (again.code, "has not finished" in again.out) == (4, True)


def test_pause_edit_resume_and_delete_are_done_and_audited(shop: holdfast.App) -> None:
    assert call("cron", "pause", "nightly", "beat", "--actor", "ann", "--reason", "holiday").code == 0
    assert {item.state for item in shop.schedules.list()} == {"paused"}
    edited = call("cron", "edit", "nightly", "--cron", "30 4 * * *", "--args", '{"region": "us"}', "--json")
    assert edited.data["arguments"] == {"region": "us"}
    assert edited.data["edited"] == ["expression", "payload"]
    assert call("cron", "resume", "nightly").code == 0
    for wrong in (["--cron", "rubbish"], ["--zone", "Mars/Base"], ["--args", "[1]"], ["--args", "{"], ["--every", "0"]):
        assert call("cron", "edit", "nightly", *wrong).code == 2, wrong
    assert "recreates it" in call("cron", "delete", "beat").out
    assert call("cron", "delete", "beat").code == 3
    records = shop.audit.list(target_kind="schedule")
    assert [record.action for record in records][-1:] == ["schedule.pause"]
    assert records[-1].actor == "ann"


def test_a_schedule_is_created_like_any_other_and_audited(shop: holdfast.App, monkeypatch: pytest.MonkeyPatch) -> None:
    made = call(
        "cron", "create", "digest", "--task", "mail", "--cron", "0 8 * * *", "--zone", "Asia/Tokyo", "--queue", "post",
        "--priority", "3", "--args", '{"to": "all"}', "--overlap", "skip", "--actor", "ann", "--json",
    )  # fmt: skip
    assert made.code == 0, made.out
    shown = call("cron", "show", "digest", "--json").data
    assert (shown["task"], shown["arguments"], shown["queue"], shown["zone"]) == (
        "mail", {"to": "all"}, "post", "Asia/Tokyo",
    )  # fmt: skip
    assert (shown["origin"], shown["overlap"], shown["state"]) == ("runtime", "skip", "active")
    job = shop.jobs.get(call("cron", "run", "digest", "--json").data["results"][0]["outcome"])
    assert (job.task, job.queue, job.priority) == ("mail", "post", 3)
    (record,) = [record for record in shop.audit.list(target_kind="schedule") if record.action == "schedule.create"]
    assert (record.actor, record.target) == ("ann", "digest")
    assert call("cron", "create", "digest", "--task", "mail", "--every", "60").code == 4
    assert call("cron", "create", "beat2", "--task", "mail", "--every", "90s").code == 0


@pytest.mark.parametrize(
    "wrong",
    [
        (), ("--cron", "rubbish"), ("--cron", "0 0 30 2 *"), ("--every", "0"), ("--cron", "@daily", "--every", "60"),
        ("--cron", "@daily", "--args", "[1]"), ("--cron", "@daily", "--zone", "Mars/Base"),
        ("--cron", "@daily", "--queue", "a,b"),
    ],
)  # fmt: skip
def test_a_schedule_that_makes_no_sense_is_not_created(shop: holdfast.App, wrong: tuple[str, ...]) -> None:
    assert call("cron", "create", "new", "--task", "mail", *wrong).code == 2
    assert call("cron", "show", "new").code == 3


def test_with_an_app_the_task_and_its_arguments_are_checked(
    shop: holdfast.App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import holdfast\napp = holdfast.App()\n@app.task\ndef entry(seconds: float) -> None: ...\n"
    (tmp_path / "cron_shop.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cron_shop", raising=False)
    where = ("--app", "cron_shop:app", "--every", "60")
    unknown = call("cron", "create", "new", "--task", "nobody", *where)
    assert (unknown.code, "its tasks:" in unknown.err) == (2, True)
    assert call("cron", "create", "new", "--task", "entry", "--args", '{"second": 1}', *where).code == 2
    assert call("cron", "create", "new", "--task", "entry", "--args", '{"seconds": 1}', *where).code == 0


def test_a_backfill_is_shown_before_it_is_done(shop: holdfast.App) -> None:
    shown = call("cron", "backfill", "nightly", "--from", "2024-05-01", "--to", "2024-05-04", "--dry-run")
    assert (shown.code, shown.out.splitlines()[0]) == (0, "2024-05-01 03:00:00+02:00")
    assert "would enqueue 3 jobs" in shown.out
    assert shop.jobs.find() == []
    done = call("cron", "backfill", "nightly", "--from", "2024-05-01", "--to", "2024-05-04", "--json")
    assert len(done.data["made"]) == len(shop.jobs.find()) == 3
    assert call("cron", "backfill", "nightly", "--from", "yesterday", "--to", "2024-05-04").code == 2


def test_a_tenants_schedule_is_named_with_its_tenant(shop: holdfast.App) -> None:
    mail = ("--task", "mail", "--every", "1h")
    for tenant in ("acme", "beta"):
        made = call("cron", "create", "digest", *mail, "--tenant", tenant, "--json").data
        assert (made["tenant"], made["name"]) == (tenant, "digest")
    assert call("cron", "show", "digest").code == 3
    assert "acme" in call("cron", "show", "digest", "--tenant", "acme").out
    assert call("cron", "pause", "digest", "--tenant", "acme").code == 0
    found = call("cron", "list", "--json").data["schedules"]
    assert [(one["tenant"], one["name"], one["state"]) for one in found] == [
        ("", "beat", "active"), ("", "nightly", "active"), ("acme", "digest", "paused"), ("beta", "digest", "active"),
    ]  # fmt: skip
    assert len(call("cron", "list", "--tenant", "beta", "--json").data["schedules"]) == 1
    (record,) = call("audit", "list", "--action", "schedule.pause", "--json").data["records"]
    assert (record["target"], record["tenant"]) == ("digest", "acme")
