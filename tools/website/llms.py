"""The site for language models: llms.txt lists the pages, llms-full.txt holds them, both as Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .pages import HOME, Entry, Section


def write(navigation: Iterable[Section], folder: Path) -> None:
    """Write both files beside the pages, whose Markdown Sphinx has put under _sources."""
    sections = [_known(section, folder) for section in navigation]
    home = (folder / "_sources" / HOME).read_text("utf-8").partition("\n```{toctree}")[0]
    summary = " ".join(home.split("\n\n")[1].split())
    parts = [f"# Holdfast\n\n> {summary}\n"]
    parts += [f"\n## {one.title}\n\n" + "".join(map(_line, one.entries)) for one in sections if one.entries]
    (folder / "llms.txt").write_text("".join(parts), "utf-8")
    listed = {entry.page: _source(entry, folder).read_text("utf-8") for one in sections for entry in one.entries}
    texts = [home, *(text for page, text in listed.items() if not page.startswith("api/"))]
    (folder / "llms-full.txt").write_text("\n\n".join(text.strip() for text in texts) + "\n", "utf-8")


def _known(section: Section, folder: Path) -> Section:
    return Section(section.title, [entry for entry in section.entries if _source(entry, folder).exists()])


def _source(entry: Entry, folder: Path) -> Path:
    return folder / "_sources" / entry.page


def _line(entry: Entry) -> str:
    return f"- [{entry.title}](_sources/{entry.page}){': ' if entry.about else ''}{entry.about}\n"
