"""What a tired caller may do wrong, and what they are told."""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import logging
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column

import holdfast
from holdfast.cli.output import decoded


@pytest.fixture
def app() -> Iterator[holdfast.App]:
    app = holdfast.App(":memory:")
    yield app
    app.close()


@pytest.mark.parametrize("wrong", ["f", None, 5])
def test_what_is_not_a_request_is_named_with_what_to_write_instead(app: holdfast.App, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"task\.job"):
        app.enqueue(wrong)
    with pytest.raises(TypeError, match=r"task\.job"):
        app.enqueue_many([wrong])


def test_a_task_itself_is_not_a_request(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(TypeError, match="Task 'work'"):
        app.enqueue_many([work])  # type: ignore[list-item]


@pytest.mark.parametrize("wrong", ["a\ud800", "", "x" * 200, 5])
def test_an_id_that_cannot_be_is_refused_by_every_look_up(app: holdfast.App, wrong: Any) -> None:
    for look in (app.jobs.get, app.jobs.explain, app.jobs.cancel, app.jobs.retry, app.jobs.delete):
        with pytest.raises(holdfast.InvalidInput, match="the id"):
            look(wrong)


def test_a_result_of_another_type_than_announced_fails_the_job(app: holdfast.App) -> None:
    @app.task
    def typed() -> int:
        return "not a number"  # type: ignore[return-value]

    job = typed.enqueue()
    app.drain()
    assert job.status().reason == "bad_result"
    with pytest.raises(holdfast.JobFailed, match="expected `?int"):
        job.result()


def test_a_job_of_a_rate_that_does_not_exist_says_so(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    job = work.options(rate="typo").enqueue()
    app.drain()
    assert "there is no rate 'typo'" in app.jobs.explain(job.id).reasons[0].text


def test_the_words_with_which_a_job_was_parked_are_explained(app: holdfast.App) -> None:
    @app.task
    def work(reason: str) -> None:
        raise holdfast.Park("the API key was revoked", reason=reason)

    jobs = [work.enqueue(reason) for reason in ("auth", "billing")]
    app.drain()
    assert [reason.text for job in jobs for reason in job.explain().reasons] == [
        "it is blocked: auth: the API key was revoked",
        "it is blocked: billing: the API key was revoked",
    ]
    app.jobs.run_now(jobs[0].id)
    assert "revoked" not in str(jobs[0].explain().reasons)


def test_a_signal_to_a_job_without_its_name_is_told_to_name_it(app: holdfast.App) -> None:
    job = app.declare("work").enqueue()
    told = []
    for target in (job.id, "no-such-job"):
        with pytest.raises(holdfast.errors.InvalidToken, match=r"name the signal as well: app\.signal") as error:
            app.signal(target, payload=True)
        told.append(str(error.value))
    assert told[0] == told[1], "it is not said which jobs exist"
    with pytest.raises(holdfast.errors.InvalidToken, match="ask for a new one"):
        app.signal("v1.x.y", payload=True)


def test_a_corrupt_column_can_still_be_shown() -> None:
    assert decoded(b"\xff\xfe") == "b'\\xff\\xfe'"  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1, -0.001, "5", True])
def test_a_wait_for_no_proper_time_is_refused(app: holdfast.App, wrong: Any) -> None:
    @app.task
    def work() -> None: ...

    job = work.enqueue()
    for wait in (job.wait, job.result, lambda timeout: app.jobs.wait(job.id, timeout)):
        with pytest.raises(holdfast.InvalidInput, match="timeout"):
            wait(wrong)
    for awaited in (job.await_, job.aresult):
        with pytest.raises(holdfast.InvalidInput, match="timeout"):
            asyncio.run(awaited(wrong))
    with app.inline(), pytest.raises(holdfast.InvalidInput, match="timeout"):
        work.enqueue().wait(wrong)


def test_a_wait_may_be_as_long_as_anybody_likes(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    job = work.enqueue()
    with app.worker():
        assert job.wait(timeout=10**11) == "succeeded"
    with pytest.raises(holdfast.ResultTimeout):
        work.enqueue().wait(0)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("CONCURRENCY", "abc"), ("CONCURRENCY", "0"), ("LEASE", "1"), ("LEASE", "nan"), ("POLL", ""),
        ("DURABLE", "perhaps"), ("POOL_SIZE", "many"),
    ],
)  # fmt: skip
def test_a_wrong_value_in_a_variable_is_told_with_the_name_of_the_variable(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"HOLDFAST_{variable}", text)
    with pytest.raises(holdfast.errors.ConfigError, match=f"HOLDFAST_{variable}"):
        holdfast.App(":memory:")


