"""Bugs of ownership: who may end a run, who is lost, and what a loss costs."""

from __future__ import annotations

from .mutant import Edit, Mutant
from .suites import DICE, conforms, orders, works

_SQLITE, _POSTGRES = "storage/sql/sqlite", "storage/sql/postgres"

OWNERS = (
    Mutant(
        "finish without the epoch",
        "A handle of an earlier run of the same worker completes the run that goes on now.",
        (
            Edit(
                f"{_SQLITE}/jobs_finish.sql",
                "and +live.owner = :owner and live.epoch = item.value ->> '$.epoch'",
                "and +live.owner = :owner",
            ),
            Edit(
                f"{_POSTGRES}/jobs_finish.sql",
                "= :owner and job.epoch = item.epoch\n       and exists (select 1 from me)\n    returning job.*",
                "= :owner\n       and exists (select 1 from me)\n    returning job.*",
            ),
        ),
        (orders("a worker that runs a job again, and its own first outcome, which comes late"),),
    ),
    # A rescue looks and writes under one lock here: what can come late is the outcome of the one who was rescued.
    Mutant(
        "a late failure by the job's id alone",
        "Whoever comes too late overwrites the run of the job's new owner.",
        (
            Edit(
                f"{_SQLITE}/jobs_finish.sql",
                "where id = :id and state = 'running' and owner = :owner and epoch = :epoch",
                "where id = :id and state = 'running'",
            ),
            Edit(
                f"{_POSTGRES}/jobs_finish.sql",
                "and job.state = 'running' and coalesce(job.owner, '') = :owner and job.epoch = item.epoch\n"
                "   and exists (select 1 from me)\nreturning item.n, job.state",
                "and job.state = 'running'\nreturning item.n, job.state",
            ),
        ),
        (orders("a worker whose job fails, and a rescuer"),),
    ),
    Mutant(
        "a late success by the job's id alone",
        "Whoever comes too late ends the run of the job's new owner, which goes on and can record nothing.",
        (
            Edit(
                f"{_SQLITE}/jobs_finish.sql",
                "where live.state = 'running' and +live.owner = :owner and live.epoch = item.value ->> '$.epoch'",
                "where live.state = 'running' and :owner <> ''",
            ),
            Edit(
                f"{_POSTGRES}/jobs_finish.sql",
                "and job.state = 'running' and coalesce(job.owner, '') = :owner and job.epoch = item.epoch\n"
                "       and exists (select 1 from me)\n    returning job.*",
                "and job.state = 'running'\n    returning job.*",
            ),
        ),
        (orders("a worker that repeats itself, and a rescuer"),),
    ),
    Mutant(
        "a rescue that does not look at the lease",
        "A worker that beats loses its jobs to whoever believes it dead, and they run twice.",
        (
            Edit(f"{_SQLITE}/workers.sql", "or lease_until < :now", "or lease_until > 0", times=2),
            Edit(f"{_POSTGRES}/workers.sql", "or lease_until < :now", "or lease_until > 0", times=2),
        ),
        (DICE,),
    ),
    Mutant(
        "attempts counted at the finish",
        "A run that takes its worker down is never counted, and kills one worker after the other.",
        (
            Edit(f"{_SQLITE}/jobs_claim.sql", "attempts = attempts + 1,", "attempts = attempts,", times=2),
            Edit(f"{_POSTGRES}/jobs_claim.sql", "attempts = attempts + 1,", "attempts = attempts,", times=2),
            Edit(
                f"{_SQLITE}/jobs_finish.sql",
                "attempts = attempts - :refund",
                "attempts = attempts + :by_owner - :refund",
            ),
            Edit(
                f"{_POSTGRES}/jobs_finish.sql",
                "attempts = job.attempts - item.refund",
                "attempts = job.attempts + :by_owner - item.refund",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a beat that brings the dead back",
        "A worker that was declared lost goes on believing that its jobs are its own.",
        (
            Edit(
                "storage/sql/common/workers.sql",
                "where id = :id and state <> 'dead'\nreturning state",
                "where id = :id\nreturning state",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a claim by a worker that is dead",
        "What it takes after its rescue belongs to nobody whom anybody would rescue again.",
        (
            Edit(
                f"{_SQLITE}/jobs_claim.sql",
                "exists (select 1 from holdfast_worker where id = :owner and state = 'alive')",
                "exists (select 1 where :owner <> '')",
                times=2,
            ),
            Edit(
                f"{_POSTGRES}/jobs_claim.sql",
                "select 1 from holdfast_worker where id = :owner and state = 'alive' for key share",
                "select 1",
                times=2,
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a rescue in the name of the lost worker",
        "The lost worker's late outcome is answered as recorded, though the job runs again.",
        (
            Edit(
                f"{_SQLITE}/jobs_finish.sql",
                "finished_epoch = case when :by_owner = 1 then epoch else finished_epoch end",
                "finished_epoch = epoch",
            ),
            Edit(
                f"{_POSTGRES}/jobs_finish.sql",
                "finished_epoch = case when :by_owner = 1 then job.epoch else job.finished_epoch end",
                "finished_epoch = job.epoch",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a crash cap that never comes",
        "A job that takes its process down each time does so for ever.",
        (Edit("rules/lifecycle.py", "crashes + 1 >= CRASH_CAP", "crashes >= 2 * CRASH_CAP"),),
        (conforms("workers_leases::losses_while_alone_convict_at_the_cap[memory-write]"),),
    ),
    Mutant(
        "a suspect that is never isolated",
        "A job that kills its process takes one worker down after the other, with all that runs there.",
        (
            Edit(
                "worker/running/executor.py",
                " or (bool(run.job.suspect) and is_importable(run.task))",
                "",
            ),
        ),
        (works("worker_poison::a_suspect_runs_in_a_process_of_its_own_and_is_cleared_by_any_outcome[file]"),),
    ),
    Mutant(
        "a second loss that makes no suspect",
        "The same: nobody runs such a job apart.",
        (Edit("rules/lifecycle.py", "suspect=losses + 1 >= SUSPECT_AFTER", "suspect=False"),),
        (
            conforms(
                "workers_leases::a_job_that_was_lost_twice_is_a_suspect_that_ordinary_claims_pass_over[memory-write]"
            ),
        ),
    ),
    Mutant(
        "an innocent that is convicted",
        "A loss that a job shared with its neighbours counts as its crash: after three lost workers all of them fail.",
        (
            Edit("rules/lifecycle.py", "convicted = alone and crashes + 1", "convicted = crashes + 1"),
            Edit("rules/lifecycle.py", 'outcome="lost", convicts=alone', 'outcome="lost", convicts=True'),
        ),
        (conforms("workers_leases::losses_shared_with_neighbours_never_convict[memory-write]"),),
    ),
    Mutant(
        "a handler that begins after an answered cancel",
        "A cancel that is answered while a child process starts comes too late: the handler has its effects.",
        (
            Edit(
                "worker/running/executor.py",
                "run.stop.request(reason)\n        return run.stop.reason is None",
                "pass\n        return True",
            ),
        ),
        (
            works(
                "worker_cancel::a_handler_does_not_begin_in_its_process_after_a_cancel_was_answered[postgres-False-def]"
            ),
        ),
    ),
    Mutant(
        "a replay that keeps the attempts",
        "A dead job that an operator brings back dies at its next failure.",
        (
            Edit(
                f"{_SQLITE}/jobs_control.sql",
                "attempts = 0, crashes = 0, losses = 0, suspect = 0, ",
                "crashes = 0, losses = 0, suspect = 0, ",
            ),
            Edit(
                f"{_POSTGRES}/jobs_control.sql",
                "attempts = 0, crashes = 0, losses = 0, suspect = 0, ",
                "crashes = 0, losses = 0, suspect = 0, ",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a paused queue that is claimed from",
        "Work goes on that an operator has stopped.",
        (
            Edit(
                f"{_SQLITE}/jobs_claim.sql",
                "(q.state in ('paused', 'disabled') or q.cool_until > :now)",
                "(q.state in ('disabled') or q.cool_until > :now)",
                times=2,
            ),
            Edit(
                f"{_POSTGRES}/jobs_claim.sql",
                "(q.state in ('paused', 'disabled') or q.cool_until > :now)",
                "(q.state in ('disabled') or q.cool_until > :now)",
                times=2,
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a claim by a subquery that may run again",
        "With one plan of the planner's the subquery runs for every row, and a claim of five takes everything.",
        (
            Edit(
                f"{_POSTGRES}/jobs_claim.sql",
                "     where live.id = any(array(select id from head))\n       and (:lone::int = 0",
                "     where exists (select 1 from me)\n"
                "       and live.id in (select one.id from holdfast_live as one\n"
                "                    where one.due = 1 and one.route in (\n"
                "                          select r.route from json_to_recordset(:routes::json) as r(route bigint))\n"
                "                    order by one.priority desc, one.rank, one.id limit :n for update skip locked)\n"
                "       and (:lone::int = 0",
            ),
        ),
        (conforms("jobs_claim_order::a_claim_never_takes_more_than_n_rows_however_the_planner_joins"),),
    ),
)
