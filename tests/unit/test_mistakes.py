"""What Holdfast says to mistakes of callers who know only the documentation."""

from __future__ import annotations

import asyncio
import logging
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import holdfast
import holdfast.web
import holdfast.webhooks
from holdfast.cli import doctor
from holdfast.client import watch
from holdfast.names import counted
from holdfast.rules.enums import allowed_values
from holdfast.rules.retry import RetryPolicy
from holdfast.testing import isolated
from holdfast.web.api.jobs import Wanted

SECRET = "whsec_" + "A" * 32


@pytest.fixture
def app() -> Iterator[holdfast.App]:
    app = holdfast.App(":memory:")
    yield app
    app.close()


def alert(job_id: str) -> None: ...


def run(code: str, folder: Path) -> str:
    (folder / "program.py").write_text(code)
    done = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_queue_that_is_no_text_is_refused_in_a_call(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    with pytest.raises(holdfast.InvalidInput, match="queue's name must be text, not int"):
        work.options(queue=5).enqueue()  # type: ignore[arg-type]


@pytest.mark.parametrize(("hook", "shown"), [("alert", "on_failure is 'alert'"), (alert, "the function 'alert'")])
def test_a_hook_that_is_no_task_is_named_with_what_to_give(app: holdfast.App, hook: Any, shown: str) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match=rf"{shown}; give a task itself, made by @app\.task"):
        app.task(on_failure=hook)


def test_a_refused_schedule_leaves_no_task_behind(app: holdfast.App) -> None:
    def nightly() -> None: ...

    with pytest.raises(holdfast.InvalidInput):
        app.cron("0 3 * *")(nightly)
    with pytest.raises(holdfast.InvalidInput):
        app.every(-5)(nightly)
    assert not app.tasks
    assert app.cron("0 3 * * *")(nightly).name == "nightly"


def test_a_cell_of_a_notebook_that_runs_again_replaces_its_task_with_a_warning(
    app: holdfast.App, caplog: pytest.LogCaptureFixture
) -> None:
    cell = "@app.every(60)\ndef tick() -> int: return {}"
    exec(cell.format(1), scope := {"app": app, "__name__": "__main__"})
    with caplog.at_level(logging.WARNING, "holdfast"):
        exec(cell.format(2), scope)
    assert "task 'tick' is defined again in __main__" in caplog.text
    assert app.tasks["tick"].fn() == 2  # type: ignore[misc]
    assert [spec.name for spec in app.schedules.declared] == ["tick"]
    with pytest.raises(holdfast.InvalidInput):
        exec(cell.replace("60", "-60").format(3), scope)
    assert app.tasks["tick"].fn() == 2  # type: ignore[misc]
    with pytest.raises(holdfast.errors.ConfigError, match="two tasks named 'tick'"):
        exec(cell.format(3), {"app": app, "__name__": "another"})
    with pytest.raises(holdfast.errors.ConfigError, match="two schedules named 'tick'"):
        app.every(5)(app.tasks["tick"])


@pytest.mark.parametrize("body", [{}, "{}"])
def test_a_webhook_that_was_read_already_cannot_be_verified(body: Any) -> None:
    headers = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
    with pytest.raises(holdfast.InvalidInput, match="pass the raw bytes"):
        holdfast.webhooks.verify(SECRET, headers, body)


def test_a_process_pool_enqueues_and_its_jobs_come_back(tmp_path: Path) -> None:
    answer = run(
        """
import holdfast
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

app = holdfast.App("jobs.db")

@app.task
def double(n: int) -> int:
    return 2 * n

if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = list(pool.map(double.options(priority=3).enqueue, range(3)))
    app.drain()
    print([job.result(timeout=0) for job in jobs], {one.priority for one in app.jobs.find()})
""",
        tmp_path,
    )
    assert answer == "[0, 2, 4] {3}\n"


def test_what_another_process_could_not_find_is_not_pickled(app: holdfast.App) -> None:
    @app.task
    def work() -> int:
        return 1

    with pytest.raises(pickle.PicklingError, match="at the top of a module, or send the task's name"):
        pickle.dumps(work)
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(app.declare("elsewhere"))
    with pytest.raises(pickle.PicklingError, match=r"send job\.id"):
        pickle.dumps(app.job(work.enqueue().id))


