"""The steps of a durable job at the command line: shown, and forked from."""

from __future__ import annotations

from holdfast import App, Context

from .kit import Run, answer


def _durable(app: App) -> tuple[str, list[str]]:
    done: list[str] = []

    def note(ctx: Context, word: str) -> str:
        done.append(word)
        ctx.describe(model="gpt-5", input_tokens=1310, output_tokens=12, cost=0.002)
        return word

    @app.task
    async def report(ctx: Context) -> str:
        words = [await ctx.step(name, note, name) for name in ("load", "draft")]
        await ctx.sleep(0)
        return " ".join(words)

    job = report.enqueue()
    app.drain()
    assert job.result(1) == "load draft"
    return job.id, done


def test_a_jobs_steps_are_shown_with_what_was_called_and_their_values(app: App, run: Run) -> None:
    job_id, _ = _durable(app)
    (shown,) = answer(run("jobs", "show", job_id, "--json"))["jobs"]
    assert [step["key"] for step in shown["steps"]] == ["step:load#1", "step:draft#1", "sleep:#1"]
    assert (shown["steps"][0]["called"], shown["steps"][0]["value"]) == ("note", "load")
    assert shown["steps"][0]["attributes"] == {
        "model": "gpt-5", "input_tokens": 1310, "output_tokens": 12, "cost": "0.002",
    }  # fmt: skip
    text = run("jobs", "show", job_id).output
    assert "gpt-5 · tokens: 1,310 in, 12 out · cost 0.002" in text
    assert "step:load#1" in text and '"draft"' in text


def test_a_fork_does_again_what_follows_the_step_and_is_in_the_audit(app: App, run: Run) -> None:
    job_id, done = _durable(app)
    made = answer(run("jobs", "fork", job_id, "--from", "draft", "--json"))
    app.drain()
    assert app.job(made["id"]).result(1) == "load draft"
    assert done == ["load", "draft", "draft"]
    (entry,) = answer(run("audit", "list", "--action", "job.fork", "--json"))["records"]
    assert (entry["actor"], entry["target"]) == ("ada", job_id)


def test_a_fork_from_a_step_that_is_not_there_says_so(app: App, run: Run) -> None:
    job_id, _ = _durable(app)
    result = run("jobs", "fork", job_id, "--from", "sent")
    assert result.exit_code == 3
    assert "sent" in result.output


def test_a_retry_keeps_the_steps_unless_it_is_fresh(app: App) -> None:
    job_id, done = _durable(app)
    for fresh, expected in ((False, ["load", "draft"]), (True, ["load", "draft"] * 2)):
        app.jobs.retry(job_id, fresh=fresh)
        app.drain()
        assert done == expected


def test_a_large_value_is_cut_for_people_and_whole_for_programs(app: App, run: Run) -> None:
    big = "x" * 1_000_000

    @app.task
    async def echo(ctx: Context, text: str) -> str:
        return str(await ctx.step("same", str, text))

    job = echo.enqueue(big)
    app.drain()
    shown = run("jobs", "show", job.id).output
    assert "x" * 100 not in shown
    assert shown.count("(1.0 MB, too large to show here)") == 3
    (found,) = answer(run("jobs", "show", job.id, "--json"))["jobs"]
    assert (found["arguments"], found["result"], found["steps"][0]["value"]) == ({"text": big}, big, big)
