"""Bugs of a job's state: cancels, keys, limits, retention, and what is told of it."""

from __future__ import annotations

from .mutant import Edit, Mutant
from .suites import DICE, WAL, conforms, three

_SQLITE, _POSTGRES = "storage/sql/sqlite", "storage/sql/postgres"

STATES = (
    Mutant(
        "a success that leaves its job among the live",
        "A job that has succeeded is found running too: it is rescued, and runs again.",
        (
            Edit(
                f"{_SQLITE}/jobs_finish.sql",
                "-- then:\ndelete from holdfast_live where id in (select value from json_each(:ids));\n",
                "",
            ),
            Edit(
                f"{_POSTGRES}/jobs_finish.sql",
                "    delete from holdfast_live as job\n     using item\n",
                "    update holdfast_live as job set claim = job.claim\n      from item\n",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a twin that is refused and stored",
        "It is neither live nor ended: nobody claims it, and its id is taken.",
        (
            Edit(
                f"{_SQLITE}/jobs_enqueue.sql",
                "and not exists (select 1 from holdfast_live where dedupe_held = :dedupe_held)",
                "and true",
            ),
            Edit(
                f"{_POSTGRES}/jobs_enqueue.sql",
                "dedupe_until, :now from first order by n",
                "dedupe_until, :now from free order by n",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a cancel that a retry forgets",
        "The job was asked to stop, its run failed, and it runs again.",
        (
            Edit(
                f"{_SQLITE}/jobs_finish.sql",
                "set state = case when cancel_at is null then :state else 'cancelled' end",
                "set state = case when cancel_at is null or :state = 'ready' then :state else 'cancelled' end",
            ),
            Edit(
                f"{_SQLITE}/jobs_finish.sql", "due = case when cancel_at is null and :state", "due = case when :state"
            ),
            Edit(
                f"{_SQLITE}/jobs_finish.sql",
                "finished_at = case when cancel_at is not null or :terminal = 1 then :now end",
                "finished_at = case when cancel_at is not null and :state <> 'ready' or :terminal = 1 then :now end",
            ),
            Edit(
                f"{_POSTGRES}/jobs_finish.sql",
                "set state = case when job.cancel_at is null then item.state else 'cancelled' end",
                "set state = case when job.cancel_at is null or item.state = 'ready'\n"
                "                    then item.state else 'cancelled' end",
            ),
            Edit(
                f"{_POSTGRES}/jobs_finish.sql",
                "due = case when job.cancel_at is null and item.state",
                "due = case when item.state",
            ),
            Edit(
                f"{_POSTGRES}/jobs_finish.sql",
                "finished_at = case when job.cancel_at is not null or item.terminal",
                "finished_at = case when job.cancel_at is not null and item.state <> 'ready' or item.terminal",
            ),
        ),
        (three("a worker, an enqueuer with a key that is held until failure, and a canceller"),),
    ),
    Mutant(
        "a key that a retry lets go of",
        "While a job waits for its next try, its twin is let in.",
        (
            Edit(
                f"{_SQLITE}/jobs_finish.sql",
                "dedupe_held = case when cancel_at is not null or :terminal = 1 then null\n",
                "dedupe_held = case when 1 = 1 then null\n",
            ),
            Edit(
                f"{_POSTGRES}/jobs_finish.sql",
                "dedupe_held = case when job.cancel_at is not null or item.terminal = 1 then null\n",
                "dedupe_held = case when true then null\n",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a window that its job's start ends",
        "A twin is let in beside a job that runs for longer than its window.",
        (
            Edit(
                f"{_SQLITE}/jobs_claim.sql",
                "where job.id = holdfast_live.id) <> 'start'",
                "where job.id = holdfast_live.id) not in ('start', 'window')",
                times=2,
            ),
            Edit(
                f"{_POSTGRES}/jobs_claim.sql",
                "where job.id = live.id) <> 'start'",
                "where job.id = live.id) not in ('start', 'window')",
                times=2,
            ),
        ),
        (conforms("jobs_dedupe::a_window_leaves_the_key_with_its_job_until_the_job_has_ended[memory-write]"),),
    ),
    Mutant(
        "a key that is looked at and not held",
        "Of two that enqueue under one key at once, neither sees the other, and both make their job.",
        (
            Edit(
                "storage/migrations/sqlite/0034_live_and_ended.sql",
                "create unique index holdfast_live_dedupe",
                "create index holdfast_live_dedupe",
            ),
            Edit(
                "storage/migrations/postgres/0034_live_and_ended.sql",
                "create unique index holdfast_live_dedupe",
                "create index holdfast_live_dedupe",
            ),
            Edit(
                f"{_POSTGRES}/jobs_enqueue.sql",
                "d.held = item.dedupe_held and d.expires_at > :now)\n                then false\n",
                "d.held = item.dedupe_held and d.expires_at > :now)\n                then false\n"
                "                when exists (select 1 from holdfast_live t where t.dedupe_held = item.dedupe_held)"
                " then false\n",
            ),
        ),
        (
            conforms("seed_defects::d15_concurrent_enqueues_with_one_key_make_one_job[postgres]"),
            conforms("jobs_dedupe::an_enqueue_waits_for_a_strangers_open_twin_and_then_names_it[postgres]"),
        ),
    ),
    Mutant(
        "retention from the creation",
        "A job that waited for a month is forgotten the moment it has ended.",
        (
            Edit(
                f"{_SQLITE}/jobs_retention.sql",
                "and ended.finished_at <= :now - :kept",
                "and job.created_at <= :now - :kept",
            ),
            Edit(
                f"{_POSTGRES}/jobs_retention.sql",
                "and ended.finished_at <= :now - :kept",
                "and job.created_at <= :now - :kept",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "retention of what has not ended",
        "Jobs that wait are deleted for their age.",
        (
            Edit(
                f"{_SQLITE}/jobs_retention.sql",
                "ended.state from holdfast_ended as ended",
                "ended.state from holdfast_any_job as ended",
            ),
            Edit(
                f"{_SQLITE}/jobs_retention.sql",
                "and ended.finished_at <= :now - :kept",
                "and job.created_at <= :now - :kept",
            ),
            Edit(
                f"{_SQLITE}/jobs_retention.sql",
                "exists (select 1 from holdfast_ended as ended where ended.id = holdfast_job.id)",
                "true",
            ),
            Edit(
                f"{_POSTGRES}/jobs_retention.sql",
                "ended.state from holdfast_ended as ended",
                "ended.state from holdfast_any_job as ended",
            ),
            Edit(
                f"{_POSTGRES}/jobs_retention.sql",
                "and ended.finished_at <= :now - :kept",
                "and job.created_at <= :now - :kept",
            ),
            Edit(f"{_POSTGRES}/jobs_retention.sql", "\n   for update of ended", "\n   for update of job"),
            Edit(
                f"{_POSTGRES}/jobs_retention.sql",
                "exists (select 1 from holdfast_ended as ended where ended.id = holdfast_job.id)",
                "true",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "retention of what others wait for",
        "An upstream is forgotten before the job that needs its result has looked.",
        (
            Edit(f"{_SQLITE}/jobs_retention.sql", "linked = 1", "linked = 2", times=2),
            Edit(f"{_POSTGRES}/jobs_retention.sql", "linked = 1", "linked = 2", times=2),
        ),
        (DICE,),
    ),
    Mutant(
        "retention of a result that a suspended job waits for",
        "The job resumes once all have ended, and the result of the first is gone.",
        (
            Edit(
                f"{_SQLITE}/jobs_retention.sql",
                "where e.upstream = holdfast_ended.id and e.kind = 'wait'",
                "where e.upstream = holdfast_ended.id and e.kind = 'none'",
            ),
            Edit(
                f"{_POSTGRES}/jobs_retention.sql",
                " " * 40 + "where e.upstream = job.id and e.kind = 'wait'",
                " " * 40 + "where e.upstream = job.id and e.kind = 'none'",
            ),
        ),
        (conforms("jobs_retention::a_result_that_a_suspended_job_waits_for_is_kept_with_its_job[memory-write]"),),
    ),
    # An operation has one commit here, so the event waits for the next one.
    Mutant(
        "an event after the commit",
        "Whoever dies between the commit and the event has ended a job of which nobody is told.",
        (
            Edit(
                "storage/ops/events.py",
                '    await _put(tx, by_queue, "outcomes")\n\n\nasync def started',
                "    _owed.append(by_queue)\n    if len(_owed) > 1:\n"
                '        await _put(tx, _owed.pop(0), "outcomes")\n\n\n'
                "_owed: list[dict[str, list[_Facts]]] = []\n\n\nasync def started",
            ),
        ),
        (WAL,),
    ),
    Mutant(
        "a slot that a lost run keeps",
        "Each crash leaves its lane one smaller, until nothing of it runs any more.",
        (
            Edit(
                "storage/ops/jobs/finishing.py",
                "    await release(tx, [row[-1] for row in rows if row])\n    return rows",
                "    return rows",
            ),
        ),
        (three("two workers and a rescuer over a lane"),),
    ),
    Mutant(
        "a reservation that a lost run keeps",
        "Each crash leaves the budget one reservation smaller.",
        (
            Edit(
                "storage/ops/budgets/reservations.py",
                "    return await forget_runs(tx, ids) if ids else set()",
                "    return set()",
            ),
            Edit(
                f"{_SQLITE}/budgets.sql",
                "           and r.epoch = (select job.epoch from holdfast_live as job"
                " where job.id = r.job_id and job.state = 'running')),",
                "           and r.epoch > 0),",
            ),
            Edit(
                f"{_POSTGRES}/budgets.sql",
                "sum(r.amount) filter (where r.epoch = r.running) as amount",
                "sum(r.amount) as amount",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a budget that counts only what is spent",
        "Runs side by side each set the last of it aside.",
        (Edit("rules/budgets.py", "return limit - self.spent - self.reserved", "return limit - self.spent"),),
        (DICE,),
    ),
)
