"""The documentation as data: pages, and the fenced blocks in them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial" / "first-jobs.md"
DJANGO = ROOT / "docs" / "how-to" / "django.md"

_FENCE = re.compile(r"^```(\w*)\s*$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_ID = re.compile(r"\b[0-9a-hjkmnp-tv-z]{26}\b")
_FILE = re.compile(r"^# ([\w/]+\.py)(, at the end)?$")


@dataclass(frozen=True)
class Block:
    """A fenced block. `line` is where its text begins, the first line of the page being 1."""

    page: Path
    language: str
    line: int
    text: str
    not_run: str = ""
    """Why it cannot be run, from a comment above it."""

    @property
    def file(self) -> str:
        """The file that the block is, if its first line says so."""
        found = _FILE.match(self.text.partition("\n")[0])
        return found[1] if found else ""

    @property
    def is_appended(self) -> bool:
        """Whether the block goes to the end of its file."""
        return self.text.partition("\n")[0].endswith(", at the end")

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def commands(self) -> list[tuple[str, str]]:
        """What is typed in a console block, each with the output that is shown below it."""
        typed: list[tuple[str, str]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                typed.append((re.sub(r"\s+# .*$", "", line[2:]).strip(), ""))
            elif line in ("^C", "^\\"):
                typed.append((line, ""))
            elif typed:
                typed[-1] = (typed[-1][0], typed[-1][1] + line + "\n")
        return typed


def pages() -> list[Path]:
    """Every page but the records of decisions, which speak of their day."""
    found = [README, *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if "adr" not in page.parts]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    return list(_blocks(page))


def matches(shown: str, real: str) -> bool:
    """Whether an output is the one that the page shows, where … stands for anything and every id for any id."""
    pattern = ".*".join(re.escape(part) for part in _plain(shown).split("…"))
    return re.fullmatch(pattern, _plain(real), re.DOTALL) is not None


def _plain(text: str) -> str:
    lines = (line.rstrip() for line in text.strip().splitlines())
    return _ID.sub("ID", "\n".join(lines))


def _blocks(page: Path) -> Iterator[Block]:
    lines = iter(enumerate(page.read_text("utf-8").splitlines(), 1))
    above = ""
    for number, line in lines:
        fence = _FENCE.match(line)
        if not fence:
            above = line.strip() or above
            continue
        body = itertools.takewhile(lambda numbered: numbered[1] != "```", lines)
        reason = _NOT_RUN.match(above)
        yield Block(page, fence[1], number + 1, "".join(f"{line}\n" for _, line in body), reason[1] if reason else "")
        above = ""