def test_a_site_is_made_of_an_app_and_of_lists(app: holdfast.App) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match=r"hosts=\['jobs\.example\.com'\]"):
        holdfast.web.asgi(app, hosts="jobs.example.com")
    with pytest.raises(holdfast.errors.ConfigError, match=r"origins=\['https://a\.b'\]"):
        holdfast.web.asgi(app, origins="https://a.b")
    with pytest.raises(holdfast.errors.ConfigError, match=r"takes a holdfast\.App, not 'jobs\.db'"):
        holdfast.web.asgi("jobs.db")  # type: ignore[arg-type]


def test_one_state_in_the_place_of_several_is_told_so(app: holdfast.App) -> None:
    with pytest.raises(holdfast.InvalidInput, match="states is the text 'failed'; give several, or one as state="):
        app.jobs.find(holdfast.model.JobFilter(states="failed"))  # type: ignore[arg-type]


def test_an_output_cannot_be_computed_with_before_it_is_there(app: holdfast.App) -> None:
    @app.task
    def work(x: int) -> int:
        return x

    with app.flow("sums") as flow:
        output: Any = flow.add(work.job(1)).output
        for use in (lambda: output + 1, lambda: 1 - output, lambda: output > 3, lambda: int(output), lambda: -output):
            with pytest.raises(TypeError, match="is not there yet.*compute with it inside a task"):
                use()
        with pytest.raises(TypeError, match=r"flow\.map\(task, \[3\]\)"):
            flow.map(work, 3)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("error", "instead"),
    [
        (holdfast.NotFound("job", "x"), "check the id and the store"),
        (holdfast.NotFound("waitpoint", "x"), "check the name and the store"),
        (holdfast.errors.BudgetNotFound("x"), "holdfast budgets set"),
        (holdfast.errors.QuotaNotFound("x"), "holdfast quotas set"),
        (holdfast.errors.FlowNotFound("x"), "check the id and the store"),
        (holdfast.errors.JobEnded("x", "failed"), "holdfast jobs retry x"),
    ],
)
def test_what_is_missing_or_over_is_told_with_what_to_do(error: holdfast.HoldfastError, instead: str) -> None:
    assert f"; {instead}" in str(error) or instead in str(error).partition("; ")[2]


def test_a_wait_in_a_store_in_memory_says_how_its_jobs_are_run(app: holdfast.App, tmp_path: Path) -> None:
    @app.task
    def work() -> int:
        return 1

    with isolated(app), pytest.raises(holdfast.ResultTimeout, match=r"holdfast\.testing\.drain\(app\)"):
        work.enqueue().result(timeout=0)
    with (
        app.override_store(tmp_path / "jobs.db"),
        pytest.raises(holdfast.ResultTimeout, match="holdfast worker MODULE:APP"),
    ):
        work.enqueue().result(timeout=0)


def test_a_step_without_its_function_is_told_by_a_public_name(app: holdfast.App) -> None:
    @app.task(max_attempts=1)
    async def waits(ctx: holdfast.Context) -> None:
        await ctx.step("a")  # type: ignore[call-overload]

    @app.task(max_attempts=1)
    def blocks(ctx: holdfast.SyncContext) -> None:
        ctx.step("a")  # type: ignore[call-overload]

    jobs = [waits.enqueue(), blocks.enqueue()]
    app.drain()
    for job, name in zip(jobs, ("Context", "SyncContext"), strict=True):
        with pytest.raises(holdfast.JobFailed, match=rf"TypeError: {name}\.step\(\) missing .*'fn'"):
            job.result(timeout=0)


def test_an_empty_store_is_told_with_the_variable_that_it_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", "")
    with pytest.raises(holdfast.errors.ConfigError, match="HOLDFAST_STORE: store is empty"):
        holdfast.App()


def test_a_value_that_an_enum_does_not_have_is_answered_with_those_it_has() -> None:
    assert (
        allowed_values(RetryPolicy, "Invalid enum value 'x' - at `$.kind`") == "; use one of exponential, fixed, none"
    )
    states = allowed_values(Wanted, "Invalid enum value 'done' - at `$.state[...]`")
    assert states.startswith("; use one of ready, ")
    assert allowed_values(RetryPolicy, "Expected `str`, got `int` - at `$.kind`") == ""


