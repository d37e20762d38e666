"""One trace from the enqueue to the last delivery, on both stores, through OpenTelemetry's own kit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan

import holdfast
from holdfast.contrib.otel import instrument
from tests.acceptance.conftest import url_of
from tests.patience import SOON
from tests.unit.http_kit import OK, answer, serving
from tests.unit.test_otel import Kit, parent_of, trace_of
from tests.worker.test_webhooks import OPEN
from tests.worker.worker_kit import live

from . import traced_tasks

AT_ONCE = holdfast.RetryPolicy(kind="none")


@pytest.fixture
def kit(where: str) -> Iterator[Kit]:
    kit = Kit(url_of(where) if "=" in where else where)
    yield kit
    kit.close()


def about(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def test_each_try_of_a_step_is_a_span_below_its_run(kit: Kit) -> None:
    tried: list[int] = []

    def load() -> int:
        tried.append(1)
        if len(tried) == 1:
            raise OSError("password=hunter2 is wrong")
        return 7

    @kit.app.task
    async def work(ctx: holdfast.Context) -> int:
        return await ctx.options(max_attempts=2, retry=AT_ONCE).step("load", load)

    job = work.enqueue()
    kit.app.drain()
    assert job.result(timeout=0) == 7
    (run,) = kit.spans("run work")
    first, second = kit.spans("step load")
    assert {parent_of(first), parent_of(second)} == {id_of(run)}
    assert [about(step)["holdfast.step.attempt"] for step in (first, second)] == [1, 2]
    assert (first.status.status_code, second.status.status_code) == (trace.StatusCode.ERROR, trace.StatusCode.UNSET)
    assert about(first)["error.type"] == "OSError"
    assert "hunter2" not in first.to_json()


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_the_run_after_a_suspension_links_to_the_run_before_and_the_wait_is_a_span(kit: Kit, colour: str) -> None:
    async def awork(ctx: holdfast.Context) -> str:
        await ctx.step("load", int)
        return await ctx.wait_for("approval", type=str)

    def work(ctx: holdfast.SyncContext) -> str:
        ctx.step("load", int)
        return ctx.wait_for("approval", type=str)

    task = kit.app.task(awork) if colour == "async" else kit.app.task(work)  # type: ignore[arg-type]
    job = task.enqueue()  # type: ignore[union-attr]
    kit.app.drain()
    kit.app.signal(job.id, "approval", "yes")
    kit.app.drain()
    assert job.result(timeout=0) == "yes"

    sent, (before, after), wait = (
        kit.span(f"enqueue {task.name}"),
        kit.spans(f"run {task.name}"),
        kit.span("wait approval"),
    )
    assert {trace_of(span) for span in (before, after, wait)} == {trace_of(sent)}
    assert (linked(before), linked(after), linked(wait)) == ([], [id_of(before)], [id_of(before)])
    assert parent_of(wait) == id_of(sent)
    assert about(wait) == {
        "holdfast.wait": "signal", "messaging.message.id": job.id, "messaging.system": "holdfast",
        "messaging.operation.name": "wait", "messaging.operation.type": "receive",
        "messaging.destination.name": "approval",
    }  # fmt: skip
    assert before.status.status_code is after.status.status_code is trace.StatusCode.UNSET
    assert len(kit.spans("step load")) == 1
    # What the journal keeps for the trace is no step of the job.
    assert [step.kind for step in kit.app.jobs.steps(job.id)] == ["step", "wait"]


def test_a_wait_has_one_span_however_many_runs_come_after_it(kit: Kit) -> None:
    @kit.app.task(retry=AT_ONCE, max_attempts=3)
    async def work(ctx: holdfast.Context) -> None:
        await ctx.wait_for("first")
        await ctx.wait_for("second")
        if ctx.attempt < 2:
            raise ValueError

    job = work.enqueue()
    kit.app.drain()
    for name in ("first", "second"):
        kit.app.signal(job.id, name)
        kit.app.drain()
    one, two, three, four = kit.spans("run work")
    assert [linked(run) for run in (one, two, three, four)] == [[], [id_of(one)], [id_of(two)], [id_of(two)]]
    assert len(kit.spans("wait first")) == len(kit.spans("wait second")) == 1


def test_a_job_that_is_not_sampled_writes_nothing_for_its_trace(where: str) -> None:
    app = holdfast.App(url_of(where) if "=" in where else where)
    instrument(app, tracer_provider=trace.NoOpTracerProvider())

    @app.task
    async def work(ctx: holdfast.Context) -> None:
        await ctx.wait_for("go")

    job = work.enqueue()
    app.drain()
    app.signal(job.id, "go")
    app.drain()
    assert job.status().state == "succeeded"
    app.close()


def test_a_run_in_a_child_process_and_its_steps_and_waits_are_in_the_trace(
    kit: Kit, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPANS", str(tmp_path / "spans"))
    monkeypatch.setenv("HOLDFAST_STORE", url_of(where) if "=" in where else where)
    kit.app._keep(traced_tasks.apart)
    job = kit.app.enqueue(traced_tasks.apart.job())
    kit.app.drain()
    kit.app.signal(job.id, "go", "went")
    kit.app.drain()
    assert job.result(timeout=0) == "went True"

    spans = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
    assert [span["name"] for span in spans] == ["step load", "run apart", "wait go", "run apart"]
    sent = kit.span("enqueue apart")
    assert {span["context"]["trace_id"] for span in spans} == {f"0x{trace_of(sent):032x}"}
    step, before, _, after = spans
    assert step["parent_id"] == before["context"]["span_id"]
    assert [link["context"]["span_id"] for link in after["links"]] == [before["context"]["span_id"]]


@pytest.mark.parametrize("isolate", [False, True])
def test_a_batch_links_to_every_enqueue_of_its_jobs(
    kit: Kit, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolate: bool
) -> None:
    monkeypatch.setenv("SPANS", str(tmp_path / "spans"))
    monkeypatch.setenv("HOLDFAST_STORE", url_of(where) if "=" in where else where)

    @kit.app.task(batch=10)
    def gathered(items: list[holdfast.Item[int]]) -> None: ...

    task: Any = kit.app._keep(traced_tasks.together) if isolate else gathered
    for n in range(3):
        kit.app.enqueue(task.job(n))
    kit.app.drain()
    sent = {id_of(span) for span in kit.spans(f"enqueue {task.name}")}
    if isolate:
        (run,) = [json.loads(line) for line in (tmp_path / "spans").read_text().splitlines()]
        assert {int(link["context"]["span_id"], 16) for link in run["links"]} == sent
        assert (run["parent_id"], run["attributes"]["messaging.batch.message_count"]) == (None, 3)
    else:
        one = kit.span("run gathered")
        assert (set(linked(one)), parent_of(one), about(one)["messaging.batch.message_count"]) == (sent, None, 3)


def test_the_members_and_the_hooks_of_a_flow_are_in_the_trace_of_its_creation(kit: Kit) -> None:
    @kit.app.task
    def after(job: str) -> None: ...

    @kit.app.task(on_success=[after])
    def count(n: int) -> int:
        return n

    @kit.app.task
    def report(counts: list[int]) -> None: ...

    with kit.tracer.start_as_current_span("request"):
        with kit.app.flow("nightly") as flow:
            flow.add(report.job(flow.map(count, [1, 2]).output))
    kit.app.drain()
    runs = [*kit.spans("run count"), *kit.spans("run report"), *kit.spans("run after")]
    assert len(runs) == 5
    assert {trace_of(run) for run in runs} == {trace_of(kit.span("request"))}


def test_an_event_is_created_by_its_put_and_sent_by_its_delivery(kit: Kit) -> None:
    inside: list[int] = []

    @kit.app.destination("cloud")
    def cloud(events: list[holdfast.model.OutboxEvent]) -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)

    kit.app.outbox("cloud").put({"n": 1})
    kit.app.drain()
    put, sent = kit.span("put outbox.cloud"), kit.span("deliver outbox.cloud")
    assert (trace_of(sent), parent_of(sent)) == (trace_of(put), id_of(put))
    assert inside == [id_of(sent)]
    assert (about(put)["messaging.operation.type"], about(sent)["messaging.operation.type"]) == ("create", "send")
    assert about(sent)["messaging.destination.name"] == "outbox.cloud"
    assert (put.kind, sent.kind) == (trace.SpanKind.PRODUCER, trace.SpanKind.CLIENT)


def test_a_delivery_of_several_events_links_to_each_put_and_shows_a_failure(kit: Kit) -> None:
    @kit.app.destination("cloud")
    async def cloud(events: list[holdfast.model.OutboxEvent]) -> None:
        raise ConnectionError("password=hunter2 was refused")

    for n in range(3):
        kit.app.outbox("cloud").put({"n": n})
    kit.app.drain()
    sent = kit.spans("deliver outbox.cloud")[0]
    assert set(linked(sent)) == {id_of(span) for span in kit.spans("put outbox.cloud")}
    assert (parent_of(sent), about(sent)["messaging.batch.message_count"]) == (None, 3)
    assert (sent.status.status_code, about(sent)["error.type"]) == (trace.StatusCode.ERROR, "ConnectionError")
    assert "hunter2" not in sent.to_json()


@live
async def test_a_webhook_carries_the_trace_of_its_job_to_the_receiver(kit: Kit) -> None:
    kit.app.outbound = OPEN

    @kit.app.task
    async def work() -> None: ...

    async with serving(answer(500), OK) as server:
        await kit.app.webhooks.aadd(server.url, events=["job.succeeded"])
        await work.aenqueue()
        await kit.app.adrain()
        sent, request = kit.span("enqueue work"), kit.span("request webhooks")
        header = server.seen[0].headers["traceparent"]
    assert header.startswith(f"00-{trace_of(sent):032x}-{id_of(request):016x}-")
    assert parent_of(request) == id_of(kit.span("run webhook.deliver"))
    assert about(request) == {
        "messaging.system": "holdfast", "messaging.operation.name": "request", "messaging.operation.type": "send",
        "messaging.destination.name": "webhooks", "http.request.method": "POST", "url.scheme": "http",
        "server.address": "127.0.0.1", "http.response.status_code": 500, "error.type": "500",
    }  # fmt: skip
    assert request.status.status_code is trace.StatusCode.ERROR


def test_two_observers_of_an_enqueue_share_the_trace_of_a_job(kit: Kit) -> None:
    @contextmanager
    def around(requests: Any) -> Iterator[str | None]:
        yield json.dumps({"request": len(requests)})

    kit.app.around_enqueue(around)

    @kit.app.task
    def work() -> None: ...

    stored = json.loads(work.enqueue().status().trace or "")
    assert (sorted(stored), stored["request"]) == (["request", "traceparent"], 1)


def test_a_sleep_and_a_wait_for_a_job_are_spans_too(kit: Kit) -> None:
    @kit.app.task
    async def child() -> None: ...

    @kit.app.task
    async def work(ctx: holdfast.Context) -> None:
        await ctx.sleep(0.05)
        await ctx.wait_for(await ctx.enqueue(child.job()))

    job = work.enqueue()
    with kit.app.worker():
        job.result(SOON)
    first, second, third = sorted(kit.spans("run work"), key=lambda span: span.start_time or 0)
    assert (linked(second), linked(third)) == ([id_of(first)], [id_of(second)])
    sleep, wait = kit.span("wait sleep"), kit.span("wait jobs")
    assert (sleep.kind, wait.kind) == (trace.SpanKind.INTERNAL, trace.SpanKind.CLIENT)
    assert "messaging.system" not in about(sleep)
    assert about(wait)["messaging.operation.type"] == "receive"
    # What a job enqueues is below its run.
    assert parent_of(kit.span("enqueue child")) == id_of(second)
    assert trace_of(kit.span("run child")) == trace_of(first)
