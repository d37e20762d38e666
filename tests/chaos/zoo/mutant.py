"""A mutant: a bug that some queue once shipped, as edits to the source, and the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "holdfast"


@dataclass(frozen=True, slots=True)
class Edit:
    """In one file of the package an old text becomes a new one."""

    file: str
    old: str
    new: str
    times: int = 1
    """How often the old text occurs, each time to be replaced."""

    def applied(self, text: str) -> str:
        found = text.count(self.old)
        assert found == self.times, f"{self.file}: {found} times instead of {self.times}: {self.old!r}"
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Mutant:
    """`harm` is what goes wrong with it; `suites` are selections of pytest, the first that fails has caught it."""

    name: str
    harm: str
    edits: tuple[Edit, ...]
    suites: tuple[str, ...]

    def texts(self) -> dict[str, str]:
        """Each changed file, as it is with the bug."""
        changed: dict[str, str] = {}
        for edit in self.edits:
            changed[edit.file] = edit.applied(changed.get(edit.file) or (SOURCE / edit.file).read_text())
        return changed
