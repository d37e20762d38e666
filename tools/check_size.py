"""Refuse modules and functions that have grown too long to read in one go."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MODULE_LINES: Final = 900
FUNCTION_LINES: Final = 60


def main(folder: str = "src") -> int:
    offences = [offence for path in sorted(Path(folder).rglob("*.py")) for offence in too_long(path)]
    for offence in offences:
        print(offence)
    return 1 if offences else 0


def too_long(path: Path) -> Iterator[str]:
    """One line of text for each thing in the file that is over its limit."""
    text = path.read_text("utf-8")
    lines = text.count("\n")
    if lines > MODULE_LINES:
        yield f"{path}: {lines} lines, the limit is {MODULE_LINES}; split it"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = body_length(node)
            if length > FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines, the limit is {FUNCTION_LINES}; split it"


def body_length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    whole = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is None:
        return whole
    return whole - ((first.end_lineno or first.lineno) - first.lineno + 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
