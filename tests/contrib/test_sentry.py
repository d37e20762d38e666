"""Failures, traces and check-ins through Sentry's own SDK, into a file instead of the network."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope

import holdfast
from holdfast.contrib.sentry import instrument
from holdfast.contrib.sentry_crons import slug_of
from tests.acceptance.conftest import url_of
from tests.patience import SOON

from . import reported_tasks

AT_ONCE = holdfast.RetryPolicy(kind="none")


class Kit:
    """An app whose reports stay here."""

    def __init__(self, app: holdfast.App, path: Path) -> None:
        self.app = app
        self._path = path

    def items(self, kind: str) -> list[dict[str, Any]]:
        sentry_sdk.flush()
        if not self._path.exists():
            return []
        found = [json.loads(line) for line in self._path.read_text().splitlines()]
        return [item for item in found if item["kind"] == kind]

    def errors(self) -> list[str]:
        return [f"{v['type']}: {v['value']}" for event in self.items("event") for v in event["exception"]["values"]]


@pytest.fixture
def kit(app: holdfast.App, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kit]:
    monkeypatch.setenv("ENVELOPES", str(tmp_path / "envelopes"))
    monkeypatch.setenv("HOLDFAST_STORE", url_of(where) if "=" in where else where)
    reported_tasks.init()
    yield Kit(app, tmp_path / "envelopes")
    sentry_sdk.init()


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_a_job_that_fails_for_good_is_reported_once_with_its_context(kit: Kit, colour: str) -> None:
    instrument(kit.app)

    async def awork(card: str) -> None:
        raise ValueError("no such card")

    def work(card: str) -> None:
        raise ValueError("no such card")

    task = kit.app.task(max_attempts=3, retry=AT_ONCE, queue="mail", name="charge")(
        awork if colour == "async" else work
    )
    job = task.options(tenant="acme").enqueue("4111")  # type: ignore[union-attr]
    kit.app.drain()
    (event,) = kit.items("event")
    assert kit.errors() == ["ValueError: no such card"]
    assert event["contexts"]["holdfast"] == {
        "id": job.id, "task": "charge", "queue": "mail", "attempt": 3, "max_attempts": 3, "tenant": "acme"
    }  # fmt: skip
    assert event["tags"] == {
        "holdfast.id": job.id, "holdfast.task": "charge", "holdfast.queue": "mail", "holdfast.tenant": "acme"
    }  # fmt: skip
    assert event["transaction"] == "charge"
    assert event["exception"]["values"][0]["stacktrace"]["frames"][-1]["function"] in ("work", "awork")


def test_every_failed_attempt_is_reported_on_request(kit: Kit) -> None:
    instrument(kit.app, every_attempt=True)

    @kit.app.task(max_attempts=3, retry=AT_ONCE)
    def work() -> None:
        raise ValueError("no")

    work.enqueue()
    kit.app.drain()
    assert [event["contexts"]["holdfast"]["attempt"] for event in kit.items("event")] == [1, 2, 3]


@pytest.mark.parametrize("every_attempt", [False, True])
@pytest.mark.parametrize(
    "error",
    [holdfast.Retry("later"), holdfast.Snooze(60), holdfast.Park("no credit"), holdfast.Throttle(60),
     holdfast.Cancel("enough")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_what_a_handler_asks_for_is_no_error(kit: Kit, error: Exception, every_attempt: bool) -> None:
    instrument(kit.app, every_attempt=every_attempt)

    @kit.app.task(retry=holdfast.RetryPolicy(kind="fixed", initial=3600))
    def work() -> None:
        raise error

    work.enqueue()
    kit.app.drain()
    assert kit.items("event") == []


def test_a_job_that_gives_up_by_its_own_request_is_reported(kit: Kit) -> None:
    instrument(kit.app)

    @kit.app.task
    def work() -> None:
        raise holdfast.Fail("the account is closed")

    work.enqueue()
    kit.app.drain()
    assert kit.errors() == ["Fail: the account is closed"]


def test_a_suspension_and_a_cancellation_are_no_errors(kit: Kit) -> None:
    instrument(kit.app, every_attempt=True)
    begun = threading.Event()

    @kit.app.task
    async def waits(ctx: holdfast.Context) -> None:
        await ctx.wait_for("go")

    @kit.app.task
    async def hangs() -> None:
        begun.set()
        await asyncio.sleep(3600)

    waits.enqueue()
    job = hangs.enqueue()
    with kit.app.worker():
        assert begun.wait(SOON)
        kit.app.jobs.cancel(job.id)
        job.wait(SOON)
    assert job.status().state == "cancelled"
    assert kit.items("event") == []


def test_a_timeout_is_reported_by_the_worker(kit: Kit) -> None:
    instrument(kit.app)

    @kit.app.task(timeout=0.05, max_attempts=1)
    async def slow() -> None:
        await asyncio.sleep(3600)

    job = slow.enqueue()
    kit.app.drain()
    (event,) = kit.items("event")
    assert kit.errors() == ["Timeout: the run took longer than 0.05 s"]
    assert event["contexts"]["holdfast"]["id"] == job.id


def test_arguments_that_do_not_fit_are_reported_once(kit: Kit) -> None:
    instrument(kit.app)

    @kit.app.task(max_attempts=1)
    def work(n: int) -> None: ...

    producer = holdfast.App(kit.app.config.store)
    producer.enqueue(producer.declare("work").options(max_attempts=1).job(n="one"))
    producer.close()
    kit.app.drain()
    assert len(kit.errors()) == 1


def test_each_run_has_a_scope_of_its_own(kit: Kit) -> None:
    instrument(kit.app)
    both = threading.Barrier(2)

    @kit.app.task(max_attempts=1)
    def tagged(n: int) -> None:
        sentry_sdk.set_tag(f"mine-{n}", n)
        sentry_sdk.add_breadcrumb(message=f"crumb {n}")
        both.wait(SOON)
        raise ValueError(n)

    @kit.app.task(max_attempts=1)
    async def plain() -> None:
        raise ValueError("plain")

    kit.app.enqueue_many([tagged.job(1), tagged.job(2)])
    kit.app.drain(concurrency=2)
    plain.enqueue()
    kit.app.drain()
    seen = {
        event["exception"]["values"][0]["value"]: (
            sorted(name for name in event["tags"] if name.startswith("mine")),
            [crumb["message"] for crumb in event.get("breadcrumbs", {}).get("values", [])],
        )
        for event in kit.items("event")
    }
    assert seen == {"1": (["mine-1"], ["crumb 1"]), "2": (["mine-2"], ["crumb 2"]), "plain": ([], [])}


@pytest.mark.filterwarnings("ignore:The send_default_pii option is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    ("allowed", "sent"),
    [({}, False), ({"send_default_pii": True}, True), ({"data_collection": {"queues": True}}, True),
     ({"data_collection": {"queues": False}}, False)],
)  # fmt: skip
def test_arguments_are_sent_only_where_personal_data_may_be(kit: Kit, allowed: dict[str, Any], sent: bool) -> None:
    reported_tasks.init(**allowed, **({} if "data_collection" in allowed else {"include_local_variables": False}))
    instrument(kit.app)

    @kit.app.task(max_attempts=1)
    def work(card: str) -> None:
        raise ValueError("no")

    work.enqueue("4111")
    kit.app.drain()
    (event,) = kit.items("event")
    assert event["contexts"]["holdfast"].get("arguments") == ('{"card":"4111"}' if sent else None)


def test_a_failure_in_a_child_process_is_reported_from_there(kit: Kit) -> None:
    instrument(kit.app)
    kit.app._keep(reported_tasks.apart)
    kit.app.enqueue(reported_tasks.apart.job("hello"))
    kit.app.drain()
    (event,) = kit.items("event")
    assert kit.errors() == ["ValueError: it broke"]
    assert event["tags"]["mine"] == "hello"
    assert event["contexts"]["holdfast"]["arguments"] == '{"word":"hello"}'


def test_a_child_process_that_dies_is_reported_by_the_worker(kit: Kit) -> None:
    instrument(kit.app)
    kit.app._keep(reported_tasks.dies)
    kit.app.enqueue(reported_tasks.dies.job())
    kit.app.drain()
    assert [error.partition(":")[0] for error in kit.errors()] == ["WorkerLost"]


def test_each_failed_item_of_a_batch_is_reported_with_its_job(kit: Kit) -> None:
    instrument(kit.app)

    @kit.app.task(batch=10, max_attempts=1)
    def work(items: list[holdfast.Item[int]]) -> list[Exception | None]:
        return [ValueError(item.value) if item.value else None for item in items]

    jobs = kit.app.enqueue_many([work.job(n) for n in range(3)])
    kit.app.drain()
    assert {event["contexts"]["holdfast"]["id"] for event in kit.items("event")} == {job.id for job in jobs[1:]}
    assert sorted(kit.errors()) == ["ValueError: 1", "ValueError: 2"]


def test_a_run_continues_the_trace_of_its_enqueue_if_traces_are_on(kit: Kit) -> None:
    reported_tasks.init(traces_sample_rate=1.0)
    instrument(kit.app)

    @kit.app.task(max_attempts=1)
    def work() -> None:
        raise ValueError("no")

    with sentry_sdk.start_transaction(op="http.server", name="request") as request:
        work.enqueue()
    kit.app.drain()
    (event,), (first, second) = kit.items("event"), kit.items("transaction")
    assert {one["contexts"]["trace"]["trace_id"] for one in (event, first, second)} == {request.trace_id}
    assert (first["transaction"], second["transaction"]) == ("request", "work")
    (published,) = first["spans"]
    assert (published["op"], second["contexts"]["trace"]["op"]) == ("queue.publish", "queue.process")
    assert second["contexts"]["trace"]["parent_span_id"] == published["span_id"]


def test_without_traces_there_are_no_transactions(kit: Kit) -> None:
    instrument(kit.app)

    @kit.app.task
    def work() -> None: ...

    work.enqueue()
    kit.app.drain()
    assert kit.items("transaction") == []


@pytest.mark.parametrize("isolate", [False, True])
def test_each_run_of_a_schedule_checks_in_and_out(kit: Kit, isolate: bool) -> None:
    instrument(kit.app, check_ins=True)

    @kit.app.task(timeout=90)
    def here() -> None: ...

    task: Any = kit.app._keep(reported_tasks.fine) if isolate else here
    kit.app.schedules.create("Nightly clean-up", task.job(), cron="0 3 * * *", zone="Europe/Paris")
    kit.app.schedules.run_now("Nightly clean-up")
    kit.app.drain()
    begun, ended = kit.items("check_in")
    assert (begun["status"], ended["status"]) == ("in_progress", "ok")
    assert begun["check_in_id"] == ended["check_in_id"]
    assert {begun["monitor_slug"], ended["monitor_slug"]} == {"nightly-clean-up"}
    config = {"schedule": {"type": "crontab", "value": "0 3 * * *"}, "timezone": "Europe/Paris"}
    assert begun["monitor_config"] == (config if isolate else {**config, "max_runtime": 2})


def test_a_schedule_checks_in_as_failed_once_its_job_has_failed_for_good(kit: Kit) -> None:
    instrument(kit.app, check_ins=True)

    @kit.app.task
    def hook(job: str) -> None: ...

    @kit.app.task(max_attempts=2, retry=AT_ONCE, on_failure=[hook])
    def work() -> None:
        raise ValueError("no")

    kit.app.schedules.create("poll", work.job(), every=5400)
    kit.app.schedules.run_now("poll")
    work.enqueue()
    kit.app.drain()
    seen = kit.items("check_in")
    assert [one["status"] for one in seen] == ["in_progress", "in_progress", "error"]
    assert len({one["check_in_id"] for one in seen}) == 1
    assert seen[0]["monitor_config"]["schedule"] == {"type": "interval", "value": 90, "unit": "minute"}


@pytest.mark.parametrize("when", [{"every": 30}, {"cron": "*/10 * * * * *"}])
def test_a_schedule_finer_than_a_minute_has_no_monitor(kit: Kit, when: dict[str, Any]) -> None:
    instrument(kit.app, check_ins=True)

    @kit.app.task
    def work() -> None: ...

    kit.app.schedules.create("often", work.job(), **when)
    kit.app.schedules.run_now("often")
    kit.app.drain()
    assert kit.items("check_in") == []


def test_check_ins_are_opt_in(kit: Kit) -> None:
    instrument(kit.app)

    @kit.app.task
    def work() -> None: ...

    kit.app.schedules.create("poll", work.job(), every=60)
    kit.app.schedules.run_now("poll")
    kit.app.drain()
    assert kit.items("check_in") == []


@pytest.mark.parametrize(("name", "tenant"), [("Día / Noche", ""), ("x" * 80, "acme"), ("a b", "ACME")])
def test_a_monitors_name_is_one_that_sentry_takes(name: str, tenant: str) -> None:
    assert re.fullmatch(r"[a-z0-9_-]{1,50}", slug_of(name, tenant))


PROGRAM = """
import logging, sys
import sentry_sdk
import holdfast
from holdfast.contrib.sentry import instrument

logging.basicConfig(level="INFO")
sentry_sdk.init(dsn=f"http://key@127.0.0.1:{sys.argv[1]}/1")
app = holdfast.App(sys.argv[2])
instrument(app)

@app.task(max_attempts=2, retry=holdfast.RetryPolicy(kind="none"))
def work() -> None:
    logging.getLogger("shop").info("about to fail")
    raise ValueError("no")

work.enqueue()
app.drain()
"""


def test_with_all_that_sentry_does_by_itself_a_failure_is_one_event(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []

    class Sentry(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            for item in Envelope.deserialize(body).items:
                if item.type == "event":
                    events.append(json.loads(item.get_bytes()))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Sentry)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    port, store = str(server.server_address[1]), str(tmp_path / "jobs.db")
    done = subprocess.run([sys.executable, "-c", PROGRAM, port, store], capture_output=True, text=True, check=False)
    server.shutdown()
    server.server_close()
    assert done.returncode == 0, done.stderr
    (event,) = events
    assert event["exception"]["values"][0]["value"] == "no"
    crumbs = [crumb["message"] for crumb in event["breadcrumbs"]["values"]]
    assert crumbs == ["about to fail"]
