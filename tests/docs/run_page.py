"""Run the python blocks of one page, in a process and a folder of its own: `python -m tests.docs.run_page PAGE`.

The blocks share a namespace. One whose first line is `# name.py` is written to that file and imported from there. What
a block prints is compared with the text block that follows it, what a program prints with the console block.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import importlib
import inspect
import io
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.docs.pages import Block, blocks, matches

# In the pages this names a Postgres; the run gives it another.
SHOWN_DATABASE = "localhost/shop"


def main(page: Path) -> None:
    found = blocks(page)
    sys.path.insert(0, os.getcwd())
    # A module that others can look up, as dataclasses do; without a spec, so that no child process tries to import it.
    module = sys.modules["page"] = ModuleType("page")
    namespace = vars(module)
    for block, following in pairwise([*found, None]):
        if block is None or block.language != "python" or block.not_run:
            continue
        printed = run(block, namespace)
        if following is not None and following.language == "text":
            check(following, following.text, printed)
        if following is not None and following.language == "console" and block.file:
            run_program(block.file, following)


def run(block: Block, namespace: dict[str, Any]) -> str:
    text = block.text.replace(SHOWN_DATABASE, os.environ["SHOWN_DATABASE"])
    if block.file:
        return run_file(block.file, text, namespace)
    tree = ast.parse(text, filename=block.place)
    ast.increment_lineno(tree, block.line - 1)
    code = compile(tree, str(block.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    before = dict(namespace)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, namespace))
        else:
            exec(code, namespace)
        for name, value in list(namespace.items()):
            if name.startswith("test_") and before.get(name) is not value:
                value()
    return printed.getvalue()


def run_file(name: str, text: str, namespace: dict[str, Any]) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    if path.name.startswith("test_"):
        return ""
    importlib.invalidate_caches()
    module = importlib.import_module(name.removesuffix(".py").replace("/", "."))
    namespace.update({name: value for name, value in vars(module).items() if not name.startswith("_")})
    return ""


def run_program(name: str, console: Block) -> None:
    for command, shown in console.commands():
        if command == f"python {name}":
            done = subprocess.run([sys.executable, "-W", "error", name], capture_output=True, text=True, timeout=100)
            assert done.returncode == 0, f"{console.place}: {command} failed:\n{done.stderr}"
            check(console, shown, done.stdout)


def check(block: Block, shown: str, real: str) -> None:
    assert matches(shown, real), f"{block.place} shows\n{shown}\nbut this was printed:\n{real}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
