"""The examples run as a newcomer starts them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.acceptance.cli_kit import ROOT, environment


@pytest.mark.timeout(180)
def test_the_studio_serves_its_dashboard_until_it_is_interrupted(tmp_path: Path) -> None:
    studio = subprocess.Popen(
        [sys.executable, "-m", "examples.studio", "--port", "0"],
        cwd=ROOT, env=environment(TMPDIR=str(tmp_path)), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert studio.stdout is not None
    with studio:
        try:
            made, opened = studio.stdout.readline(), studio.stdout.readline()
            assert made.startswith("making an hour")
            address = next(word.rstrip(";") for word in opened.split() if word.startswith("http://"))
            assert "report.write" in urlopen(f"{address}/jobs", timeout=30).read().decode()
            studio.send_signal(signal.SIGINT)
            studio.wait(30)
        finally:
            studio.kill()
    assert list(tmp_path.iterdir()) == []