@pytest.mark.parametrize(("value", "says"), [(b"hi", "bytes"), ({1: "a"}, "dict"), (bytearray(b"x"), "bytes")])
def test_what_a_parameter_without_a_type_would_get_as_something_else_is_refused(value: Any, says: str) -> None:
    app = holdfast.App(":memory:")

    @app.task
    def untyped(x): ...  # type: ignore[no-untyped-def]

    with pytest.raises(holdfast.errors.InvalidArguments, match=rf"annotate it.*{says}"):
        untyped.enqueue(value)
    app.close()


@pytest.mark.parametrize("hint", [dict, dict[str, int], dict[Any, Any], Mapping[str, int], dict[str, int] | None])
def test_keys_that_a_mapping_would_get_as_text_are_refused(app: holdfast.App, hint: Any) -> None:
    def show(prices: Any) -> str:
        return str(prices)

    show.__annotations__["prices"] = hint
    task = app.task(show)
    with pytest.raises(holdfast.errors.InvalidArguments, match=r"annotate it, such as prices: dict\[int, str\]"):
        task.enqueue({1: 2})
    task.enqueue({"1": 2})


def test_keys_of_the_annotated_type_are_kept(app: holdfast.App) -> None:
    @app.task
    def show(prices: dict[int, int]) -> int:
        return prices[1]

    job = show.enqueue({1: 2})
    app.drain()
    assert job.result(0) == 2


def command(folder: Path, module: str, *args: str) -> subprocess.CompletedProcess[str]:
    (folder / "jobs.py").write_text(f"import holdfast\napp = holdfast.App('jobs.db')\n{module}")
    run = [sys.executable, "-m", "holdfast", *args]
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


GUARD = 'move this below if __name__ == "__main__":'


@pytest.mark.parametrize("waits", ["f.enqueue(1).result()", "list(f.enqueue(1).stream())", "app.worker().__enter__()",
                                   "__import__('asyncio').run(f.enqueue(1).aresult())"])  # fmt: skip
def test_a_module_that_waits_while_a_command_imports_it_is_refused(tmp_path: Path, waits: str) -> None:
    done = command(tmp_path, f"@app.task\ndef f(x: int) -> int: return x\n{waits}", "worker", "jobs:app")
    assert done.returncode == 2
    assert "is refused while holdfast imports module 'jobs'" in done.stderr
    assert done.stderr.strip().endswith(GUARD)


def test_a_module_that_enqueues_while_a_command_imports_it_is_warned_of_once(tmp_path: Path) -> None:
    module = "@app.task\ndef f() -> None: ...\nf.enqueue()\napp.enqueue_many([f.job()])\nf.enqueue()"
    done = command(tmp_path, module, "jobs", "list", "--app", "jobs:app")
    assert done.returncode == 0
    assert done.stderr.count("the import of module 'jobs' enqueues a job") == 1
    assert GUARD in done.stderr


