"""Put figures into the documentation: between markers, from result files, never by hand.

`python -m benchmarks publish RESULT.json …` replaces what stands between `<!-- figures: NAME -->` and
`<!-- end of figures -->` in the pages, for every NAME that one of the files can tell, and puts plots beside the page.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console

from . import charts, scale, wear
from .contest.table import HEADINGS, lines
from .report import amount, cells, load, verdict

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (ROOT / "docs" / "explanation" / "performance.md", ROOT / "benchmarks" / "README.md")
PLOTS: Final = ROOT / "docs" / "explanation" / "figures"
_MARKED: Final = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_SHOWN: Final = {"drain": "Jobs completed per second", "latency": "Idle latency"}
_COSTS: Final = [
    ("enqueue, one by one", "enqueue.one", "bare.enqueue"),
    ("enqueue, in batches of 1,000", "bulk", "bare.bulk"),
    ("claim, run and finish, async", "drain", "bare.drain"),
    ("claim, run and finish, def", "drain.def", ""),
    ("the same, 1,000 concurrency keys", "drain.keyed", ""),
    ("the same, fair scheduling over 100 tenants", "drain.fair", ""),
]


def add_command(commands: Any) -> None:
    parser = commands.add_parser("publish", help="put the tables and plots of result files into the documentation")
    parser.set_defaults(command=_run)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--quick", action="store_true", help="also what a quick run found")
    parser.add_argument(
        "--page", type=Path, action="append", help="instead of the performance page and this folder's README"
    )


def _run(options: argparse.Namespace, console: Console) -> int:
    contents = [load(path) for path in options.results]
    if any(content.get("options", {}).get("quick") for content in contents) and not options.quick:
        console.print("a quick run shows that everything works, not how fast; --quick publishes it all the same")
        return 2
    written = {name: text for content in contents for name, text in _plots(content)}
    known = {name: text for content in contents for name, text in tables(content).items()}
    for page in options.page or [page for page in PAGES if page.exists()]:
        before = page.read_text("utf-8")
        after, missing = filled(before, known)
        page.write_text(after, "utf-8")
        for name in missing:
            console.print(f"{page.name}: no result file tells of “{name}”; left as it was")
    console.print(f"plots: {', '.join(sorted(written)) or 'none'}")
    return 0


def filled(page: str, known: Mapping[str, str]) -> tuple[str, list[str]]:
    """The page with the figures that are known, and the names of those that are not."""
    missing = []

    def fill(found: re.Match[str]) -> str:
        if found[2] not in known:
            missing.append(found[2])
            return found[0]
        return f"{found[1]}\n{known[found[2]].strip()}\n\n{found[3]}"

    return _MARKED.sub(fill, page), missing


def tables(content: Mapping[str, Any]) -> dict[str, str]:
    """What a result file has to tell, as Markdown by name."""
    makers: dict[str, Callable[[Mapping[str, Any]], dict[str, str]]] = {
        "bench": _of_bench, "peers": _of_peers, "where": _of_where, "scale": _of_scale,
        "wear": _of_wear,
    }  # fmt: skip
    return makers[content["kind"]](content)


def _of_bench(content: Mapping[str, Any]) -> dict[str, str]:
    headings = ("store", "workload", "compared with", "Holdfast", "other", "result", "spread", "required", "target", "")
    goals = [[row["store"], row["work"], row["beside"], *cells(row), verdict(row)] for row in content["rows"]]
    settings = "; ".join(
        f"{store}: " + ", ".join(f"{name} {value}" for name, value in found.items() if name != "folder")
        for store, found in content["settings"].items()
    )
    setting = f"{_machine(content)} {settings}. {_runs(content)}"
    told = {"goals": _table(headings, goals), "machine": setting, "costs": _costs(content)}
    return told | {f"plot-{name}": f"![{_SHOWN[name]}](figures/{name}.svg)" for name, _ in charts.drawn(content)}


def _of_peers(content: Mapping[str, Any]) -> dict[str, str]:
    setups = [[entry["key"], entry["version"], entry["setup"]] for entry in content["entries"] if entry["version"]]
    told = {
        "peers": f"{_machine(content)} {_runs(content)}\n\n{_table(HEADINGS, lines(content))}",
        "peer-setups": _table(("queue", "version", "configuration"), setups),
    }
    plots = {
        name: f"![{_SHOWN[name]}, compared with other queues](figures/peers-{name}.svg)"
        for name, _ in charts.drawn(content)
    }
    return told | {f"plot-peers-{name}": plot for name, plot in plots.items()}


def _of_where(content: Mapping[str, Any]) -> dict[str, str]:
    rows = [[thread, group, f"{cost:.2f}"] for thread, group, cost in content["groups"] if cost >= 0.05]
    total = f"{content['us_per_job']:.1f} µs for each of {content['jobs']:,} jobs."
    return {f"where-{content['store'].lower()}": f"{total}\n\n{_table(('thread', 'part', 'µs per job'), rows)}"}


def _of_scale(content: Mapping[str, Any]) -> dict[str, str]:
    share = f"Here *s* is {content['share']:.0%}. pgbench runs the bare statements without any Python."
    return {"scale": f"{_machine(content)} {share}\n\n{_table(scale.HEADINGS, scale.lines(content))}"}


def _of_wear(content: Mapping[str, Any]) -> dict[str, str]:
    return {"wear": f"{_machine(content)}\n\n{_table(wear.HEADINGS, wear.lines(content))}"}


def _costs(content: Mapping[str, Any]) -> str:
    """The rates turned round: microseconds of one job."""
    rows = []
    for store in content["settings"]:
        for work, ours, bare in _COSTS:
            rates = [content["figures"].get(f"{store.lower()}.{name}") for name in (ours, bare)]
            if rates[0]:
                rows.append([store, work, *(amount(1e6 / median(rate)) if rate else "" for rate in rates)])
    return _table(("store", "workload", "µs per job", "µs, bare loop"), rows)


def _machine(content: Mapping[str, Any]) -> str:
    found = content["machine"]
    return (
        f"Measured on {content['at']}: Holdfast {found['holdfast']}, Python {found['python']}, {found['cpus']} cores"
        f" ({found['processor']}), {found['system']}."
    )


def _runs(content: Mapping[str, Any]) -> str:
    runs = content["options"]["runs"]
    return "One run." if runs == 1 else f"{runs} runs."


def _plots(content: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if content["kind"] not in ("bench", "peers"):
        return
    PLOTS.mkdir(parents=True, exist_ok=True)
    for name, text in charts.drawn(content):
        file = f"peers-{name}.svg" if content["kind"] == "peers" else f"{name}.svg"
        (PLOTS / file).write_text(text, "utf-8")
        yield file, text


def _table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    headings = list(headings)
    head = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join(head + ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows])
