"""Mermaid blocks as pictures, drawn when the site is built: readers' browsers load no script and ask no other site."""

from __future__ import annotations

import hashlib
import html
import re
from pathlib import Path
from typing import Any, Final

import mermaidx  # type: ignore[import-untyped]
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

_THEMES: Final = {"light": "default", "dark": "dark"}


class Diagram(Directive):
    """A diagram in both themes, of which the page shows one. It leads to the picture alone, which can be enlarged."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        source = "\n".join(self.content)
        titled = re.search(r"^\s*accTitle:\s*(.+)$", source, re.MULTILINE)
        said = html.escape(titled[1] if titled else "Diagram")
        environment = self.state.document.settings.env
        up = "../" * environment.docname.count("/")
        try:
            drawn = {shown: _draw(source, theme, Path(environment.app.outdir)) for shown, theme in _THEMES.items()}
        except RuntimeError as error:
            raise self.error(str(error)) from error
        links = (
            f'<a class="diagram only-{shown}" href="{up}{at}"><img src="{up}{at}" alt="{said}"></a>'
            for shown, at in drawn.items()
        )
        return [nodes.raw("", "".join(links), format="html")]


def _draw(source: str, theme: str, folder: Path) -> str:
    """Return the name of the diagram's file, which is drawn unless it is there."""
    name = f"_diagrams/{hashlib.sha256(f'{theme} {source}'.encode()).hexdigest()[:16]}.svg"
    if not (folder / name).exists():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(mermaidx.render(source, theme=theme).svg(), "utf-8")
    return name


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("mermaid", Diagram)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
