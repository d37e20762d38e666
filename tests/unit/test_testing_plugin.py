"""The pytest plugin, as other people's tests meet it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

# The entry point may or may not be installed where these tests run.
PLUGIN = ("-p", "no:holdfast", "-p", "holdfast.testing.plugin")
APP = """
import holdfast
app = holdfast.App("/nowhere/jobs.db")

@app.task(retry=holdfast.RetryPolicy("fixed", initial=10, jitter="none"))
def flaky(ctx: holdfast.SyncContext) -> int:
    if ctx.attempt == 1:
        raise ConnectionError
    return ctx.attempt
"""


def test_the_fixtures_give_each_test_a_store_and_a_clock_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        shop=APP,
        test_shop="""
        import pytest, shop
        from holdfast.testing import assert_enqueued, drain, isolated

        @pytest.mark.parametrize("n", [1, 2])
        def test_retry(holdfast_isolated, holdfast_clock, n):
            assert holdfast_isolated(shop.app) is shop.app
            job = shop.flaky.enqueue()
            assert_enqueued(shop.app, shop.flaky, count=1)
            assert drain(shop.app).again == 1
            holdfast_clock.advance(10)
            assert drain(shop.app).succeeded == 1
            assert job.result(timeout=0) == 2

        @pytest.mark.parametrize("n", [1, 2])
        def test_file(holdfast_store, n):
            with isolated(shop.app, store=holdfast_store):
                shop.flaky.enqueue()
                assert_enqueued(shop.app, shop.flaky, count=1)

        def test_restored():
            assert shop.app.config.store == "/nowhere/jobs.db"
        """,
    )
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=5)


def test_a_failed_assertion_is_told_without_our_own_frames(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        shop=APP,
        test_shop="""
        import shop
        from holdfast.testing import assert_enqueued

        def test_missing(holdfast_isolated):
            assert_enqueued(holdfast_isolated(shop.app), shop.flaky)
        """,
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * AssertionError: expected at least one of flaky(…), found 0"])
    result.stdout.no_fnmatch_line("*enqueued.py*")


def test_the_fixtures_are_listed_with_what_they_do(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*PLUGIN, "--fixtures")
    lines = result.stdout.lines
    for name in ("holdfast_clock", "holdfast_store", "holdfast_isolated"):
        (at,) = [n for n, line in enumerate(lines) if line.startswith(name)]
        assert "no docstring" not in lines[at + 1]


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import holdfast.testing.plugin;"
        "print(*(set(sys.modules) - before))"
    )
    new = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {name.split(".")[0] for name in new} == {"holdfast"}
    assert set(new) <= {
        "holdfast", "holdfast.lazy", "holdfast.testing", "holdfast.testing.enqueued", "holdfast.testing.plugin",
        "holdfast.version",
    }  # fmt: skip
