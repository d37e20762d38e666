"""`python -m tools.proof` for every change; `python -m tools.proof --minutes 120` for as long as it is given."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from .running import Verdict, run
from .suites import LONG, SUITES, Suite
from .table import as_data, as_table, publish

LANES: Final = 2


def main() -> int:
    options = _options()
    suites, scale, seed = _plan(options.minutes, options.seed)
    chosen = [suite for suite in suites if options.only in suite.name]
    print(f"{len(chosen)} suites at scale {scale:g}; PROOF_SEED={seed} throws the same dice again", flush=True)
    began = time.monotonic()
    verdicts = prove(chosen, scale, seed, options.folder)
    took = time.monotonic() - began
    options.folder.joinpath("proof.json").write_text(json.dumps(as_data(verdicts, scale, seed, took), indent=1))
    print(as_table(verdicts, took))
    if options.publish is not None:
        publish(options.publish, verdicts, scale, took)
    return 1 if any(verdict.violations for verdict in verdicts) else 0


def prove(suites: Sequence[Suite], scale: float, seed: int, folder: Path) -> list[Verdict]:
    """All of them, two at a time, the longest first so that none is left over; verdicts in the order of the list."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(LANES) as lanes:
        running = {
            suite.name: lanes.submit(_tell, suite, scale if suite.grows else 1.0, seed, folder)
            for suite in sorted(suites, key=lambda suite: -suite.seconds)
        }
        return [running[suite.name].result() for suite in suites]


def _tell(suite: Suite, scale: float, seed: int, folder: Path) -> Verdict:
    verdict = run(suite, scale, seed, folder)
    print(f"  {verdict.seconds:5.0f} s  {suite.name}: {verdict.words}", flush=True)
    if verdict.violations:
        print(verdict.output, flush=True)
    return verdict


def _plan(minutes: float | None, seed: int | None) -> tuple[tuple[Suite, ...], float, int]:
    """A change is checked with the same dice each time; a long run throws its own."""
    if minutes is None:
        return SUITES, 1.0, 1 if seed is None else seed
    suites = (*SUITES, *LONG)
    fixed = sum(suite.seconds for suite in suites if not suite.grows) / LANES
    growing = sum(suite.seconds for suite in suites if suite.grows) / LANES
    scale = max(1.0, (60 * minutes - fixed) / growing)
    return suites, round(scale, 1), random.randrange(1_000_000) if seed is None else seed


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.proof", description=__doc__)
    parser.add_argument("--minutes", type=float, help="a long run, of about so many minutes")
    parser.add_argument("--seed", type=int, help="dice of an earlier run")
    parser.add_argument("--only", default="", help="suites with this in their names")
    parser.add_argument("--folder", type=Path, default=Path("build/proof"), help="for reports and logs")
    parser.add_argument("--publish", type=Path, metavar="PAGE", help="put the table into this page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
