"""Bugs of what hangs together: flows, signals, steps, streams, schedules, the log."""

from __future__ import annotations

from .mutant import Edit, Mutant
from .suites import DICE, close, conforms, orders

_SQLITE, _POSTGRES, _COMMON = "storage/sql/sqlite", "storage/sql/postgres", "storage/sql/common"

LINKS = (
    Mutant(
        "a child that looks whether a parent is unfinished",
        "Two parents that end at the same moment each see the other unfinished, and the child waits for ever.",
        (
            Edit(
                "storage/ops/flows/dependency_resolution.py",
                "    settled, over = await count(tx, marked)\n",
                "    settled, over = await _look_again(tx, marked)\n",
            ),
            Edit(
                "storage/ops/flows/dependency_resolution.py",
                "async def _reopen(",
                "async def _look_again(tx, marked):\n"
                "    from .edges import Counted\n"
                "    waits = [one for one in marked if one[1] != 'flow']\n"
                "    _, over = await count(tx, waits)\n"
                "    ids = as_list(sorted({one[0] for one in marked if one[1] == 'flow'}))\n"
                "    return [Counted(*row) for row in await tx.all(sql.recount_joins, ids=ids)], over\n\n\n"
                "async def _reopen(",
            ),
        ),
        (close("two who each end what a third waits for"),),
    ),
    # Each edge is marked once, whoever counts: what can be counted twice is the member of its flow.
    Mutant(
        "an end that is told twice",
        "A flow counts one member's end twice, and ends before its last member has.",
        (
            Edit(
                f"{_SQLITE}/flows.sql",
                "delete from holdfast_hop where job_id in (select value from json_each(:ids)) returning job_id",
                "update holdfast_hop set at = at where job_id in (select value from json_each(:ids)) returning job_id",
            ),
            Edit(
                f"{_POSTGRES}/flows.sql",
                "delete from holdfast_hop\n where job_id in (select hop.job_id from json_array",
                "update holdfast_hop set state = state\n where job_id in (select hop.job_id from json_array",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a child that starts one parent early",
        "A job runs before all that it depends on has ended.",
        (Edit("storage/ops/flows/edges.py", "return self.awaits <= 0", "return self.awaits <= 1"),),
        (DICE,),
    ),
    Mutant(
        "a failed parent that resolves nothing",
        "A job whose dependency has failed stays blocked for ever, and its flow with it.",
        (
            Edit(
                "storage/ops/flows/edges.py",
                "return self.awaits > 0 and self.spare < 0",
                "return self.awaits > 0 and self.spare < -9",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a signal for a job that has ended",
        "It is accepted, and nobody will ever read it.",
        (Edit("storage/ops/signals/signals.py", "if JobState(state) in TERMINAL:", "if JobState(state) in ():"),),
        (DICE,),
    ),
    Mutant(
        "a wait that does not look first",
        "A signal that came before the wait began is not seen, and the job sleeps for ever.",
        (
            Edit(
                "storage/ops/signals/suspension.py",
                "    mail = await unread(tx, waits)\n",
                "    mail = await unread(tx, ())\n",
            ),
        ),
        (orders("a waiter and a signal"),),
    ),
    Mutant(
        "a signal beside the lock of its job",
        "A signal that comes while its job goes to rest finds it awake, and wakes nobody.",
        (
            Edit(
                f"{_POSTGRES}/signals.sql",
                "from holdfast_lock_job(:id);",
                "from holdfast_any_job where id = :id;",
            ),
        ),
        (close("a waiter and a signal"),),
    ),
    Mutant(
        "a signal that counts as often as it comes",
        "A sender that repeats itself after a lost reply has approved twice.",
        (
            Edit(
                "storage/ops/signals/signals.py",
                "if signal.key is not None and (earlier :=",
                'if signal.key == "" and (earlier :=',
            ),
            Edit(
                "storage/ops/signals/signals.py",
                "idem_key=signal.key, most=MAX_SIGNALS",
                "idem_key=None, most=MAX_SIGNALS",
            ),
        ),
        (DICE,),
    ),
    Mutant(
        "a step without the lease",
        "A run that has lost its job writes into the journal of the run that has it.",
        (
            Edit(
                f"{_SQLITE}/steps.sql",
                "where id = :job_id and state = 'running' and owner = :owner and epoch = :epoch",
                "where id = :job_id and :owner <> ''",
            ),
            Edit(
                f"{_POSTGRES}/steps.sql",
                "where id = :job_id and state = 'running' and owner = :owner and epoch = :epoch",
                "where id = :job_id and :owner <> ''",
            ),
        ),
        (orders("a worker that writes and speaks, and a rescuer"),),
    ),
    Mutant(
        "a step that is written again",
        "What a run has done and told is replaced by what it did the second time.",
        (
            Edit(
                f"{_SQLITE}/steps.sql",
                "on conflict do nothing",
                "on conflict (job_id, key) do update set value = excluded.value, epoch = excluded.epoch",
            ),
            Edit(
                f"{_POSTGRES}/steps.sql",
                "on conflict do nothing",
                "on conflict (job_id, key) do update set value = excluded.value, epoch = excluded.epoch",
            ),
        ),
        (orders("a worker that writes and speaks, and a rescuer"),),
    ),
    Mutant(
        "a stream without the lease",
        "A run that was given up goes on speaking in the stream of the run after it.",
        (
            Edit(
                f"{_SQLITE}/streams.sql",
                "where id = :job_id and state = 'running' and owner = :owner and epoch = :epoch\n    on conflict",
                "where id = :job_id and :owner <> '' and :epoch > 0\n    on conflict",
            ),
            Edit(
                f"{_POSTGRES}/streams.sql",
                "where j.state = 'running' and j.owner = item.owner and j.epoch = item.epoch\n"
                "     order by j.id\n       for share of j\n), held",
                "order by j.id\n       for share of j\n), held",
            ),
        ),
        (orders("a worker that writes and speaks, and a rescuer"),),
    ),
    Mutant(
        "a tick that its job remembers",
        "Once the job of a tick is pruned, the tick makes another one.",
        (
            Edit(
                f"{_COMMON}/schedules.sql",
                "on conflict (tenant, schedule, tick) do nothing",
                "on conflict (tenant, schedule, tick) do update set job_id = excluded.job_id\n"
                " where not exists (select 1 from holdfast_job where id = holdfast_cron_tick.job_id)",
            ),
            Edit(
                f"{_COMMON}/schedules.sql",
                "select tick from holdfast_cron_tick\n"
                " where tenant = :tenant and schedule = :schedule and tick >= :start and tick < :until;",
                "select tick from holdfast_cron_tick join holdfast_job on id = job_id\n"
                " where holdfast_cron_tick.tenant = :tenant and schedule = :schedule"
                " and tick >= :start and tick < :until;",
            ),
        ),
        (conforms("schedules::a_tick_stays_fired_after_its_job_is_gone[memory-write]"),),
    ),
    Mutant(
        "a tick by the clock on the wall",
        "Each process names the tick by when it looked, and each makes its job.",
        (
            Edit(
                "rules/schedules.py",
                "return Due(tuple(wanted), found[-1], next_tick(timing, found[-1])",
                "return Due(tuple(now for _ in wanted), now, next_tick(timing, now)",
            ),
        ),
        (conforms("schedules::a_tick_is_named_by_its_nominal_time_however_late_it_is_fired[memory-write]"),),
    ),
    Mutant(
        "a lock that disables a schedule",
        "One busy moment of the database, and the schedule never fires again.",
        (
            Edit(
                "storage/ops/schedules/firing.py",
                "    return await _make_jobs(tx, schedule, due, now) if won else Firing()",
                "    try:\n        return await _make_jobs(tx, schedule, due, now) if won else Firing()\n"
                "    except Exception as wrong:\n        return await _break(tx, schedule, str(wrong))",
            ),
        ),
        (conforms("seed_defects_schedules::d10_a_lock_error_at_enqueue_disables_no_schedule_and_loses_no_tick[file]"),),
    ),
    Mutant(
        "a sequence as a cursor",
        "A reader passes over what a slower transaction commits behind it.",
        (
            Edit(
                f"{_POSTGRES}/events.sql",
                "select head.seq + row_number() over (order by moved.seq), at,",
                "select moved.seq, at,",
            ),
        ),
        (conforms("events::a_transaction_that_commits_late_is_not_passed_over"),),
    ),
)
