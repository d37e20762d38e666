"""What the package offers: complete, documented, and where its own words say it is."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import holdfast
import holdfast.outbound
import holdfast.testing
import holdfast.webhooks
from holdfast import config, errors
from holdfast.worker.settings import WorkerSettings

LAZY = [holdfast, holdfast.flows, holdfast.model]


def _imported_for_type_checkers(package: ModuleType) -> dict[str, str]:
    """Each public name with its module, as the type checkers see it; modules are in none."""
    tree = ast.parse(Path(str(package.__file__)).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.name: node.module or "" for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


@pytest.mark.parametrize("package", LAZY)
def test_the_public_names_are_sorted_and_all_exist(package: ModuleType) -> None:
    assert package.__all__ == sorted(package.__all__)
    assert len(set(package.__all__)) == len(package.__all__)
    assert all(getattr(package, name) is not None for name in package.__all__)
    assert {*package.__all__} - {"__version__"} <= set(dir(package))


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_and_the_interpreter_find_each_name_in_the_same_module(package: ModuleType) -> None:
    declared = _imported_for_type_checkers(package)
    modules = {name for name, home in declared.items() if not home}
    assert set(declared) - modules == set(package.__all__) - {"__version__"}
    assert {*declared} == set(dir(package))
    for name, home in declared.items():
        module = importlib.import_module(f"{package.__name__}.{home or name}")
        assert getattr(package, name) is (getattr(module, name) if home else module)


def test_the_modules_of_further_names_need_no_import_of_their_own() -> None:
    program = "import holdfast; print(holdfast.errors.ConfigError.code, holdfast.model.JobState.READY)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "config ready\n"


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = holdfast.Nothing  # type: ignore[attr-defined]


def test_everything_can_be_imported_at_once() -> None:
    names: dict[str, object] = {}
    exec("from holdfast import *", names)
    assert set(holdfast.__all__) <= names.keys()


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package in LAZY for name in package.__all__ if name != "__version__"]
)
def test_each_public_class_says_what_it_is(package: ModuleType, name: str) -> None:
    public = getattr(package, name)
    # A dataclass without words of its own would show its signature instead.
    assert public.__doc__
    assert not public.__doc__.startswith(f"{name}(")


@pytest.mark.parametrize("public", [holdfast.App, holdfast.Job, holdfast.Task, holdfast.Context, holdfast.SyncContext])
def test_each_public_method_says_what_it_does(public: type) -> None:
    silent = [
        name
        for name, member in inspect.getmembers(public)
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property))
        and not inspect.getdoc(member)
    ]
    # The awaiting twin of a documented method needs no words.
    assert [name for name in silent if not (name[0] == "a" and hasattr(public, name[1:]))] == []


def test_each_tool_for_tests_says_what_it_does() -> None:
    assert holdfast.testing.__all__ == sorted(holdfast.testing.__all__)
    assert all(getattr(holdfast.testing, name).__doc__ for name in holdfast.testing.__all__)


@pytest.mark.parametrize("module", [holdfast.webhooks, holdfast.outbound])
def test_each_name_of_a_public_module_says_what_it_is(module: ModuleType) -> None:
    assert module.__all__ == sorted(module.__all__)
    assert all(getattr(module, name).__doc__ for name in module.__all__)
    assert {"Delivery", "Endpoint", "Try"} <= set(holdfast.webhooks.__all__)


def test_the_tree_of_errors_is_drawn_as_it_is() -> None:
    assert _drawn() == {name: cls.__bases__[0].__name__ for name, cls in _defined().items()}


def test_every_error_is_public_and_has_a_code_of_its_own() -> None:
    defined = _defined()
    assert defined.keys() == set(errors.__all__)
    codes = [cls.code for cls in defined.values()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("name", config.known_settings())
def test_every_setting_is_documented(name: str) -> None:
    documented = _attribute_docs(config.Config) | _attribute_docs(WorkerSettings)
    assert documented.get(name), f"{name} needs a docstring below it"


def _defined() -> dict[str, type[holdfast.HoldfastError]]:
    return {
        name: cls
        for name, cls in vars(errors).items()
        if inspect.isclass(cls) and issubclass(cls, holdfast.HoldfastError)
    }


def _drawn() -> dict[str, str]:
    """Each error in the module's drawing with its parent, by indentation."""
    parents: dict[str, str] = {}
    above: list[tuple[int, str]] = [(-1, "Exception")]
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"^([ │├└─]*)([A-Z]\w+)(?:  |$)", line):
            depth, name = len(match[1]), match[2]
            while above[-1][0] >= depth:
                above.pop()
            parents[name] = above[-1][1]
            above.append((depth, name))
    return parents


def _attribute_docs(cls: type) -> dict[str, str]:
    """The string below each field of a dataclass, or its name alone where there is none."""
    body = next(node.body for node in ast.parse(inspect.getsource(cls)).body if isinstance(node, ast.ClassDef))
    fields = {field.name for field in dataclasses.fields(cls)}
    docs: dict[str, str] = {}
    for node, below in itertools.pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in fields:
            text = below.value if isinstance(below, ast.Expr) else None
            docs[node.target.id] = str(text.value) if isinstance(text, ast.Constant) else ""
    return docs
