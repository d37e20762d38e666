"""The table at the end of `make proof`: what was reached is added up, and whatever did not end well is a violation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.proof.__main__ import _plan
from tools.proof.running import Verdict, read, run
from tools.proof.suites import LONG, SUITES, Suite
from tools.proof.table import as_table, publish

REPORT = """<testsuites><testsuite>
<testcase name="a"><properties><property name="figure" value="3 kills"/></properties></testcase>
<testcase name="b"><properties><property name="figure" value="1500 kills"/></properties></testcase>
<testcase name="c"><failure message="no"/></testcase>
</testsuite></testsuites>"""


def test_figures_of_the_same_thing_are_added_up(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert read(report) == ({"kills": 1503.0}, 3, 1)


def test_a_run_without_a_report_proves_nothing(tmp_path: Path) -> None:
    verdict = run(Suite("none", ("tests/there/is/no/such/test.py",), 1), 1.0, 1, tmp_path)
    assert verdict.violations == 1
    assert "no such test" in verdict.output.replace("_", " ") or "not found" in verdict.output


def test_the_table_says_what_was_reached_and_what_broke() -> None:
    text = as_table([Verdict(Suite("storm", (), 1), {"kills": 1503.0, "s p99": 1.25}, 3, 1, 9.6)], 9.7)
    assert "1,503 kills, 1.25 s p99" in text
    assert text.splitlines()[-2].split("│")[-2].strip() == "1"


def test_a_page_gets_the_table_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- proof -->\nold\n<!-- end of proof -->\nafter\n")
    publish(page, [Verdict(Suite("storm", (), 1), {"kills": 7.0}, 3, 0, 9.6)], 1.0, 600)
    text = page.read_text()
    assert "| storm | 7 kills | 10 | 0 |" in text and "old" not in text
    assert text.startswith("before\n") and text.endswith("<!-- end of proof -->\nafter\n")


def test_more_minutes_are_more_of_what_grows_and_other_dice() -> None:
    suites, scale, _ = _plan(600, None)
    assert suites == (*SUITES, *LONG)
    assert scale > 10
    assert _plan(1, 7) == (suites, 1.0, 7)
    assert _plan(None, None) == (SUITES, 1.0, 1)


@pytest.mark.parametrize("suite", [*SUITES, *LONG], ids=lambda suite: suite.name)
def test_what_a_suite_names_is_there(suite: Suite) -> None:
    assert all(Path(part).exists() for part in suite.tests if part.startswith("tests/"))
