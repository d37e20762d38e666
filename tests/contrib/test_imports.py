"""Integrations cost nothing to programs that do not import them."""

from __future__ import annotations

import subprocess
import sys

import pytest

FRAMEWORKS = (
    "starlette",
    "fastapi",
    "flask",
    "litestar",
    "sqlalchemy",
    "pydantic",
    "uvicorn",
    "opentelemetry",
    "sentry_sdk",
    "agents",
    "pydantic_ai",
    "langgraph",
)


@pytest.mark.parametrize(
    "module", ["holdfast", "holdfast.contrib.asgi", "holdfast.contrib.prometheus", "holdfast.cli.main"]
)
def test_no_framework_is_imported(module: str) -> None:
    program = f"import sys, {module}; print(*(name for name in {FRAMEWORKS} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