def test_a_wrong_value_in_code_is_not_blamed_on_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LEASE", "30")
    with pytest.raises(holdfast.errors.ConfigError, match="^concurrency must be"):
        holdfast.App(":memory:", concurrency=0)


@pytest.mark.parametrize(
    ("option", "called"),
    [
        ("retries", "max_attempts"), ("max_retries", "max_attempts"), ("autoretry_for", "no_retry_on"),
        ("bind", "holdfast.Context"), ("queue_name", "use queue"),
        ("countdown", r"use delay, an option of one call: task\.options\(delay=…\)"),
        ("eta", "use at, an option of one call"), ("prioritty", "did you mean 'priority'"),
        ("acks_late", "leave it out: a job of a lost worker always runs again"), ("key", "use dedupe_key"),
        ("args", r"use the arguments of \.enqueue"), ("eager", r"use app\.inline"),
        ("frobnicate", "it has name, queue, priority"),
    ],
)  # fmt: skip
def test_an_option_of_another_library_is_answered_with_its_name_here(
    app: holdfast.App, option: str, called: str
) -> None:
    with pytest.raises(holdfast.errors.UnknownOption, match=called):
        app.task(**{option: 3})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=f"no option '{option}'"):
        app.declare("elsewhere", **{option: 3})
    assert app.tasks == {}


def test_an_option_is_sent_to_the_place_where_it_belongs(app: holdfast.App) -> None:
    with pytest.raises(holdfast.errors.UnknownOption, match=r"an option of one call: task\.options\(delay=…\)"):
        app.task(delay=5)  # type: ignore[call-overload]

    @app.task
    def work() -> None: ...

    with pytest.raises(holdfast.errors.UnknownOption, match=r"an option of the task: @app\.task\(isolate=…\)"):
        work.options(isolate="process")  # type: ignore[call-arg]
    with pytest.raises(holdfast.errors.UnknownOption, match="use delay$"):
        work.options(countdown=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("call", ["delay", "apply_async", "send", "defer", "perform_async", "kiq", "s"])
def test_a_call_of_another_library_is_answered_with_its_name_here(app: holdfast.App, call: str) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(AttributeError, match="enqueue|job"):
        getattr(work, call)
    assert not hasattr(work, call)
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        work.colour  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("wrong", "instead"),
    [
        ("abc", r"tags=\['abc'\]"), ("", r"tags=\[''\]"), (5, "not int"), ({"a=b": "c"}, "contains ="),
        ({"order": None}, "not None"), ({"order": True}, "not bool"), 
        ({1: "a"}, "a tag's key must be text"), ({"": "a"}, "empty"),
    ],
)  # fmt: skip
def test_tags_that_are_neither_a_list_nor_a_mapping_of_texts_are_refused(
    app: holdfast.App, wrong: Any, instead: str
) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(holdfast.InvalidInput, match=instead):
        work.options(tags=wrong).enqueue()


