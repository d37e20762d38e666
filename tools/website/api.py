"""The API reference: one page per public module, and one per namespace of an app, from the docstrings."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sphinx.pycode import ModuleAnalyzer

import holdfast

from .pages import Entry, Section

# Modules that programs import, with what they are for.
MODULES: Final = {
    "holdfast": "everyday names",
    "holdfast.errors": "errors",
    "holdfast.flows": "flows",
    "holdfast.model": "data",
    "holdfast.tasks": "tasks and contexts",
    "holdfast.outcomes": "outcomes",
    "holdfast.clock": "clocks",
    "holdfast.ready": "ready-made tasks",
    "holdfast.webhooks": "received webhooks",
    "holdfast.testing": "testing",
    "holdfast.web": "dashboard and HTTP API",
    "holdfast.contrib.fastapi": "FastAPI",
    "holdfast.contrib.starlette": "Starlette",
    "holdfast.contrib.asgi": "other ASGI applications",
    "holdfast.contrib.flask": "Flask",
    "holdfast.contrib.litestar": "Litestar",
    "holdfast.contrib.prometheus": "Prometheus",
    "holdfast.contrib.otel": "OpenTelemetry",
    "holdfast.contrib.sentry": "Sentry",
}

# Bases whose own members say nothing about Holdfast.
_FOREIGN: Final = (
    "Exception,BaseException,OSError,ImportError,TypeError,RuntimeError,Protocol,Generic,Enum,str,int,tuple,Sequence,"
    "Struct,InitPluginProtocol,CLIPlugin,CLIPluginProtocol"
)
# Names that Holdfast's own modules use, by class or module.
_OWN_USE: Final = {
    "App": "child_setup,declarations,declared_limits",
    "Flow": "close_into",
    "Flows": "create,extend",
    "JobFilter": "place",
    "Jobs": "decode_result,pickled_by",
    "MissingExtra": "explains",
    "Schedules": "declarations",
    "Streams": "buffer,keep",
    "Task": "address,arguments,injected,item,queues,read,redefines,run_in_child",
    "holdfast.outcomes": "check_reason",
}


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
        text = _MODULE.format(module=module, about=about, names=names)
        (to / "api" / f"{module}.md").write_text(text, "utf-8")
    namespaces = _namespaces()
    for name, kind in namespaces.items():
        full_name = f"{kind.__module__}.{kind.__qualname__}"
        text = _NAMESPACE.format(name=name, kind=full_name, without=_without(kind.__name__))
        (to / "api" / f"app.{name}.md").write_text(text, "utf-8")
    pages = "\n".join(f"app.{name}" for name in namespaces)
    (to / "api" / "namespaces.md").write_text(_NAMESPACES.format(pages=pages), "utf-8")


def _described(module: str, described: set[object]) -> Iterator[str]:
    """Yield a directive per public name; a class that an earlier page describes is linked to."""
    found = importlib.import_module(module)
    defined = [name for name, value in vars(found).items() if getattr(value, "__module__", "") == module]
    with_text = ModuleAnalyzer.for_module(module).find_attr_docs()
    for name in getattr(found, "__all__", defined):
        value = getattr(found, name)
        if name.startswith("_") or name in _OWN_USE.get(module, "").split(","):
            continue
        if value in described:
            yield f"* :py:class:`{value.__module__}.{value.__qualname__}`\n"
        elif isinstance(value, type):
            described.add(value)
            yield f".. autoclass:: {name}\n   :members:\n{_without(name)}   :inherited-members: {_FOREIGN}\n"
        elif inspect.isroutine(value):
            yield f".. autofunction:: {name}\n"
        elif ("", name) in with_text or type(value).__module__.startswith("holdfast."):
            yield f".. autodata:: {name}\n   :no-value:\n"


def _without(kind: str) -> str:
    """Return the option that leaves out what programs don't use."""
    return f"   :exclude-members: {_OWN_USE[kind]}\n" if kind in _OWN_USE else ""


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
{without}   :inherited-members:
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