def test_a_child_process_names_the_import_that_waits_as_the_cause(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(
        "import holdfast\napp = holdfast.App('jobs.db')\n"
        "@app.task(isolate='process', max_attempts=1)\ndef f() -> None: ...\n"
        "with app.worker():\n    job = f.enqueue()\n    job.wait()\n"
    )
    answer = run("import jobs; print(len(jobs.app.jobs.find()), jobs.job.status().error)", tmp_path)
    assert answer.startswith("1 ")
    assert "running a worker is refused while holdfast imports module 'jobs'" in answer


@pytest.mark.parametrize("key", ["nightly", ("nightly",), ("", "nightly", 1), (None, "nightly"), 7])
def test_the_key_of_a_schedule_is_its_tenant_and_name(app: holdfast.App, key: Any) -> None:
    with pytest.raises(holdfast.InvalidInput, match="give its tenant and name"):
        app.schedules.runs([key])


def test_polling_the_state_of_a_job_sees_it_change(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    job = work.enqueue()
    assert job.state == "ready"
    app.drain()
    assert job.state == "succeeded"


def test_a_call_with_options_is_refused_because_it_would_ignore_them(app: holdfast.App) -> None:
    @app.task
    def work(x: int) -> int:
        return x

    @app.task
    async def awaiting(x: int) -> int:
        return x

    for task in (work, awaiting):
        with pytest.raises(TypeError, match=r"without options; write \.options\(…\)\.enqueue\(…\)"):
            task.options(delay=60)(1)  # type: ignore[operator]
    assert work(1) == 1


def test_an_await_of_a_job_that_nobody_runs_says_what_it_waits_for(
    app: holdfast.App, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PATIENCE", 0.01)
    job = app.declare("work").enqueue()
    with caplog.at_level(logging.WARNING, "holdfast"), pytest.raises(holdfast.ResultTimeout):
        asyncio.run(job.aresult(timeout=0.1))
    assert caplog.messages[0].endswith("(await job waits for its result; await task.aenqueue(…) only enqueues)")


@pytest.mark.parametrize(
    ("owner", "call", "instead"),
    [
        ("job", "get", ".result(timeout=…)"), ("job", "ready", ".state.is_terminal"), ("job", "revoke", ".cancel()"),
        ("job", "refresh", ".state"), ("app", "send_task", "app.external_task(name).enqueue(…)"),
        ("app", "conf", "holdfast.toml"), ("app", "autodiscover_tasks", "import"),
        ("app.worker()", "run", "with app.worker(): …"), ("ctx", "retry", "raise holdfast.Retry(…)"),
    ],
)  # fmt: skip
def test_a_name_of_another_library_is_answered_with_what_to_write(
    app: holdfast.App, owner: str, call: str, instead: str
) -> None:
    @app.task
    def work(ctx: holdfast.SyncContext) -> str:
        names: dict[str, Any] = {"app": app, "job": job, "ctx": ctx}
        with pytest.raises(AttributeError, match=re.escape(instead)):
            eval(f"{owner}.{call}", names)
        with pytest.raises(AttributeError, match="no attribute 'colour'"):
            eval(f"{owner}.colour", names)
        return "told"

    job = work.enqueue()
    app.drain()
    assert job.result() == "told"


def test_a_worker_that_is_made_and_dropped_is_warned_of(app: holdfast.App, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "holdfast"):
        app.worker()
        assert caplog.messages == ["a worker does nothing by itself; write: with app.worker():"]
        caplog.clear()
        with app.worker():
            pass
        assert caplog.messages == []


def test_one_job_is_enqueued_by_one_value(app: holdfast.App) -> None:
    @app.task(max_attempts=1)
    def work(n: int) -> None: ...

    @app.task(max_attempts=1)
    def parent(ctx: holdfast.SyncContext) -> None:
        ctx.enqueue(work, 1)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match=r"write task\.enqueue\(…\), or app\.enqueue\(task\.job\(…\)\)"):
        app.enqueue(work, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"write task\.enqueue\(…\)"):
        asyncio.run(app.aenqueue(work, 1))  # type: ignore[arg-type]
    job = parent.enqueue()
    app.drain()
    with pytest.raises(holdfast.JobFailed, match=r"write ctx\.enqueue\(task\.job\(…\)\)"):
        job.result()


def test_a_search_by_words_is_sent_to_the_filter(app: holdfast.App) -> None:
    with pytest.raises(TypeError, match=r"find\(holdfast\.model\.JobFilter\(state=…, queue=…\)\)"):
        app.jobs.find(state="failed", queue="mail")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="JobFilter"):
        asyncio.run(app.jobs.afind(state="failed"))  # type: ignore[arg-type]


def test_options_by_place_are_told_to_go_by_name(app: holdfast.App) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match=r"options go by name, such as @app\.task\(queue='mail'\)"):
        app.task("mail", 5)  # type: ignore[call-overload]


def test_a_task_over_a_schedule_is_told_to_change_places(app: holdfast.App) -> None:
    for decorate in (app.task, app.task(name="other")):
        with pytest.raises(holdfast.errors.ConfigError, match=r"put @app\.task below @app\.cron"):
            decorate(app.every(60, name=f"tick-{len(app.tasks)}")(app.task(name=f"{len(app.tasks)}")(lambda: None)))


@pytest.mark.parametrize("wrong", [-1, 0, 0.0])
def test_a_timeout_must_be_more_than_nothing(app: holdfast.App, wrong: float) -> None:
    says = "timeout must be more than 0 seconds; leave it out for no timeout"
    with pytest.raises(holdfast.InvalidInput, match=says):
        app.task(timeout=wrong)
    with pytest.raises(holdfast.InvalidInput, match=says):
        app.declare("work").options(timeout=wrong).enqueue()


