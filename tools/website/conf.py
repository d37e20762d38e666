"""Sphinx's settings. `python -m tools.website` copies the pages and runs Sphinx with this file."""

from __future__ import annotations

import inspect
from pathlib import Path

from sphinx.application import Sphinx

import holdfast
from holdfast.version import VERSION

project = "Holdfast"
author = "The Holdfast authors"
version = release = VERSION
root_doc = "README"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton", "tools.website.diagrams"]
# Blocks show sessions, logs and templates, which no lexer takes in full.
suppress_warnings = ["misc.highlighting_failure"]

# Headings get the anchors that they have on GitHub, where the same pages are read.
myst_heading_anchors = 6
myst_fence_as_directive = ["mermaid"]
myst_enable_extensions = ["attrs_inline", "html_image", "strikethrough"]

# Docstrings name code between single back-quotes.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"
add_module_names = False

html_theme = "furo"
html_title = f"Holdfast {VERSION}"
html_favicon = str(Path(holdfast.__path__[0]) / "web" / "static" / "icon.svg")
html_css_files = ["site.css"]
templates_path = ["templates"]
html_show_sphinx = False
html_show_copyright = False
html_show_sourcelink = False
html_sourcelink_suffix = ""
pygments_dark_style = "github-dark"
# What is copied is what is typed: no prompt, and no output.
copybutton_prompt_text = "$ "
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {
        "color-brand-primary": "#0f6e63",
        "color-brand-content": "#0f6e63",
        "color-brand-visited": "#0f6e63",
    },
    "dark_css_variables": {
        "color-brand-primary": "#5fd0c0",
        "color-brand-content": "#5fd0c0",
        "color-brand-visited": "#5fd0c0",
    },
}


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", _skip_async_version)
    app.connect("autodoc-process-signature", _hide_constructor)
    app.connect("autodoc-process-docstring", _as_restructured_text)


def _skip_async_version(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Leave out a method whose blocking form is described: that names it."""
    return True if _blocking_form(obj) else None


def _hide_constructor(
    app: Sphinx, what: str, name: str, obj: object, options: object, signature: str | None, returns: str | None
) -> tuple[str, str] | None:
    """Hide the parameters of namespaces, which programs never construct."""
    return ("", "") if what == "class" and name.startswith("holdfast.client.") else None


def _as_restructured_text(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Mark indented blocks of a docstring as code, and add the name of a method's async version."""
    for number in range(len(lines) - 1, 0, -1):
        begins_block = lines[number].startswith("    ") and not lines[number - 1]
        if begins_block and not next((line for line in lines[number - 2 :: -1] if line), " ").startswith(" "):
            lines[number:number] = ["::", ""]
    last = name.rpartition(".")[2]
    if what == "method" and _method(obj, f"a{last}") is not None:
        lines += ["", f"Async version: `a{last}`.", ""]


def _blocking_form(method: object) -> object:
    name = getattr(method, "__name__", "")
    return _method(method, name[1:]) if name.startswith("a") and inspect.iscoroutinefunction(method) else None


def _method(of: object, name: str) -> object:
    """Return the method of that name in the class that another method belongs to."""
    owner: object = inspect.getmodule(of)
    for part in getattr(of, "__qualname__", "").split(".")[:-1]:
        owner = getattr(owner, part, None)
    return getattr(owner, name, None) if isinstance(owner, type) else None
