"""The pages of the site: which they are, in what order, and their text as Sphinx takes it.

The navigation is read from docs/index.md, so that it is written once. Sphinx gets copies of the pages, in folders as
in the repository, so that links between them stay as they are.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
HOME: Final = "README.md"
INDEX: Final = "docs/index.md"
DECISIONS: Final = "docs/adr"
PROJECT: Final = ("CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "examples/README.md", "benchmarks/README.md")

_HEADING: Final = re.compile(r"^##+ (.+)$")
_ENTRY: Final = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)\)(?:: (.+))?")
_LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_FENCED: Final = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_PICTURE: Final = re.compile(r"<picture>(.*?)</picture>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the navigation. `page` is its path in the repository."""

    title: str
    page: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    entries: Sequence[Entry]


def sections() -> list[Section]:
    """Return the navigation: the headings and lists of docs/index.md, then the pages about the project."""
    found = [Section(title, entries) for title, entries in _lists() if entries]
    if not found:
        raise SystemExit(f"{INDEX} has no headings with lists of links; the navigation is made from them")
    listed = {entry.page for section in found for entry in section.entries}
    rest = [Entry(_title(page), page) for page in PROJECT if page not in listed and (ROOT / page).exists()]
    return [*found, Section("Project", [Entry("All pages", INDEX), *rest])]


def copy_pages(to: Path) -> None:
    """Copy every page to a folder, with their pictures, and the navigation below the home page."""
    shutil.copytree(ROOT / "docs", to / "docs")
    decisions = sorted((to / DECISIONS).glob("[0-9]*.md"))
    (to / DECISIONS / "index.md").write_text(_contents("Design decisions", decisions), "utf-8")
    for page in (HOME, "ARCHITECTURE.md", *PROJECT):
        if (ROOT / page).exists():
            (to / page).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / page, to / page)
    for copied in to.rglob("*.md"):
        copied.write_text(_for_sphinx(copied.read_text("utf-8"), copied, to), "utf-8")


def toctree(section: Section) -> str:
    """Return a part of the navigation as Sphinx reads it."""
    lines = "\n".join(f"{entry.title} </{entry.page.removesuffix('.md')}>" for entry in section.entries)
    return f"\n```{{toctree}}\n:caption: {section.title}\n:hidden:\n\n{lines}\n```\n"


def _lists() -> Iterator[tuple[str, list[Entry]]]:
    title, entries = "", list[Entry]()
    for line in (ROOT / INDEX).read_text("utf-8").splitlines():
        if heading := _HEADING.match(line):
            yield title, entries
            title, entries = heading[1], []
        elif line.startswith("- "):
            entries += [Entry(name, _page(target), about or "") for name, target, about in _ENTRY.findall(line)]
    yield title, entries


def _page(target: str) -> str:
    """Return the path in the repository of what docs/index.md links to."""
    path = os.path.normpath(Path(INDEX).parent / target)
    return f"{path}/index.md" if (ROOT / path).is_dir() else path


def _title(page: str) -> str:
    return (ROOT / page).read_text("utf-8").partition("\n")[0].removeprefix("# ")


def _contents(title: str, pages: Sequence[Path]) -> str:
    names = "\n".join(page.stem for page in pages)
    return f"# {title}\n\n```{{toctree}}\n:maxdepth: 1\n\n{names}\n```\n"


def _for_sphinx(text: str, page: Path, to: Path) -> str:
    """Return a page's text with pictures and links as Sphinx takes them; blocks of code stay as they are."""
    parts = _FENCED.split(text)
    parts[::2] = [_LINK.sub(lambda found: _link(found, page, to), _PICTURE.sub(_picture, part)) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str], page: Path, to: Path) -> str:
    """Return a link to a folder as one to its list of pages, and one to a file that is not on the site as its text."""
    target = (page.parent / found[2]).resolve()
    if ":" in found[2] or target.is_file() or not target.is_relative_to(to):
        return found[0]
    if (target / "index.md").exists():
        return f"[{found[1]}]({found[2].rstrip('/')}/index.md)"
    return found[1] if (ROOT / target.relative_to(to)).exists() else found[0]


def _picture(found: re.Match[str]) -> str:
    """Return a picture in two versions, for light and dark, as two images of which one is shown."""
    dark = re.search(r'<source[^>]*dark[^>]*srcset="([^"]+)"', found[1])
    light = re.search(r'<img[^>]*src="([^"]+)"', found[1])
    said = re.search(r'<img[^>]*alt="([^"]*)"', found[1])
    if not (dark and light):
        return found[0]
    alt = said[1] if said else ""
    return f"![{alt}]({light[1]}){{.only-light}} ![{alt}]({dark[1]}){{.only-dark}}"
