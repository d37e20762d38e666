"""Schedules fire each tick once, by their policy, and remember what they did."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from holdfast.client.schedules import StoredSchedules
from holdfast.client.scope import Scope
from holdfast.clock import SECOND
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done
from holdfast.model.schedules import ScheduleState
from holdfast.storage.ops.jobs import actions
from holdfast.storage.ops.schedules import firing, schedules
from holdfast.storage.port import Op, Store, Tx

from .racing import all_at_once
from .timetable import DAY, HOUR, at, create, due, fire, get, job_of, key, plan, set_clock, ticks
from .world import World


@pytest.fixture
def noon(world: World) -> World:
    """Half past eleven, so that the next full hour is noon."""
    set_clock(world, "2024-05-01T11:30:00")
    return world


def test_a_new_schedule_waits_for_its_next_tick_and_fires_it_once(noon: World) -> None:
    made = create(noon)
    assert (made.state, made.next_tick, made.origin) == (ScheduleState.ACTIVE, at("2024-05-01T12:00"), "runtime")
    assert due(noon) == []
    assert fire(noon).jobs == ()
    noon.clock.advance(1800)
    assert due(noon) == ["nightly"]
    (job_id,) = fire(noon).jobs
    assert fire(noon).jobs == ()
    job = noon.job(job_id)
    assert (job.task, job.queue, job.state) == ("work", "default", JobState.READY)
    after = get(noon)
    assert (after.last_tick, after.next_tick) == (at("2024-05-01T12:00"), at("2024-05-01T13:00"))
    assert (after.fired, after.skipped, after.last_job) == (1, 0, job_id)
    assert ticks(noon) == [at("2024-05-01T12:00")]


def test_a_tick_is_named_by_its_nominal_time_however_late_it_is_fired(noon: World) -> None:
    create(noon)
    noon.clock.advance(1800 + 17)
    fire(noon)
    assert ticks(noon) == [at("2024-05-01T12:00")]
    assert get(noon).next_tick == at("2024-05-01T13:00")


@pytest.mark.parametrize(
    ("missed", "late", "fired", "skipped"),
    [
        ("one", 600, ["16:00"], 4),
        ("skip", 600, [], 5),
        ("skip", 30, ["16:00"], 4),
        ("all", 600, ["14:00", "15:00", "16:00"], 2),
    ],
)
def test_missed_ticks_are_made_up_for_by_the_policy(
    each_store: World, missed: str, late: int, fired: list[str], skipped: int
) -> None:
    set_clock(each_store, "2024-05-01T11:30")
    create(each_store, missed=missed, max_missed=3)
    set_clock(each_store, "2024-05-01T16:00")
    each_store.clock.advance(late)
    result = fire(each_store)
    assert (len(result.jobs), result.skipped) == (len(fired), skipped)
    assert ticks(each_store) == [at(f"2024-05-01T{time}") for time in fired]
    assert get(each_store).next_tick == at("2024-05-01T17:00")
    assert get(each_store).skipped == skipped


def test_a_schedule_by_the_second_that_rested_for_ten_years_is_caught_up_with_at_once(each_store: World) -> None:
    set_clock(each_store, "2014-05-01T11:30")
    create(each_store, expression="* * * * * *", missed="all", max_missed=5)
    now = set_clock(each_store, "2024-05-01T11:30")
    assert len(fire(each_store).jobs) == 5
    assert ticks(each_store) == [now - n * SECOND for n in (4, 3, 2, 1, 0)]


def test_a_clock_that_is_set_back_makes_no_tick_and_none_comes_twice(noon: World) -> None:
    create(noon, missed="all")
    set_clock(noon, "2024-05-01T15:00")
    assert len(fire(noon).jobs) == 4
    set_clock(noon, "2024-05-01T11:00")
    for _ in range(9):
        noon.clock.advance(1800)
        fire(noon)
    assert ticks(noon) == [at(f"2024-05-01T{hour}:00") for hour in (12, 13, 14, 15)]
    assert noon.jobs() == 4
    set_clock(noon, "2024-05-01T16:00")
    assert len(fire(noon).jobs) == 1


def test_a_tick_stays_fired_after_its_job_is_gone(noon: World) -> None:
    create(noon)
    noon.clock.advance(1800)
    (job_id,) = fire(noon).jobs
    noon.run(actions.delete, job_id)
    noon.sql("update holdfast_schedule set last_tick = last_tick - 3600000000, next_tick = last_tick")
    assert fire(noon).jobs == ()
    assert noon.jobs() == 0


def test_ticks_are_forgotten_only_behind_the_last_one(noon: World) -> None:
    create(noon, missed="all", max_missed=1000)
    noon.clock.advance(10 * 86_400)
    fire(noon)
    assert len(ticks(noon)) == 240
    noon.clock.advance(86_400)
    assert noon.run(schedules.prune_ticks, 5 * DAY) == 240 - 4 * 24
    assert min(ticks(noon)) >= noon.now - 5 * DAY
    noon.clock.advance(100 * 86_400)
    assert noon.run(schedules.prune_ticks, 5 * DAY) == 4 * 24 - 1
    assert ticks(noon) == [get(noon).last_tick]
    with pytest.raises(InvalidInput, match="no longer known"):
        noon.run(firing.backfill, key(), at("2024-05-02T00:00"), at("2024-05-03T00:00"))


def test_a_paused_schedule_fires_nothing_and_starts_afresh_when_it_is_resumed(noon: World) -> None:
    create(noon)
    assert noon.run(schedules.pause_schedule, key()).state is ScheduleState.PAUSED
    set_clock(noon, "2024-05-01T15:20")
    assert due(noon) == []
    assert fire(noon).jobs == ()
    resumed = noon.run(schedules.resume_schedule, key())
    assert resumed.next_tick == at("2024-05-01T16:00")
    assert fire(noon).jobs == ()
    noon.clock.advance(2400)
    assert len(fire(noon).jobs) == 1


def test_an_interval_counts_from_when_it_became_known_and_again_after_a_pause(noon: World) -> None:
    create(noon, every=90 * SECOND)
    start = noon.now
    noon.clock.advance(89)
    assert fire(noon).jobs == ()
    noon.clock.advance(1)
    assert len(fire(noon).jobs) == 1
    noon.clock.advance(40)
    noon.run(schedules.pause_schedule, key())
    noon.clock.advance(300)
    noon.run(schedules.resume_schedule, key())
    assert get(noon).next_tick == noon.now + 90 * SECOND
    assert ticks(noon) == [start + 90 * SECOND]


def test_an_interval_that_is_overdue_at_launch_waits_for_its_cooldown_once(noon: World) -> None:
    create(noon, every=600 * SECOND, cooldown=60 * SECOND)
    noon.clock.advance(7200)
    launched = noon.now
    assert fire(noon, launched_at=launched).jobs == ()
    assert get(noon).next_tick == launched + 60 * SECOND
    assert due(noon) == []
    noon.clock.advance(59)
    again = noon.now
    noon.clock.advance(1)
    assert due(noon) == ["nightly"]
    assert len(fire(noon, launched_at=again).jobs) == 1


def test_an_interval_that_falls_due_after_launch_does_not_wait(noon: World) -> None:
    create(noon, every=600 * SECOND, cooldown=60 * SECOND)
    launched = noon.now
    noon.clock.advance(600)
    assert len(fire(noon, launched_at=launched).jobs) == 1


def test_overlap_skip_passes_over_ticks_while_the_last_job_is_not_done_and_counts_them(noon: World) -> None:
    create(noon, overlap="skip")
    noon.clock.advance(1800)
    (first,) = fire(noon).jobs
    noon.clock.advance(3600)
    assert (fire(noon).jobs, get(noon).skipped) == ((), 1)
    owner = noon.worker()
    noon.finish(owner, noon.take(owner), Done("null"))
    noon.clock.advance(3600)
    (second,) = fire(noon).jobs
    assert second != first
    assert ticks(noon) == [at("2024-05-01T12:00"), at("2024-05-01T14:00")]


def test_overlap_cancel_previous_ends_what_waits_and_asks_what_runs(noon: World) -> None:
    create(noon, overlap="cancel_previous")
    noon.clock.advance(1800)
    (first,) = fire(noon).jobs
    noon.clock.advance(3600)
    (second,) = fire(noon).jobs
    assert noon.job(first).state is JobState.CANCELLED
    noon.take(noon.worker())
    noon.clock.advance(3600)
    (third,) = fire(noon).jobs
    assert noon.job(second).cancel_at is not None
    assert noon.job(second).state is JobState.RUNNING
    assert noon.job(third).state is JobState.READY


def test_a_twin_that_holds_the_dedupe_key_is_a_skip_not_a_fire(noon: World) -> None:
    options = {"route": {"requires": []}, "dedupe": {"key": "one", "scope": "work", "on_duplicate": "raise"}}
    create(noon, options=json.dumps(options))
    noon.clock.advance(1800)
    assert len(fire(noon).jobs) == 1
    noon.clock.advance(3600)
    assert (fire(noon).jobs, get(noon).skipped, get(noon).state) == ((), 1, ScheduleState.ACTIVE)


def test_jitter_delays_the_job_by_the_same_amount_for_everybody(noon: World) -> None:
    create(noon, jitter=600 * SECOND)
    noon.clock.advance(1800)
    (job_id,) = fire(noon).jobs
    delay = noon.job(job_id).not_before - at("2024-05-01T12:00")
    assert 0 < delay <= 600 * SECOND
    assert get(noon).next_tick == at("2024-05-01T13:00")


def test_a_task_is_told_the_time_of_its_tick_on_the_zones_clock(noon: World) -> None:
    create(noon, expression="30 0 * * *", zone="Europe/Paris", tick_argument="tick", payload='{"region": "eu"}')
    set_clock(noon, "2024-05-01T22:31")
    (job_id,) = fire(noon).jobs
    assert json.loads(noon.job(job_id).payload) == {"region": "eu", "tick": "2024-05-02T00:30:00+02:00"}


def test_a_broken_expression_disables_its_schedule_alone_and_says_why(noon: World) -> None:
    create(noon, "good")
    create(noon, "bad")
    noon.sql("update holdfast_schedule set expression = 'rubbish' where name = 'bad'")
    noon.clock.advance(1800)
    broken = fire(noon, "bad").broken
    assert broken is not None and "5 or 6" in broken
    assert (get(noon, "bad").state, get(noon, "bad").last_error) == (ScheduleState.BROKEN, broken)
    assert len(fire(noon, "good").jobs) == 1
    assert due(noon) == []
    mended = noon.run(schedules.edit_schedule, key("bad"), lambda old: replace(old.spec, expression="30 * * * *"))
    assert (mended.state, mended.last_error) == (ScheduleState.ACTIVE, None)
    assert mended.next_tick == at("2024-05-01T12:30")


def test_options_that_no_version_writes_disable_the_schedule_too(noon: World) -> None:
    create(noon)
    noon.sql("""update holdfast_schedule set options = '{"priority": "high"}'""")
    noon.clock.advance(1800)
    assert fire(noon).broken is not None
    assert noon.jobs() == 0


def test_a_zone_that_this_machine_does_not_know_disables_nothing(noon: World) -> None:
    create(noon)
    noon.sql("update holdfast_schedule set zone = 'Mars/Base'")
    noon.clock.advance(1800)
    with pytest.raises(InvalidInput, match="no time zone"):
        fire(noon)
    assert get(noon).state is ScheduleState.ACTIVE


def test_editing_the_time_counts_from_now_on_and_guards_against_a_second_editor(noon: World) -> None:
    create(noon)
    noon.clock.advance(1800)
    edited = noon.run(schedules.edit_schedule, key(), lambda old: replace(old.spec, expression="45 * * * *"))
    assert (edited.next_tick, edited.version, edited.edited) == (at("2024-05-01T12:45"), 2, ("expression",))
    assert fire(noon).jobs == ()
    noon.run(schedules.pause_schedule, key())
    still = noon.run(schedules.edit_schedule, key(), lambda old: replace(old.spec, expression="0 0 * * *"))
    assert (still.state, still.next_tick) == (ScheduleState.PAUSED, None)


def test_redeploying_updates_what_no_operator_touched_and_nothing_else(noon: World) -> None:
    assert noon.run(schedules.ensure_schedules, [plan("b"), plan("a")]) == ["a", "b"]
    assert noon.run(schedules.ensure_schedules, [plan("a"), plan("b")]) == []
    assert get(noon, "a").origin == "code"
    noon.run(schedules.edit_schedule, key("a"), lambda old: replace(old.spec, expression="5 * * * *"))
    newer = {"expression": "30 * * * *", "payload": '{"x":1}'}
    assert noon.run(schedules.ensure_schedules, [plan("a", **newer), plan("b", **newer)]) == ["a", "b"]
    a, b = get(noon, "a"), get(noon, "b")
    assert (a.expression, a.payload, a.edited) == ("5 * * * *", '{"x":1}', ("expression",))
    assert (b.expression, b.payload, b.next_tick) == ("30 * * * *", '{"x":1}', at("2024-05-01T12:30"))
    noon.run(schedules.ensure_schedules, [plan("a", every=60 * SECOND)])
    assert (get(noon, "a").expression, get(noon, "a").every) == ("5 * * * *", None)


def test_redeploying_neither_resumes_what_is_paused_nor_takes_over_what_was_made_at_run_time(noon: World) -> None:
    noon.run(schedules.ensure_schedules, [plan("code")])
    noon.run(schedules.pause_schedule, key("code"))
    create(noon, "theirs")
    noon.run(schedules.ensure_schedules, [plan("code", expression="1 * * * *"), plan("theirs", expression="1 * * * *")])
    assert (get(noon, "code").state, get(noon, "code").expression) == (ScheduleState.PAUSED, "1 * * * *")
    assert get(noon, "theirs").expression == "0 * * * *"


def test_a_name_is_taken_once_and_an_unknown_one_is_not_found(noon: World) -> None:
    create(noon)
    with pytest.raises(Conflict, match="already"):
        create(noon)
    acts = (schedules.get_schedule, schedules.pause_schedule, schedules.delete_schedule, firing.run_now, firing.fire)
    for act in acts:
        with pytest.raises(NotFound):
            noon.run(act, key("nobody"))


def test_deleting_a_schedule_forgets_its_ticks_and_keeps_its_jobs(noon: World) -> None:
    create(noon)
    noon.clock.advance(1800)
    (job_id,) = fire(noon).jobs
    noon.run(schedules.delete_schedule, key())
    assert noon.job(job_id).state is JobState.READY
    assert noon.sql("select count(*) from holdfast_cron_tick") == [(0,)]
    with pytest.raises(NotFound):
        get(noon)


def test_backfill_makes_each_missing_tick_of_a_range_once(noon: World) -> None:
    create(noon, missed="skip")
    set_clock(noon, "2024-05-02T00:00:30")
    fire(noon)
    assert len(ticks(noon)) == 1
    start, end = at("2024-05-01T20:00"), at("2024-05-02T00:00:20")
    shown = noon.run(firing.backfill, key(), start, end, dry_run=True)
    assert (len(shown.made), len(shown.existing), noon.jobs()) == (4, 1, 1)
    done = noon.run(firing.backfill, key(), start, end)
    assert done.made == shown.made
    assert noon.run(firing.backfill, key(), start, end).made == ()
    assert noon.jobs() == 5
    assert fire(noon).jobs == ()
    assert get(noon).next_tick == at("2024-05-02T01:00")


def test_a_backfill_is_bounded_and_stays_in_the_past(noon: World) -> None:
    create(noon, expression="* * * * *")
    create(noon, "beat", every=60 * SECOND)
    for name, start, end, why in (
        ("nightly", noon.now - 2 * DAY, noon.now, "shorter"),
        ("nightly", noon.now, noon.now, "empty"),
        ("nightly", noon.now, noon.now + HOUR, "future"),
        ("beat", noon.now - HOUR, noon.now, "before the interval"),
    ):
        with pytest.raises(InvalidInput, match=why):
            noon.run(firing.backfill, key(name), start, end)
    assert noon.jobs() == 0


def test_operators_leave_their_names_in_the_audit(noon: World) -> None:
    by = schedules.Operator("ann", "moved")
    noon.run(schedules.create_schedule, plan(), by)
    noon.run(schedules.edit_schedule, key(), lambda old: replace(old.spec, queue="mail"), by)
    noon.run(schedules.pause_schedule, key(), by)
    noon.run(firing.run_now, key(), by)
    noon.run(schedules.resume_schedule, key(), by)
    noon.run(schedules.delete_schedule, key(), by)
    rows = noon.sql("select action, actor, reason from holdfast_audit where target = 'nightly' order by id")
    actions = [action.removeprefix("schedule.") for action, _, _ in rows]
    assert actions == ["create", "edit", "pause", "run", "resume", "delete"]
    assert {(actor, reason) for _, actor, reason in rows} == {("ann", "moved")}


def test_a_schedule_that_two_processes_fire_at_once_makes_one_job(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    create(first)
    for _ in range(20):
        first.clock.advance(3600)
        results = all_at_once([lambda: fire(first), lambda: fire(second)])
        assert sorted(len(result.jobs) for result in results) == [0, 1]
    assert first.jobs() == 20
    assert job_of(first, ticks(first)[0])


def test_two_who_run_a_schedule_now_at_once_do_not_overlap(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    create(first, overlap="skip")
    for _ in range(10):
        first.clock.advance(3600)
        calls = [lambda: first.run(firing.run_now, key()), lambda: second.run(firing.run_now, key())]
        all_at_once([*calls, lambda: fire(first), lambda: fire(second)])
        (live,) = first.sql("select id from holdfast_any_job where finished_at is null")
        first.run(actions.cancel, live[0])
    assert first.jobs() == 10


def test_an_edit_and_a_firing_at_once_both_happen_and_no_tick_comes_twice(two_worlds: tuple[World, World]) -> None:
    first, second = two_worlds
    create(first, missed="all")
    for priority in range(10):
        first.clock.advance(3600)
        change = replace(plan(), missed="all", options=json.dumps({"route": {}, "priority": priority}))
        edit = lambda change=change: second.run(schedules.edit_schedule, key(), lambda old: change)  # noqa: E731
        all_at_once([lambda: fire(first), edit])
    fire(first)
    assert (first.jobs(), len(ticks(first)), get(first).skipped) == (10, 10, 0)
    assert get(first).version == 11


# -- tenants


def test_each_tenant_has_its_own_schedule_of_a_name(noon: World) -> None:
    mine, acme, beta = key(), key(tenant="acme"), key(tenant="beta")
    for one in (beta, mine, acme):
        noon.run(schedules.create_schedule, plan(tenant=one.tenant))
    with pytest.raises(Conflict, match="already"):
        noon.run(schedules.create_schedule, plan(tenant="acme"))
    assert [one.key for one in noon.read(schedules.list_schedules)] == [mine, acme, beta]
    assert [one.key for one in noon.read(schedules.list_schedules, "acme")] == [acme]
    noon.clock.advance(1800)
    assert [found for _, found in noon.read(firing.due_schedules)[1]] == [mine, acme, beta]
    made = {one: noon.run(firing.fire, one).jobs[0] for one in (mine, acme, beta)}
    assert {one: noon.job(job_id).tenant for one, job_id in made.items()} == {mine: "", acme: "acme", beta: "beta"}
    assert noon.job(made[acme]).created_by == "schedule:nightly"
    runs = noon.read(schedules.runs_of, [acme, mine, key("nobody")], 5)
    assert {one: [run.job_id for run in of] for one, of in runs.items()} == {acme: [made[acme]], mine: [made[mine]]}
    noon.run(schedules.pause_schedule, acme)
    noon.run(schedules.delete_schedule, beta)
    assert [(one.key, str(one.state)) for one in noon.read(schedules.list_schedules)] == [
        (mine, "active"), (acme, "paused"),
    ]  # fmt: skip
    assert noon.sql("select tenant from holdfast_cron_tick order by tenant") == [("",), ("acme",)]


def test_what_is_done_to_a_schedule_is_told_with_its_name_and_its_tenant(noon: World) -> None:
    noon.run(schedules.create_schedule, plan(tenant="acme"))
    noon.run(schedules.pause_schedule, key(tenant="acme"))
    assert noon.sql("select action, target, tenant from holdfast_audit order by id") == [
        ("schedule.create", "nightly", "acme"), ("schedule.pause", "nightly", "acme"),
    ]  # fmt: skip


def test_two_tenants_jobs_of_one_tick_start_at_times_of_their_own(noon: World) -> None:
    starts = set()
    for tenant in ("", "acme", "beta"):
        noon.run(schedules.create_schedule, plan(tenant=tenant, jitter=600 * SECOND))
    noon.clock.advance(1800)
    for tenant in ("", "acme", "beta"):
        starts.add(noon.job(noon.run(firing.fire, key(tenant=tenant)).jobs[0]).not_before)
    assert len(starts) == 3


ACTS: dict[str, Callable[[StoredSchedules], object]] = {
    "pause": lambda acme: acme.pause("nightly"),
    "resume": lambda acme: acme.resume("nightly"),
    "edit": lambda acme: acme.edit("nightly", cron="30 * * * *"),
    "run now": lambda acme: acme.run_now("nightly"),
    "backfill": lambda acme: acme.backfill("nightly", *(datetime(2024, 5, day, tzinfo=UTC) for day in (1, 2))),
    "delete": lambda acme: acme.delete("nightly"),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_tenants_act_does_not_reach_anothers_schedule_that_takes_the_name_meanwhile(
    two_worlds: tuple[World, World], act: Callable[[StoredSchedules], object]
) -> None:
    first, second = two_worlds
    set_clock(first, "2024-05-03T11:30")
    untouched = (1, ScheduleState.ACTIVE, "0 * * * *", 0, None)

    async def replace_it(tx: Tx) -> None:
        await schedules.delete_schedule(tx, key(tenant="acme"))
        await schedules.create_schedule(tx, plan(tenant="beta"))

    for _ in range(10):
        first.run(schedules.create_schedule, plan(tenant="acme"))
        all_at_once([lambda: _tried(act, first.store), lambda: _tried_op(second.store, Op(replace_it))])
        theirs = second.read(schedules.list_schedules, "beta")
        assert [(s.version, s.state, s.expression, s.fired, s.last_job) for s in theirs] in ([], [untouched])
        for found in second.read(schedules.list_schedules):
            second.run(schedules.delete_schedule, found.key)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_whose_a_schedule_is_and_the_act_on_it_are_one_transaction(
    noon: World, act: Callable[[StoredSchedules], object]
) -> None:
    set_clock(noon, "2024-05-03T11:30")
    noon.run(schedules.create_schedule, plan(tenant="acme"))
    counted = Counted(noon.store)
    act(_view(counted))  # type: ignore[arg-type]
    assert counted.calls == ["write"]


class Counted:
    """A store that notes the transactions made with it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: list[str] = []

    def read(self, op: Op[object]) -> object:
        self.calls.append("read")
        return self._store.read(op)

    def write(self, op: Op[object]) -> object:
        self.calls.append("write")
        return self._store.write(op)


def _view(store: Store) -> StoredSchedules:
    return StoredSchedules(lambda: store, {}, lambda url: None, lambda request: None, Scope("acme"))


def _tried(act: Callable[[StoredSchedules], object], store: Store) -> None:
    with suppress(NotFound):  # the other was first
        act(_view(store))


def _tried_op(store: Store, op: Op[None]) -> None:
    with suppress(NotFound):  # it was deleted first
        store.write(op)