@pytest.mark.parametrize(
    ("store", "right"),
    [
        ("postgres:/localhost/shop", "'postgres://localhost/shop'"),
        ("postgresql:/ada:secret@localhost/shop", r"'postgresql://ada:\*\*\*@localhost/shop'"),
        ("sqlite:/jobs.db", "'sqlite:///jobs.db'"),
        ("localhost:5432/shop", "write postgresql://localhost:5432/dbname"),
    ],
)
def test_a_store_that_is_nearly_a_url_is_told_with_the_url(store: str, right: str) -> None:
    with pytest.raises(holdfast.errors.ConfigError, match=right):
        holdfast.App(store).open()


def test_a_misspelt_argument_is_named_beside_the_missing_one(app: holdfast.App) -> None:
    @app.task
    def greet(user: str) -> None: ...

    @app.task
    def anything(user: str, **others: int) -> None: ...

    with pytest.raises(holdfast.errors.InvalidArguments, match=r"'user', and got an unexpected keyword argument 'usr'"):
        greet.enqueue(usr="Ada")  # type: ignore[call-arg]
    with pytest.raises(holdfast.errors.InvalidArguments, match=r"argument: 'user'; it takes"):
        anything.enqueue(usr=1)  # type: ignore[call-arg]


def test_the_seconds_of_a_policy_are_named_as_such() -> None:
    with pytest.raises(
        holdfast.errors.ConfigError, match=r"the seconds before the first retry, must be a number from 0"
    ):
        holdfast.fixed("1")  # type: ignore[arg-type]


def test_an_option_that_a_schedule_lacks_is_sent_to_where_it_belongs(app: holdfast.App) -> None:
    @app.task
    def work() -> None: ...

    for options, says in (
        ({"delay": 5}, "a schedule makes job after job; leave it out"),
        ({"queue": "x"}, r"app\.schedule\(task\.options\(queue=…\)\.job\(…\), …\)"),
        ({"colour": "x"}, "it has name, zone"),
    ):
        with pytest.raises(holdfast.errors.UnknownOption, match=says):
            app.schedule(work.job(), every=60, **options)  # type: ignore[arg-type]
    with pytest.raises(holdfast.InvalidInput, match="leave out delay"):
        app.schedule(work.options(delay=5).job(), every=60)
    with pytest.raises(holdfast.errors.UnknownOption, match=r"write @app\.task\(queue=…\) below @app\.every"):
        app.every(60, queue="x")  # type: ignore[call-arg]


def test_isolated_without_with_is_warned_of_by_its_own_name(
    app: holdfast.App, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "holdfast"):
        isolated(app)
    assert caplog.messages == ["isolated(…) does nothing by itself; write: with isolated(…):"]


def test_one_is_not_many() -> None:
    assert [counted(n, "call") for n in (0, 1, 1000)] == ["0 calls", "1 call", "1,000 calls"]


def test_a_missing_value_is_called_none_as_in_python(app: holdfast.App) -> None:
    @app.task
    def work(x: int) -> None: ...

    with pytest.raises(holdfast.errors.InvalidArguments, match="x: expected int, got None"):
        work.enqueue(None)  # type: ignore[arg-type]


def test_a_cancelled_job_is_said_to_be_so_once(app: holdfast.App) -> None:
    job = app.declare("work").enqueue()
    job.cancel()
    with pytest.raises(holdfast.JobCancelled, match=f"^job {job.id} cancelled$"):
        job.result(timeout=0)


def test_a_setting_that_does_not_exist_is_told_with_the_one_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast.toml").write_text("concurency = 5")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(holdfast.errors.ConfigError, match="unknown settings: concurency; did you mean concurrency"):
        holdfast.App(":memory:")
    (tmp_path / "holdfast.toml").write_text("lease = '30s'")
    with pytest.raises(holdfast.errors.ConfigError, match="which is not a number; give one, such as 30"):
        holdfast.App(":memory:")


def test_an_error_that_a_program_may_catch_is_among_the_errors(app: holdfast.App) -> None:
    with pytest.raises(holdfast.errors.UnknownZone, match="IANA name"):
        app.cron("0 3 * * *", zone="Europe/Pariss")(app.task(name="nightly")(lambda: None))
    with app.flow("f") as flow:
        output: Any = flow.add(app.declare("work").job()).output
        with pytest.raises(holdfast.errors.UnexpectedReference, match="in the same flow"):
            app.declare("other").enqueue(x=output)


@pytest.mark.parametrize("name", ["spill", "listen_dsn"])
def test_a_setting_that_is_not_set_is_not_shown_as_automatic(name: str) -> None:
    assert doctor._text(name, None) == "none"
