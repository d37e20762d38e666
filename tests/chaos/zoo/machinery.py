"""Bugs of the machinery: commits, loops, processes, clocks."""

from __future__ import annotations

from .mutant import Edit, Mutant
from .suites import FEW_CLUSTERS, broken, conforms

_ENGINE, _STORAGE, _UNIT = "tests/worker", "tests/storage", "tests/unit"

MACHINERY = (
    # Nobody is answered before the batch is over here: the harm is the same where the error of its commit is not told.
    Mutant(
        "an answer before the commit",
        "The caller is told that its job is stored, the commit fails, and the job is nowhere.",
        (
            Edit(
                "storage/sqlite/writer.py",
                "                self._end()\n        except sqlite3.Error as error:\n",
                "                with contextlib.suppress(sqlite3.Error, _Lost):\n"
                "                    self._end()\n        except sqlite3.Error as error:\n",
            ),
            Edit(
                "storage/sqlite/writer.py",
                "import sqlite3\nimport time",
                "import contextlib\nimport sqlite3\nimport time",
            ),
        ),
        (broken("jobs.cancel"),),
    ),
    Mutant(
        "a transaction that locks when it writes",
        "Two that read before they write block each other, and one fails at once, however long it would wait.",
        (
            Edit(
                "storage/sqlite/writer.py",
                '(self._cursor.execute, "begin immediate")',
                '(self._cursor.execute, "begin")',
            ),
        ),
        (
            f"{_UNIT}/test_sqlite_store.py::test_a_lock_held_past_the_callers_patience_is_busy",
            conforms("seed_defects::d15_concurrent_enqueues_with_one_key_make_one_job[file]"),
        ),
    ),
    Mutant(
        "a failed operation that leaves its first half",
        "What an operation wrote before its error is committed with its neighbours.",
        (Edit("storage/sqlite/writer.py", 'self._cursor.execute("rollback to op")', "pass"),),
        (f"{_UNIT}/test_sqlite_store.py::test_a_failing_operation_leaves_nothing_and_its_neighbours_stay",),
    ),
    Mutant(
        "a full disk that is not noticed",
        "The database has rolled everything back, and what follows commits statement by statement.",
        (
            Edit(
                "storage/sqlite/writer.py",
                "            if not self.connection.in_transaction:\n                raise sqlite3",
                "            if False:\n                raise sqlite3",
            ),
            Edit(
                "storage/sqlite/writer.py",
                "if not self.connection.in_transaction or code(error) == sqlite3.SQLITE_FULL:",
                "if code(error) == sqlite3.SQLITE_CORRUPT:",
            ),
        ),
        (f"{_UNIT}/test_sqlite_store.py::test_after_sqlite_rolled_everything_back_nothing_commits_by_itself",),
    ),
    Mutant(
        "rescue once, at the start",
        "Whoever dies later is rescued by nobody.",
        (
            Edit(
                "worker/maintenance/rescuer.py",
                "        failure: Exception | None = None\n",
                "        failure: Exception | None = None\n"
                '        if self.__dict__.setdefault("done", False):\n            return\n        self.done = True\n',
            ),
        ),
        (
            FEW_CLUSTERS,
            f"{_ENGINE}/test_worker_rescue.py::test_a_silent_worker_is_rescued_only_after_a_lease_of_steady_renewals",
        ),
    ),
    Mutant(
        "an error that ends the round of rescues",
        "One worker that cannot be rescued hides all those after it.",
        (
            Edit(
                "worker/maintenance/rescuer.py",
                "                failure = error\n",
                "                failure = error\n                break\n",
            ),
        ),
        (f"{_ENGINE}/test_worker_rescue.py::test_one_worker_that_cannot_be_rescued_does_not_hold_up_the_others",),
    ),
    Mutant(
        "an error that ends its loop",
        "The database is away for a second, and the loop is gone until the next start.",
        (
            Edit(
                "worker/maintenance/service.py",
                "            self.failures += 1\n",
                "            self.failures += 1\n            self._stopping = True\n",
            ),
        ),
        (f"{_ENGINE}/test_service.py::test_failures_are_survived_with_growing_rests_and_reset_by_a_success",),
    ),
    Mutant(
        "everybody is dead after an outage",
        "When the database comes back, every lease has run out, and each worker takes the others' jobs.",
        (
            Edit(
                "worker/maintenance/rescuer.py",
                "(worker.is_expired and self._steady_for() >= worker.lease / SECOND)",
                "worker.is_expired",
            ),
        ),
        (f"{_ENGINE}/test_worker_rescue.py::test_a_silent_worker_is_rescued_only_after_a_lease_of_steady_renewals",),
    ),
    Mutant(
        "a worker that is called after its host",
        "A second one on the host shares the first one's row, and its end takes the first one's jobs.",
        (
            Edit(
                "worker/worker.py",
                "WorkerState(identity or token())",
                "WorkerState(identity or __import__('socket').gethostname())",
            ),
            Edit(
                "worker/lease.py",
                "state.id = token()",
                "state.id = __import__('socket').gethostname()",
            ),
        ),
        (
            f"{_ENGINE}/test_worker_rescue.py::test_a_worker_declared_dead_goes_on_under_a_new_identity_and_its_late_outcomes_change_nothing",
        ),
    ),
    Mutant(
        "leases by the caller's clock",
        "A worker whose clock is fast finds the others' leases run out, and takes their jobs.",
        (
            Edit(
                "storage/postgres/store.py",
                "self._clock = None if isinstance(clock, SystemClock) else clock",
                "self._clock = clock or SystemClock()",
            ),
        ),
        (f"{_STORAGE}/test_postgres_store.py::test_however_wrong_the_callers_clock_is_the_server_tells_the_time",),
    ),
    Mutant(
        "connections that a fork takes along",
        "Parent and child speak over one connection, and each reads the other's answers.",
        (
            Edit(
                "storage/postgres/store.py",
                "        forking.park((self._pool, self._lanes, self._merger))\n",
                "        return\n        forking.park((self._pool, self._lanes, self._merger))\n",
            ),
        ),
        (f"{_STORAGE}/test_postgres_store.py::test_a_forked_child_uses_connections_of_its_own",),
    ),
    Mutant(
        "a file that a fork takes along",
        "The child believes that it holds the locks of its parent, and writes beside it.",
        (
            Edit("storage/sqlite/store.py", "            leave_before_fork(self)", "            pass"),
            Edit(
                "storage/sqlite/store.py",
                "        session, self._current = self._current, None\n        held = self",
                "        session = None\n        held = self",
            ),
        ),
        (
            f"{_UNIT}/test_sqlite_forks.py"
            "::test_a_forked_child_reopens_the_file_and_leaves_the_parents_connections_alone",
        ),
    ),
    Mutant(
        "a webhook verified over what its body means",
        "A changed body passes if it parses alike; of a key that occurs twice, another reader takes the other.",
        (
            Edit(
                "webhooks/message.py",
                "is_signed(keys, message_id, at, body, signature)",
                "(is_signed(keys, message_id, at, body, signature)\n"
                "            or is_signed(keys, message_id, at, json.dumps(json.loads(body)).encode(), signature))",
            ),
            Edit("webhooks/message.py", "import re\nimport time", "import json\nimport re\nimport time"),
        ),
        (f"{_UNIT}/test_webhook_messages.py::test_the_bytes_are_verified_and_not_what_they_mean",),
    ),
)
