"""What a built site must not have: links that lead nowhere, and files that come from another site."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urldefrag, urlsplit

# Elements whose file the browser loads by itself, with the attribute that names it.
_LOADED: Final = {
    ("iframe", "src"), ("img", "src"), ("link", "href"), ("script", "src"), ("source", "srcset"), ("video", "src"),
}  # fmt: skip


class _Page(HTMLParser):
    """The anchors of a page, and what it links to and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag, name) == ("a", "name"):
                self.anchors.add(value or "")
            elif (tag, name) in _LOADED:
                self.loads.append(value or "")
            elif (tag, name) == ("a", "href"):
                self.links.append(value or "")


def complaints(folder: Path) -> list[str]:
    """Return a line for each broken link and each external file."""
    read = {path.resolve(): _Page(path.read_text("utf-8")) for path in folder.rglob("*.html")}
    return sorted(set(_complaints(folder.resolve(), read)))


def _complaints(folder: Path, read: dict[Path, _Page]) -> Iterator[str]:
    for path, page in read.items():
        where = path.relative_to(folder)
        for target in page.loads:
            if urlsplit(target).netloc:
                yield f"{where} loads {target} from another site"
        for target in [*page.links, *page.loads]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file, anchor = urldefrag(target)
            found = (path.parent / unquote(urlsplit(file).path)).resolve() if file else path
            if not found.is_file():
                yield f"{where} links to {target}, which is not on the site"
            elif anchor and found in read and unquote(anchor) not in read[found].anchors:
                yield f"{where} links to {target}, which has no such anchor"
