"""The recording in the README, from a real session: `python -m tools.recording` writes docs/images/kill-and-resume.svg.

A worker is killed with SIGKILL in the second of three steps, and another finishes the job. The text is what the
commands printed, with instants shortened to the time of day and worker ids to their first letters. The line
`[1]+ Killed` stands for the one that a shell prints.
"""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE: Final = Path(__file__).parent.parent / "docs" / "images" / "kill-and-resume.svg"
WIDTH: Final = 96
PROGRAM: Final = """\
import time

import holdfast

app = holdfast.App("jobs.db")


def work(part: str) -> None:
    print(f"  {part} ...", flush=True)
    time.sleep(2)


@app.task
def report(ctx: holdfast.SyncContext) -> None:
    for part in ("load", "summarize", "send"):
        ctx.step(part, work, part)
"""
SECONDS_PER_LINE: Final = 0.45
# Colours that read on a page of either theme: the terminal has its own dark background.
THEME: Final = TerminalTheme(
    background=(18, 22, 27),
    foreground=(218, 224, 230),
    normal=[
        (90, 98, 106),
        (255, 135, 130),
        (104, 211, 145),
        (240, 190, 90),
        (130, 170, 255),
        (199, 146, 234),
        (110, 200, 220),
        (218, 224, 230),
    ],
)
# Without the fonts that Rich would load from another site.
FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img"
     aria-label="A worker is killed in the middle of a job; another worker resumes after the last completed step.">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: system-ui, sans-serif; }}
@keyframes appear {{ from {{ opacity: 0; }} to {{ opacity: 1; }} }}
@media (prefers-reduced-motion: no-preference) {{ .line {{ animation: appear 0.1s both; }} }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-recording-") as folder:
        play(Session(Path(folder), console))
    drawn = console.export_svg(title="One job, two workers", theme=THEME, code_format=FORMAT, unique_id="recording")
    PICTURE.write_text(animated(drawn), "utf-8")
    print(PICTURE, f"{PICTURE.stat().st_size / 1000:.0f} kB")


def play(session: Session) -> None:
    session.run("tail -n 4 report.py")
    session.run("holdfast jobs enqueue report --id report-1")
    first = session.start("holdfast worker report:app &", until="summarize ...")
    session.kill(first)
    session.run("holdfast jobs list")
    second = session.start("holdfast worker report:app &", until="succeeded")
    second.terminate()
    second.wait(60)


class Session:
    """A terminal in a folder with the program; what is typed and printed goes to the console."""

    def __init__(self, folder: Path, console: Console) -> None:
        (folder / "report.py").write_text(PROGRAM, "utf-8")
        self._folder = folder
        self._console = console
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "HOLDFAST_APP": "report:app", "COLUMNS": str(WIDTH)}

    def run(self, command: str) -> None:
        self._type(command)
        done = subprocess.run(
            command.split(),
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        self._print(done.stdout)

    def start(self, command: str, *, until: str) -> subprocess.Popen[bytes]:
        """Start a worker, and show its log up to the line that has this text."""
        self._type(command)
        log = self._folder / "worker.log"
        with log.open("wb") as to:
            worker = subprocess.Popen(
                command.removesuffix(" &").split(), cwd=self._folder, env=self._environment, stdout=to, stderr=to
            )
        deadline = time.monotonic() + 60
        while until not in log.read_text("utf-8"):
            assert time.monotonic() < deadline, log.read_text("utf-8")
            time.sleep(0.05)
        self._print(log.read_text("utf-8"))
        return worker

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        self._type("kill -9 %1")
        worker.send_signal(signal.SIGKILL)
        worker.wait(60)
        self._console.print(
            "[1]+  Killed                  holdfast worker report:app", style="red", markup=False, highlight=False
        )

    def _type(self, command: str) -> None:
        self._console.print(Text.assemble(("$ ", "green"), (command, "bold")))

    def _print(self, text: str) -> None:
        for line in text.rstrip().splitlines():
            self._console.print(Text(shortened(line.rstrip()), style=style_of(line)), soft_wrap=True)


def shortened(line: str) -> str:
    line = re.sub(r"\d{4}-\d\d-\d\dT(\d\d:\d\d:\d\d)(\.\d+)?Z", r"\1", line)
    return re.sub(r"\b([0-9a-f]{6})[0-9a-f]{26}\b", r"\1", line)


def style_of(line: str) -> str:
    if "succeeded" in line:
        return "green"
    if "WARNING" in line:
        return "yellow"
    return "cyan" if line.startswith("  ") and line.endswith("...") else ""


def animated(svg: str) -> str:
    """Let each line appear after the one above it. A reader without animations sees all of them."""
    heights = sorted({float(y) for y in re.findall(r'<text [^>]*y="([\d.]+)"[^>]*clip-path', svg)})
    delay = {height: f"{number * SECONDS_PER_LINE:.2f}s" for number, height in enumerate(heights)}

    def dated(found: re.Match[str]) -> str:
        classes, rest, y = found[1], found[2], float(found[3])
        return f'<text class="{classes} line" style="animation-delay: {delay[y]}"{rest}y="{found[3]}"'

    return re.sub(r'<text class="(recording-r\d+)"([^>]*?)y="([\d.]+)"', dated, svg)


if __name__ == "__main__":
    main()