def test_tags_by_key_are_kept_and_found(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    job = work.options(tags={"order": 4711, "shop": "north"}).enqueue()
    work.options(tags={"order": 4712}).enqueue()
    assert json.loads(job.status().tags or "") == ["order=4711", "shop=north"]
    assert [found.id for found in app.jobs.find(holdfast.model.JobFilter(tag="order=4711"))] == [job.id]


def test_a_rate_that_a_task_says_as_text_is_kept(app: holdfast.App) -> None:
    @app.task(rate="2/h")
    def work() -> None: ...

    @app.task(rate="2/h")
    def other() -> None: ...

    jobs = [other.enqueue()] + [work.enqueue() for _ in range(3)]
    app.drain()
    assert [job.state for job in jobs] == ["succeeded", "succeeded", "succeeded", "ready"]
    assert {bucket.scope for bucket in app.limits.show().rates} == {"task:work", "task:other"}


def test_a_rate_as_text_in_a_call_is_refused_because_it_has_no_bucket(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(holdfast.InvalidInput, match=r"give it to @app\.task"):
        work.options(rate="10/s").enqueue()


def test_none_is_without_wherever_it_is_given_and_what_is_not_given_stays(app: holdfast.App) -> None:
    app.rate("slow", capacity=1, per_second=1)

    @app.task(max_attempts=3, timeout=9, rate="slow", affinity="model", retry=holdfast.RetryPolicy(kind="fixed"))
    def work() -> None: ...

    left = work.options(priority=1).enqueue().status()
    assert (left.max_attempts, left.timeout) == (3, 9_000_000)
    assert left.retry is not None
    assert "slow" in (left.limits or "")
    given = work.options(max_attempts=None, timeout=None, rate=None, affinity=None, retry=None).enqueue().status()
    assert (given.max_attempts, given.timeout, given.limits, given.retry) == (0, None, None, None)
    assert given.route != left.route


def test_none_takes_back_what_an_earlier_call_of_options_said(app: holdfast.App) -> None:
    @app.task(max_attempts=3)
    def work() -> None: ...

    said = work.options(
        dedupe_key="k", deadline=60, delay=60, priority=5, max_attempts=7, tenant="acme", fair_key="f", queue="mail"
    )
    kept = said.options(tags=["x"]).enqueue().status()
    assert (kept.dedupe_key, kept.priority, kept.max_attempts, kept.tenant, kept.queue) == ("k", 5, 7, "acme", "mail")
    taken = said.options(
        dedupe_key=None, deadline=None, delay=None, priority=None, max_attempts=None, tenant=None, queue=None
    ).enqueue()
    back = taken.status()
    assert (back.dedupe_key, back.deadline, back.priority, back.tenant, back.queue) == (None, None, 0, "", "default")
    assert (back.max_attempts, back.state) == (0, "ready")


def _yields() -> Iterator[int]:
    yield 1


async def _yields_async() -> AsyncIterator[int]:
    yield 1


class _Holder:
    def method(self) -> None: ...


@pytest.mark.parametrize(
    ("wrong", "instead"),
    [
        (_yields, "return a list"), (_yields_async, "return a list"), (_Holder, "the class _Holder"),
        (_Holder.method, "no object to call it on"), (len, "the builtin len"), (lambda: None, "name="),
        (functools.partial(print, 1), "name="), ("work", "name="), (5, "takes a function"),
        (classmethod(_yields), "takes a function"),
    ],
)  # fmt: skip
def test_what_no_worker_could_call_is_no_task(app: holdfast.App, wrong: Any, instead: str) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match=instead):
        app.task(wrong)
    with pytest.raises(holdfast.errors.ConfigError, match=instead):
        app.task()(wrong)
    assert app.tasks == {}


def test_the_context_of_the_other_kind_of_function_is_refused(app: holdfast.App) -> None:
    async def awaits(ctx: holdfast.SyncContext) -> None: ...

    def blocks(ctx: holdfast.Context | None) -> None: ...

    def takes_either(ctx: holdfast.Context | holdfast.SyncContext) -> None: ...

    with pytest.raises(
        holdfast.errors.ConfigError, match="is an async def and takes ctx: SyncContext; annotate it with Context"
    ):
        app.task(awaits)
    with pytest.raises(
        holdfast.errors.ConfigError, match="is a def and takes ctx: Context; annotate it with SyncContext"
    ):
        app.task(blocks)
    app.task(takes_either)


def test_a_ctx_without_an_annotation_is_refused(app: holdfast.App) -> None:
    async def awaits(ctx) -> None: ...  # type: ignore[no-untyped-def]

    def blocks(ctx, n) -> None: ...  # type: ignore[no-untyped-def]

    for fn, kind in ((awaits, "Context"), (blocks, "SyncContext")):
        with pytest.raises(holdfast.errors.ConfigError, match=f"write ctx: holdfast.{kind}$"):
            app.task(fn)


def test_a_schedule_without_parentheses_or_with_wrong_things_is_refused(app: holdfast.App) -> None:
    def work() -> None: ...

    for wrong in (work, 5, None):
        with pytest.raises(holdfast.errors.ConfigError, match=r'write @app\.cron\("0 3 \* \* \*"\)'):
            app.cron(wrong)  # type: ignore[arg-type]
    for wrong in (work, "5m", None):
        with pytest.raises(holdfast.errors.ConfigError, match=r"write @app\.every\(60\), in seconds"):
            app.every(wrong)  # type: ignore[arg-type]
    with pytest.raises(holdfast.errors.UnknownOption, match="use zone$"):
        app.cron("0 3 * * *", timezone="Europe/Paris")  # type: ignore[call-arg]
    with pytest.raises(holdfast.errors.UnknownOption, match=r"@app\.task\(queue=…\)"):
        app.every(60, queue="mail")  # type: ignore[call-arg]
    assert app.tasks == {}


def test_middleware_that_cannot_wrap_a_handler_is_refused(app: holdfast.App) -> None:
    async def takes_one(ctx: Any) -> Any: ...

    for wrong in (takes_one, _Holder, "layer", None):
        with pytest.raises(holdfast.errors.ConfigError, match=r"def layer\(ctx, call\)"):
            app.middleware(wrong)  # type: ignore[type-var]


@pytest.mark.parametrize("inline", [False, True])
def test_a_forgotten_await_of_a_step_fails_the_job_and_names_the_step(app: holdfast.App, inline: bool) -> None:
    @app.task
    async def forgets(ctx: holdfast.Context) -> None:
        for n in range(200):
            await ctx.step("done", int, n)
        ctx.step("mail", print, "never")

    with app.inline() if inline else nullcontext():
        job = forgets.enqueue()
        if not inline:
            app.drain()
        with pytest.raises(holdfast.JobFailed, match=r"ctx\.step\('mail'\) was never awaited.*await ctx\.step"):
            job.result()
    assert inline or app.jobs.get(job.id).attempts == 1


def test_calls_that_are_awaited_together_are_not_forgotten(app: holdfast.App) -> None:
    @app.task
    async def gathers(ctx: holdfast.Context) -> int:
        one, two = await ctx.gather(ctx.step("one", int, 1), ctx.step("two", int, 2))
        three, four = await asyncio.gather(ctx.step("three", int, 3), ctx.step("four", int, 4))
        return one + two + three + four

    job = gathers.enqueue()
    app.drain()
    assert job.result() == 10


def test_an_object_of_an_orm_is_refused_with_the_advice_to_pass_its_id(app: holdfast.App) -> None:
    class Base(MappedAsDataclass, DeclarativeBase): ...

    class User(Base):
        __tablename__ = "users"
        id: Mapped[int] = mapped_column(primary_key=True)

    class Plain(DeclarativeBase): ...

    class Order(Plain):
        __tablename__ = "orders"
        id: Mapped[int] = mapped_column(primary_key=True)

    @app.task
    def work(what: Any) -> None: ...

    for row in (User(id=1), Order(id=1)):
        for wrong in (row, [row]):
            if isinstance(row, User) and isinstance(wrong, list):
                continue  # A dataclass deep inside is written as one.
            with pytest.raises(holdfast.errors.InvalidArguments, match="object of your database; pass its primary key"):
                work.enqueue(wrong)


def test_a_renamed_parameter_is_told_by_both_names(app: holdfast.App) -> None:
    old = app.declare("work")
    job = old.options(max_attempts=1).enqueue(a=1)
    del app._tasks["work"]

    @app.task
    def work(b: int) -> None: ...

    app.drain()
    assert job.status().reason == "undecodable"
    with pytest.raises(holdfast.JobFailed, match=r"it takes \(b\), the stored job has 'a'"):
        job.result()


def test_a_variable_that_sets_nothing_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOLDFAST_CONCURENCY", "5")
    with caplog.at_level(logging.WARNING, "holdfast"):
        holdfast.App(":memory:")
        holdfast.App(":memory:")
    assert caplog.messages == [
        "HOLDFAST_CONCURENCY is set, but there is no such setting; did you mean HOLDFAST_CONCURRENCY?"
    ]


def test_the_variable_of_the_outbox_is_not_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOLDFAST_CAPTURE", "false")
    with caplog.at_level(logging.WARNING, "holdfast"):
        holdfast.App(":memory:")
    assert caplog.messages == []


@pytest.mark.parametrize("wrong", [{"delay": -1}, {"queue": "a,b"}, {"priority": 10**9}, {"max_attempts": 0}])
def test_inline_mode_refuses_what_a_store_would_refuse(app: holdfast.App, wrong: dict[str, Any]) -> None:
    @app.task
    def work() -> None: ...

    @app.task
    async def awaiting() -> None: ...

    with pytest.raises(holdfast.InvalidInput) as refused:
        work.options(**wrong).enqueue()
    with app.inline():
        with pytest.raises(holdfast.InvalidInput, match=re.escape(str(refused.value))):
            work.options(**wrong).enqueue()
        with pytest.raises(holdfast.InvalidInput, match=re.escape(str(refused.value))):
            asyncio.run(awaiting.options(**wrong).aenqueue())


def test_a_handler_that_cancels_its_job_is_told_inline_as_by_a_worker(app: holdfast.App) -> None:
    @app.task
    def work() -> None:
        raise holdfast.Cancel("not wanted")

    with app.inline(), pytest.raises(holdfast.JobCancelled, match="not wanted"):
        work.enqueue().result()
    job = work.enqueue()
    app.drain()
    with pytest.raises(holdfast.JobCancelled, match="not wanted"):
        job.result()


@pytest.mark.parametrize(
    ("module", "code", "extra"),
    [
        ("starlette", "import holdfast.web", "web"),
        ("jinja2", "import holdfast.web", "web"),
        ("psycopg", "import holdfast; holdfast.App('postgresql://localhost/x').open()", "postgres"),
        ("opentelemetry", "import holdfast.contrib.otel", "otel"),
        ("fastapi", "import holdfast.contrib.fastapi", "fastapi"),
        ("starlette", "import holdfast.contrib.starlette", "web"),
        ("flask", "import holdfast.contrib.flask", "flask"),
        ("litestar", "import holdfast.contrib.litestar", "litestar"),
    ],
)
def test_a_missing_extra_is_told_with_the_command_that_installs_it(module: str, code: str, extra: str) -> None:
    program = f"import sys; sys.modules[{module!r}] = None\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("holdfast.errors.MissingExtra: ")
    assert last.endswith(f'run: pip install "holdfast[{extra}]"')


def test_a_worker_is_started_once(app: holdfast.App) -> None:
    worker = app.worker()
    with worker, pytest.raises(holdfast.errors.ConfigError, match=r"make another one with app\.worker\(\)"), worker:
        pass
    with pytest.raises(holdfast.errors.ConfigError, match="started before"):
        worker.__enter__()


def test_a_flow_that_is_not_stored_says_so(app: holdfast.App, caplog: pytest.LogCaptureFixture) -> None:
    @app.task
    def work() -> None: ...

    def forget() -> None:
        flow = app.flow("nightly")
        flow.add(work.job())
        for call in (flow.status, flow.wait, flow.result, flow.cancel):
            with pytest.raises(holdfast.InvalidInput, match="flow 'nightly' is not stored yet"):
                call()

    def fail() -> None:
        with app.flow("broken") as flow:
            flow.add(work.job())
            raise ZeroDivisionError

    gc.collect()  # flows of other tests warn before this one looks
    caplog.clear()
    with caplog.at_level(logging.WARNING, "holdfast"):
        forget()
        with pytest.raises(ZeroDivisionError):
            fail()
        gc.collect()
    assert caplog.messages == ["flow 'nightly' was never stored: write it as with app.flow(…), or call .start()"]


def test_an_option_among_the_arguments_is_sent_to_options(app: holdfast.App) -> None:
    @app.task
    def work(n: int) -> None: ...

    with pytest.raises(holdfast.errors.InvalidArguments, match=r"\.options\(delay=…\)\.enqueue\(…\)"):
        work.enqueue(1, delay=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("options", [{"rate": 10}, {"breaker": 5}, {"quota": 5}, {"no_retry_on": ValueError},
                                     {"no_retry_on": ("ValueError",)}])  # fmt: skip
def test_an_option_of_a_wrong_type_is_refused_when_the_task_is_made(app: holdfast.App, options: dict[str, Any]) -> None:
    with pytest.raises(holdfast.HoldfastError, match="must be text|give a tuple of exceptions"):
        app.task(**options)  # type: ignore[call-overload]


def test_a_handle_in_the_place_of_an_id_is_told_how_to_get_the_id(app: holdfast.App) -> None:
    job = app.declare("x").enqueue()
    for look in (app.jobs.get, app.jobs.explain):
        with pytest.raises(holdfast.InvalidInput, match=r"pass job\.id"):
            look(job)  # type: ignore[arg-type]


def test_actions_take_a_handle_or_an_id(app: holdfast.App) -> None:
    job = app.declare("x").enqueue()
    assert [app.jobs.cancel(job), app.jobs.cancel(job.id)] == ["cancelled", "finished"]
    assert app.jobs.retry(job)
    assert app.jobs.delete(job) == "deleted"


def test_jobs_to_enqueue_may_come_from_a_generator(app: holdfast.App) -> None:
    task = app.declare("x")
    assert len(app.enqueue_many(task.job(n=n) for n in range(3))) == 3
    assert len(asyncio.run(app.aenqueue_many(task.job(n=n) for n in range(3)))) == 3


@pytest.mark.parametrize(
    ("wrong", "instead"), [(5, "as text"), (Path("postgresql://localhost/x"), "pass the store as text")]
)
def test_a_store_of_a_wrong_type_is_refused(wrong: Any, instead: str) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match=instead):
        holdfast.App(wrong).open()


@pytest.mark.parametrize("call", ["emit('x')", "progress(percent=5)", "flush()", "summarize({})", "acquire('smtp')"])
def test_a_forgotten_await_of_any_call_of_the_context_fails_the_job(app: holdfast.App, call: str) -> None:
    @app.task
    async def forgets(ctx: holdfast.Context) -> None:
        eval(f"ctx.{call}")

    job = forgets.enqueue()
    app.drain()
    with pytest.raises(holdfast.JobFailed, match=f"ctx.{call.partition('(')[0]} was never awaited"):
        job.result()


def test_a_block_without_with_is_warned_of_and_one_with_it_is_not(
    app: holdfast.App, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "holdfast"):
        app.inline()
        holdfast.tenant("acme")
        app.override_store(":memory:")
        app.within(None)
        with pytest.raises(TypeError):
            app.within(object())
    assert caplog.messages == [
        f"{name}(…) does nothing by itself; write: with {name}(…):"
        for name in ("inline", "tenant", "override_store", "app.within")
    ]
    caplog.clear()

    @holdfast.tenant("acme")
    def enqueue() -> str:
        return app.declare("x").enqueue().status().tenant

    with app.override_store(":memory:"), app.within(None):
        assert enqueue() == "acme"
    del enqueue
    assert caplog.messages == []


def test_an_object_with_an_async_call_is_an_async_task(app: holdfast.App) -> None:
    class Greet:
        async def __call__(self) -> str:
            return "hello"

    job = app.task(name="greet")(Greet()).enqueue()
    app.drain()
    assert job.result() == "hello"


def test_a_partial_of_an_object_with_an_async_call_is_async_wherever_a_function_is_taken(app: holdfast.App) -> None:
    class Greet:
        async def __call__(self, greeting: str, *given: Any) -> str:
            return f"{greeting}, {given[0]}" if isinstance(given[0], str) else f"{greeting}, {await given[1]()}"

    @app.task
    async def stepping(ctx: holdfast.Context) -> str:
        return await ctx.step("greet", functools.partial(Greet(), "hi"), "Bob")

    app.middleware(functools.partial(Greet(), "layered"))
    jobs = [app.task(name="greet")(functools.partial(Greet(), "hello")).enqueue("Ada"), stepping.enqueue()]
    app.drain()
    assert [job.result(0) for job in jobs] == ["layered, hello, Ada", "layered, hi, Bob"]


def test_a_task_that_returns_a_coroutine_is_told_to_await_it(app: holdfast.App) -> None:
    async def later() -> int:
        return 1

    coroutine = later()

    @app.task
    def forgets() -> Any:
        return coroutine

    job = forgets.enqueue()
    app.drain()
    with pytest.raises(holdfast.JobFailed, match="is a coroutine that was not awaited"):
        job.result()
    coroutine.close()


def test_a_function_inside_another_cannot_be_isolated(app: holdfast.App) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match="move it to the top of its module"):

        @app.task(isolate="process")
        def work() -> None: ...
