"""The API reference: one page per public module, and one per namespace of an app, from the docstrings."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import holdfast

from .pages import Entry, Section

# Modules that programs import, with what they are for.
MODULES: Final = {
    "holdfast": "Everyday names",
    "holdfast.errors": "Errors",
    "holdfast.flows": "Flows",
    "holdfast.model": "Data",
    "holdfast.tasks": "Tasks and contexts",
    "holdfast.outcomes": "Outcomes",
    "holdfast.clock": "Clocks",
    "holdfast.ready": "Ready-made tasks",
    "holdfast.webhooks": "Received webhooks",
    "holdfast.testing": "Testing",
    "holdfast.web": "Dashboard and HTTP API",
    "holdfast.contrib.prometheus": "Prometheus",
    "holdfast.contrib.otel": "OpenTelemetry",
    "holdfast.contrib.sentry": "Sentry",
}

# Bases whose own members say nothing about Holdfast.
_FOREIGN: Final = "Exception,BaseException,Protocol,Generic,Enum,str,int,tuple,Struct"


def section() -> Section:
    """Return the reference's part of the navigation."""
    modules = [Entry(name, f"api/{name}.md", about) for name, about in MODULES.items()]
    return Section("API reference", [*modules, Entry("Namespaces of an app", "api/namespaces.md")])


def write_pages(to: Path) -> None:
    """Write the reference as pages whose text Sphinx takes from the docstrings."""
    (to / "api").mkdir()
    described: set[object] = set()
    for module, about in MODULES.items():
        names = "\n".join(_described(module, described))
        text = _MODULE.format(module=module, about=f"{about[0].lower()}{about[1:]}", names=names)
        (to / "api" / f"{module}.md").write_text(text, "utf-8")
    namespaces = _namespaces()
    for name, kind in namespaces.items():
        text = _NAMESPACE.format(name=name, kind=f"{kind.__module__}.{kind.__qualname__}")
        (to / "api" / f"app.{name}.md").write_text(text, "utf-8")
    pages = "\n".join(f"app.{name}" for name in namespaces)
    (to / "api" / "namespaces.md").write_text(_NAMESPACES.format(pages=pages), "utf-8")


def _described(module: str, described: set[object]) -> Iterator[str]:
    """Yield a directive per public name; a class that an earlier page describes is linked to."""
    found = importlib.import_module(module)
    defined = [name for name, value in vars(found).items() if getattr(value, "__module__", "") == module]
    for name in getattr(found, "__all__", defined):
        value = getattr(found, name)
        if name.startswith("_"):
            continue
        if value in described:
            yield f"* :py:class:`{value.__module__}.{value.__qualname__}`\n"
        elif isinstance(value, type):
            described.add(value)
            yield f".. autoclass:: {name}\n   :members:\n   :inherited-members: {_FOREIGN}\n"
        else:
            yield f".. {'autofunction' if callable(value) else 'autodata'}:: {name}\n"


def _namespaces() -> dict[str, type]:
    app = holdfast.App(":memory:")
    found = {name: type(getattr(app, name)) for name in dir(app) if not name.startswith("_") and name != "aevents"}
    return {name: kind for name, kind in found.items() if kind.__module__.startswith("holdfast.client.")}


_MODULE: Final = """\
# {module}: {about}

```{{eval-rst}}
.. module:: {module}

.. automodule:: {module}
   :no-members:
   :no-index:

{names}
```
"""
_NAMESPACE: Final = """\
# app.{name}

```{{eval-rst}}
.. autoclass:: {kind}
   :members:
   :inherited-members:
   :class-doc-from: class
```
"""
_NAMESPACES: Final = """\
# Namespaces of an app

The attributes of an `App` through which programs list and change what its store holds.

```{{toctree}}
:maxdepth: 1

{pages}
```
"""
