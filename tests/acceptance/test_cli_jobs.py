"""`holdfast jobs`, `queues` and `workers` on both stores."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import holdfast
from tests.acceptance.cli_kit import call


@pytest.fixture
def shop(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.App]:
    monkeypatch.setenv("HOLDFAST_STORE", store_url)
    app = holdfast.App(store_url)
    app.migrate()

    @app.task(queue="mail")
    def welcome(user: int) -> int:
        return user

    @app.task(max_attempts=2, retry=holdfast.RetryPolicy(kind="none"))
    def refuse() -> None:
        raise ValueError("no such card")

    yield app
    app.close()


def enqueue(shop: holdfast.App, count: int = 1, **options: object) -> list[str]:
    task = shop.tasks["welcome"].options(**options)  # type: ignore[arg-type]
    return [job.id for job in shop.enqueue_many([task.job(n) for n in range(count)])]


def failed_job(shop: holdfast.App) -> str:
    job = shop.tasks["refuse"].enqueue()
    shop.drain()
    return job.id


def test_a_list_is_newest_first_and_its_pages_hold_every_job_once(shop: holdfast.App) -> None:
    ids = enqueue(shop, 5)
    found: list[str] = []
    cursor: list[str] = []
    while True:
        page = call("jobs", "list", "--limit", "2", "--json", *cursor).data
        found += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        cursor = ["--before", page["next"]]
    assert found == ids[::-1]


def test_a_list_is_narrowed_by_state_queue_task_and_tenant(shop: holdfast.App) -> None:
    failed, [ours] = failed_job(shop), enqueue(shop, tenant="acme")
    for filters, expected in [
        (["--state", "failed"], failed),
        (["--queue", "mail"], ours),
        (["--task", "refuse"], failed),
        (["--tenant", "acme"], ours),
    ]:
        assert [job["id"] for job in call("jobs", "list", *filters, "--json").data["jobs"]] == [expected]
    assert call("jobs", "list", "--tenant", "nobody").out == "no jobs\n"


def test_a_table_shows_whole_ids_where_the_output_is_no_terminal(shop: holdfast.App) -> None:
    failed = failed_job(shop)
    answer = call("jobs", "list")
    assert answer.code == 0
    [line] = [line for line in answer.out.splitlines() if line.startswith(failed)]
    assert line.split() == [
        failed,
        "refuse",
        "default",
        "failed",
        "0",
        "2/2",
        line.split()[6],
        *["ValueError:", "no", "such", "card"],
    ]
    assert "\x1b" not in answer.out


def test_a_job_is_shown_with_every_run_that_did_not_succeed(shop: holdfast.App) -> None:
    failed = failed_job(shop)
    [job] = call("jobs", "show", failed, "--json").data["jobs"]
    assert (job["state"], job["reason"], job["attempts"], job["arguments"]) == ("failed", "exhausted", 2, {})
    assert [run["outcome"] for run in job["history"]] == ["failed", "exhausted"]
    assert job["error"]["message"] == "no such card"
    assert job["finished_at"].endswith("Z")
    text = call("jobs", "show", failed).out
    assert "ValueError: no such card" in text
    assert "Traceback" in text


def test_a_result_and_arguments_are_shown_as_json(shop: holdfast.App) -> None:
    [id] = enqueue(shop, tags=["a"], priority=3)
    shop.drain()
    [job] = call("jobs", "show", id, "--json").data["jobs"]
    assert (job["arguments"], job["result"], job["tags"], job["priority"]) == ({"user": 0}, 0, ["a"], 3)


def test_a_failed_job_is_retried_and_a_waiting_one_is_not(shop: holdfast.App) -> None:
    failed, [waiting] = failed_job(shop), enqueue(shop)
    answer = call("jobs", "retry", failed, waiting, "--json")
    assert answer.code == 4
    first, second = answer.data["results"]
    assert first == {"id": failed, "outcome": "retried"}
    assert second["error"]["code"] == "illegal_move"
    assert shop.jobs.get(failed).state == "ready"


def test_one_unknown_id_does_not_keep_the_others_from_being_cancelled(shop: holdfast.App) -> None:
    one, two = enqueue(shop, 2)
    answer = call("jobs", "cancel", one, "nothing", two, "--reason", "sold out")
    assert answer.code == 3
    assert answer.out == f"{one} is cancelled\n{two} is cancelled\n"
    assert answer.err.startswith("error: no job 'nothing'; check the id")
    assert shop.jobs.get(two).cancel_reason == "sold out"


def test_cancelling_what_has_ended_is_a_conflict(shop: holdfast.App) -> None:
    failed = failed_job(shop)
    answer = call("jobs", "cancel", failed, "--json")
    assert (answer.code, answer.data["results"][0]["outcome"]) == (4, "finished")


def test_a_deleted_job_is_gone(shop: holdfast.App) -> None:
    [id] = enqueue(shop)
    assert call("jobs", "delete", id).out == f"{id} is deleted\n"
    assert call("jobs", "show", id).code == 3


def test_a_delayed_job_can_be_run_now_and_that_twice(shop: holdfast.App) -> None:
    [id] = enqueue(shop, delay=3600)
    assert [call("jobs", "run-now", id, "--json").data["results"][0]["outcome"] for _ in range(2)] == [
        "due",
        "already_due",
    ]
    assert shop.drain().succeeded == 1


def test_an_explanation_gives_each_reason_a_line(shop: holdfast.App) -> None:
    [id] = enqueue(shop, delay=3600)
    call("queues", "pause", "mail")
    lines = call("jobs", "explain", id).out.splitlines()
    assert lines[0].split() == [id, "welcome", "ready"]
    assert [line.split(":")[0].strip(" -") for line in lines[1:]] == ["due_later", "queue_paused", "no_worker"]
    [job] = call("jobs", "explain", id, "--json").data["jobs"]
    assert [reason["code"] for reason in job["reasons"]] == ["due_later", "queue_paused", "no_worker"]


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(shop: holdfast.App) -> None:
    enqueue(shop)
    assert call("queues", "pause", "mail").out == "queue mail is paused\n"
    assert shop.drain().succeeded == 0
    [queue] = call("queues", "list", "--json").data["queues"]
    assert (queue["name"], queue["state"], queue["jobs"]) == ("mail", "paused", {"ready": 1})
    assert call("queues", "resume", "mail", "--json").data["queues"][0]["state"] == "active"
    assert shop.drain().succeeded == 1


def test_a_bad_queue_name_among_good_ones_changes_nothing(shop: holdfast.App) -> None:
    answer = call("queues", "pause", "mail", "two words", "--json")
    assert (answer.code, answer.data["error"]["code"]) == (2, "invalid")
    assert call("queues", "list").out == "no queues\n"


def test_workers_are_listed_while_they_work(shop: holdfast.App) -> None:
    assert call("workers", "list").out == "no workers\n"
    with shop.worker(name="here", concurrency=3):
        [worker] = call("workers", "list", "--json").data["workers"]
        assert (worker["name"], worker["state"], worker["concurrency"]) == ("here", "alive", 3)
        assert worker["queues"] == ["mail", "default", "webhooks"]
        assert call("workers", "list").out.splitlines()[1].split()[:2] == ["here", "alive"]


@pytest.mark.parametrize("command", ["list", "show", "explain", "retry", "cancel", "delete", "run-now"])
def test_an_unknown_option_is_an_error(command: str) -> None:
    answer = call("jobs", command, "--colour", "blue")
    assert answer.code == 2
    assert "No such option" in answer.err


def test_json_is_one_line_where_the_output_is_no_terminal(shop: holdfast.App) -> None:
    enqueue(shop, 3)
    [line] = call("jobs", "list", "--json").out.splitlines()
    assert len(json.loads(line)["jobs"]) == 3


def test_a_success_shows_no_error_of_a_run_before_it(shop: holdfast.App) -> None:
    runs: list[int] = []

    @shop.task(retry=holdfast.RetryPolicy(kind="none"))
    def flaky() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise ConnectionError("the first time")

    job = flaky.enqueue()
    shop.drain()
    assert "the first time" not in call("jobs", "list").out
    (listed,) = call("jobs", "list", "--json").data["jobs"]
    (shown,) = call("jobs", "show", job.id, "--json").data["jobs"]
    assert (listed["state"], listed["error"], shown["error"]) == ("succeeded", None, None)
    assert [run["error"]["message"] for run in shown["history"]] == ["the first time"]


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "list", "--limit", "many", "--json"),
        ("jobs", "list", "--json", "--bogus"),
        ("jobs", "--json"),
        ("jobs", "fly", "--json"),
        ("fly", "--json"),
        ("--bogus", "jobs", "list", "--json"),
        ("jobs", "show", "--json"),
        ("limits", "set", "three", "--json"),
    ],
)
def test_wrong_usage_is_json_where_json_was_asked_for(words: tuple[str, ...]) -> None:
    answer = call(*words)
    assert (answer.code, answer.err) == (2, "")
    assert answer.data["error"]["code"] == "usage"
    assert answer.data["error"]["message"]


def test_wrong_usage_is_text_where_json_is_only_an_argument(shop: holdfast.App) -> None:
    answer = call("jobs", "show", "--bogus", "--", "--json")
    assert (answer.code, answer.out) == (2, "")
    assert "--bogus" in answer.err
