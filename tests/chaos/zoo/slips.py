"""Small slips in the modules that decide: a comparison turned, a condition negated, a number off by one."""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass

from .mutant import SOURCE
from .suites import DICE

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_IN_MEMORY = ("-k", "not postgres and not file")

KILLERS: dict[str, tuple[str, ...]] = {
    "limits": (
        "tests/conformance/test_limits.py",
        "tests/conformance/test_limits_breakers.py",
        "tests/worker/test_worker_limits.py",
        *_IN_MEMORY,
    ),
    "budgets": ("tests/conformance/test_budgets.py", *_IN_MEMORY),
    "flows": ("tests/unit/test_graph.py",),
    "lifecycle": (
        "tests/conformance/test_workers_leases.py",
        "tests/conformance/test_jobs_transitions.py",
        DICE,
        *_IN_MEMORY,
    ),
    "steps": ("tests/unit/test_replay_rules.py",),
    "retention": ("tests/conformance/test_jobs_retention.py", "tests/worker/test_pruner.py", *_IN_MEMORY),
    "retry": ("tests/unit/test_retry_rules.py",),
    "schedules": ("tests/unit/test_ticks.py",),
    "signals": (
        "tests/unit/test_tokens.py",
        "tests/unit/test_waiting.py",
        "tests/conformance/test_signals_suspension.py",
        *_IN_MEMORY,
    ),
}
"""Modules of rules, and the tests of each."""


@dataclass(frozen=True, slots=True)
class Slip:
    """The how-manieth place of a module where one can be made."""

    module: str
    place: int

    @property
    def file(self) -> str:
        return f"rules/{self.module}.py"

    def made(self) -> tuple[str, str]:
        """What was changed, and the module's text with it."""
        maker = _Maker(self.place)
        tree = maker.visit(_tree(self.module))
        return f"{self.file}: {maker.said}", ast.unparse(ast.fix_missing_locations(tree))


def some_slips(seed: int, n: int) -> list[Slip]:
    """Drawn from all modules, with the same chance for each place."""
    places = [Slip(module, place) for module in KILLERS for place in range(_count(module))]
    return random.Random(seed).sample(places, min(n, len(places)))


def _count(module: str) -> int:
    maker = _Maker(-1)
    maker.visit(_tree(module))
    return maker.seen


def _tree(module: str) -> ast.Module:
    return ast.parse((SOURCE / "rules" / f"{module}.py").read_text())


class _Maker(ast.NodeTransformer):
    """Counts the places and changes one of them."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.seen = 0
        self.said = ""
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._depth += 1
        node.body = [self.visit(one) for one in node.body]
        self._depth -= 1
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if self._is_here(node):
            node.ops[0] = _TURNED[type(node.ops[0])]()
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if self._is_here(node):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if self._is_here(node.test):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Sub) and self._is_here(node):
            node.op = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) in (int, bool) and self._is_here(node):
            return ast.Constant(not node.value if node.value in (True, False) else node.value + 1)
        return node

    def _is_here(self, node: ast.expr) -> bool:
        # What stands outside of functions is a setting rather than a decision.
        self.seen += self._depth > 0
        if not self._depth or self.seen - 1 != self.place:
            return False
        self.said = f"line {node.lineno}, {type(node).__name__} {ast.unparse(node)!r}"
        return True
