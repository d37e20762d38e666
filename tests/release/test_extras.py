"""Every extra that is declared brings packages that a module of Holdfast imports."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.release.kit import ROOT


def test_every_package_of_an_extra_is_imported_by_a_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert unused(project["optional-dependencies"], imported(ROOT / "src")) == []


def test_an_extra_whose_package_nothing_imports_is_found() -> None:
    assert unused({"all": ["holdfast[web]"], "web": ["starlette>=0.40"]}, {"json"}) == ["web: starlette"]


def unused(extras: Mapping[str, Iterable[str]], imported: set[str]) -> list[str]:
    """Return the packages of extras that are not imported; an extra may also name others of Holdfast's."""
    modules = modules_by_package()
    named = ((extra, normal(re.split(r"[\[<>=!~; ]", line)[0])) for extra, lines in extras.items() for line in lines)
    return [
        f"{extra}: {package}"
        for extra, package in named
        if package != "holdfast" and imported.isdisjoint(modules.get(package, {package}))
    ]


def modules_by_package() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for module, packages in packages_distributions().items():
        for package in packages:
            found.setdefault(normal(package), set()).add(module)
    return found


def imported(folder: Path) -> set[str]:
    """Return the top-level names of all modules that the code below a folder imports."""
    return {name for path in folder.rglob("*.py") for name in imports_of(ast.parse(path.read_text("utf-8")))}


def imports_of(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def normal(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()
