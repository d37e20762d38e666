"""The import of a program's module by a command or a child process of Holdfast.

Code at the top level of that module runs again in each process that imports it, which is seldom meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

GUARD: Final = 'move this below if __name__ == "__main__":'

module: str | None = None
"""Name of the module that is being imported now; None most of the time."""
_warned = False


@contextmanager
def importing(name: str) -> Iterator[None]:
    """Say in this block that Holdfast imports the module of that name."""
    global module
    before, module = module, name
    try:
        yield
    finally:
        module = before


def warn_of_enqueue() -> None:
    """Log, once per process, that the import enqueues jobs."""
    global _warned
    if _warned:
        return
    _warned = True
    import logging  # Here, because a child process must start fast.

    logging.getLogger("holdfast").warning(
        "the import of module %r enqueues a job, and does so again in each worker, child process and holdfast command"
        " that imports it; %s", module, GUARD,
    )  # fmt: skip
