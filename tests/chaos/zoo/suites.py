"""Where mutants are caught. The proofs first; where those have no eye for a bug, the tests of that part."""

from __future__ import annotations

_CHAOS = "tests/chaos"
_CONFORMANCE = "tests/conformance"
_ENGINE = "tests/worker"

DICE = f"{_CHAOS}/test_model.py::test_dice_find_nothing_that_the_model_does_not_say[memory-60]"
FEW_CLUSTERS = f"{_CHAOS}/simulation/test_simulation.py::test_every_promise_holds_in_a_few_simulated_clusters"
WAL = f"{_CHAOS}/test_wal_prefixes.py::test_every_prefix_of_the_log_is_a_legal_state"


def orders(scene: str) -> str:
    """Two actors, or three, in every order."""
    return f"{_CHAOS}/test_interleavings.py::test_in_every_order_of_the_actors_the_promises_hold[{scene}]"


def three(scene: str) -> str:
    return f"{_CHAOS}/test_interleavings.py::test_in_every_order_of_three_actors_the_promises_hold[{scene}]"


def close(scene: str) -> str:
    """Two actors on Postgres who pause before every statement."""
    name = "test_on_postgres_nobody_is_left_waiting_however_close_two_come"
    return f"{_CHAOS}/test_interleavings.py::{name}[{scene}]"


def broken(operation: str, backend: str = "sqlite") -> str:
    """An operation that fails at each of its statements."""
    name = "test_an_operation_broken_at_every_statement_is_done_or_not"
    return f"{_CHAOS}/test_crash_points.py::{name}[{backend}-{operation}]"


def conforms(test: str) -> str:
    """`finish::who_does_not_own_the_job_changes_nothing[memory-write]`"""
    file, _, name = test.partition("::")
    return f"{_CONFORMANCE}/test_{file}.py::test_{name}"


def works(test: str) -> str:
    """A worker with real processes: `worker_poison::a_suspect_runs_in_a_process_of_its_own[file]`"""
    file, _, name = test.partition("::")
    return f"{_ENGINE}/test_{file}.py::test_{name}"
