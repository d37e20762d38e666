"""What the end of a job means to those who wait for it: members of its flow, suspended jobs, the flow itself."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import IllegalMove, JobEnded, SignalConflict
from holdfast.model.flows import FlowSpec
from holdfast.model.signals import Wait
from holdfast.rules.lifecycle import Event

from .state import Edge, Flow, Job, Model, S, Waiting

_MET = {"success": {S.SUCCEEDED}, "failure": {S.FAILED, S.EXPIRED}}


def add_flow(model: Model, spec: FlowSpec) -> None:
    """Its members are enqueued already; these wait from now on."""
    model.flows[spec.id] = Flow()
    model.edges += [Edge(edge.upstream, edge.downstream, edge.policy) for edge in spec.edges]
    behind = {edge.downstream for edge in spec.edges}
    for member in spec.members:
        job = model.jobs[member.spec.id]
        job.flow, job.linked = spec.id, 1
        if job.id in behind:
            job.join = member.join
            job.move(Event.BLOCK, S.BLOCKED)
            job.due, job.reason = None, "dependencies"


def tell(model: Model, ended: Sequence[Job]) -> None:
    """These have ended, or have not; whoever waits for those that have goes on, or never will."""
    left = [job for job in ended if job.linked and job.state.is_terminal]
    while left:
        job = left.pop(0)
        for edge in model.edges:
            if edge.upstream == job.id and edge.met is None:
                edge.met = job.state in _MET[edge.policy] if edge.policy != "any" else True
        left += _settle(model, [edge.downstream for edge in model.edges if edge.upstream == job.id])
        _wake_waiters(model, job)
        _end_flow(model, job.flow)


def retried(model: Model, jobs: Sequence[Job]) -> None:
    """These run again, and wait again for what they had not got."""
    ids = {job.id for job in jobs}
    for edge in model.edges:
        if edge.upstream in ids or (edge.downstream in ids and edge.met is False and edge.upstream in model.jobs):
            edge.met = None
    for flow in {model.flows[job.flow].finished and job.flow for job in jobs if job.flow} - {False}:
        model.flows[str(flow)] = Flow()
    waiting = [job for job in jobs if job.join is not None and _counted(model, job)[0] > 0]
    for job in waiting:
        job.move(Event.BLOCK, S.BLOCKED)
        job.due, job.reason = None, "dependencies"
    tell(model, _settle(model, [job.id for job in waiting]))


def cancel_flow(model: Model, flow_id: str, scope: int) -> None:
    """How far: 0 what waits for others, 1 what has not started in this generation, 2 everything."""
    model.flows[flow_id].cancelled = True
    ended: list[Job] = []
    for job in model.members(flow_id):
        waits = job.state is S.BLOCKED and job.reason == "dependencies"
        unbegun = job.ran_in != job.generation
        if job.state in (S.READY, S.BLOCKED, S.SUSPENDED) and (waits or scope >= 2 or (scope and unbegun)):
            job.move(Event.CANCEL, S.CANCELLED)
            job.cancel = True
            job.ends("cancelled", model.now)
            ended.append(job)
        elif job.state is S.RUNNING and scope == 2:
            job.cancel, job.cancel_reason = True, job.cancel_reason or "cancelled"
    tell(model, ended)
    _end_flow(model, flow_id)


def is_needed(model: Model, job: Job) -> bool:
    """Whether its flow has not ended, or a job that has not ended was made to wait for it."""
    of_flow = job.flow is not None and not model.flows[job.flow].finished
    waiters = [model.jobs[down] for up, down in model.waits if up == job.id and down in model.jobs]
    return bool(job.linked) and (of_flow or any(not waiter.state.is_terminal for waiter in waiters))


def forget(model: Model, job: Job) -> None:
    """It is deleted. What it came to still counts for those behind it."""
    del model.jobs[job.id]
    model.edges = [edge for edge in model.edges if edge.downstream != job.id]
    model.waits = {pair: met for pair, met in model.waits.items() if pair[1] != job.id}
    model.purse.short.pop(job.id, None)


# -- suspended jobs


def suspend(model: Model, job: Job, wait: Wait) -> None:
    """It has just been suspended; where what it waits for is there it goes on at once."""
    if wait.key in job.answered:
        _make_ready(model, job)
        return
    timeout_at = None if wait.timeout is None else model.now + wait.timeout
    job.wait = Waiting(wait.key, wait.condition.names, bool(wait.jobs), timeout_at, wait.on_timeout)
    if _take_letter(job):
        go_on(model, job)
    elif wait.jobs:
        _drop_waits(model, job)
        live = [model.jobs[id] for id in wait.jobs if id in model.jobs and not model.jobs[id].state.is_terminal]
        for upstream in live:
            upstream.linked = 1
            model.waits[upstream.id, job.id] = False
        if not live:
            go_on(model, job)


def send(model: Model, job_id: str, name: str, key: str | None) -> tuple[int, str, bool]:
    """The signal's number, what it did, and whether it was known."""
    job = model.job(job_id)
    if key in job.letters:
        seq, known = job.letters[str(key)]
        if known != name:
            raise SignalConflict(job_id, str(key))
        return seq, "stored", True
    if job.state.is_terminal:
        raise JobEnded(job_id, job.state)
    job.mailbox.append((name, None))
    if key is not None:
        job.letters[key] = (len(job.mailbox), name)
    if job.state is S.SUSPENDED and _take_letter(job):
        go_on(model, job)
        return len(job.mailbox), "resumed", False
    return len(job.mailbox), "stored", False


def resume(model: Model, job_id: str) -> None:
    job = model.job(job_id)
    if job.state is not S.SUSPENDED:
        raise IllegalMove(job_id)
    go_on(model, job)


def wake_due(model: Model) -> None:
    """Waits whose time is over end as they said."""
    for job in sorted(model.all(), key=lambda job: job.id):
        wait = job.wait
        if job.state is not S.SUSPENDED or wait is None or wait.timeout_at is None or wait.timeout_at > model.now:
            continue
        if wait.on_timeout == "resume":
            go_on(model, job)
        elif wait.on_timeout == "escalate":
            job.reason, wait.timeout_at = "escalated", None
        else:
            job.move(Event.GIVE_UP, {"fail": S.FAILED, "cancel": S.CANCELLED, "expire": S.EXPIRED}[wait.on_timeout])
            job.cancel = job.cancel or job.state is S.CANCELLED
            job.ends("wait_timeout", model.now)
            if wait.jobs:
                _drop_waits(model, job)
            tell(model, [job])


def go_on(model: Model, job: Job) -> None:
    assert job.wait is not None
    job.answered.add(job.wait.key)
    if job.wait.jobs:
        _drop_waits(model, job)
    _make_ready(model, job)


def _make_ready(model: Model, job: Job) -> None:
    job.move(Event.RESUME, S.READY)
    job.rests("resumed", model.now, model.now)
    job.wait = None


def _take_letter(job: Job) -> bool:
    """Read the first letter of a name that the job waits for."""
    assert job.wait is not None
    for n, (name, taken) in enumerate(job.mailbox):
        if taken is None and name in job.wait.names:
            job.mailbox[n] = (name, job.wait.key)
            return True
    return False


def _wake_waiters(model: Model, job: Job) -> None:
    waiters = {down for (up, down), met in model.waits.items() if up == job.id and not met}
    for id in sorted(waiters & set(model.jobs)):
        model.waits[job.id, id] = True
        waiter = model.jobs[id]
        over = all(met for (_, down), met in model.waits.items() if down == id)
        if over and waiter.state is S.SUSPENDED and waiter.wait and waiter.wait.jobs:
            go_on(model, waiter)


def _drop_waits(model: Model, job: Job) -> None:
    model.waits = {pair: met for pair, met in model.waits.items() if pair[1] != job.id}


# -- flows


def _settle(model: Model, ids: Sequence[str]) -> list[Job]:
    """Release those of these that have what they wait for; those that never will are skipped, and returned."""
    skipped: list[Job] = []
    for job in (model.jobs[id] for id in ids if id in model.jobs):
        if job.state is not S.BLOCKED or job.reason != "dependencies" or model.flows[str(job.flow)].cancelled:
            continue
        awaits, spare = _counted(model, job)
        if awaits <= 0:
            job.move(Event.UNBLOCK, S.READY)
            job.rank = max(job.not_before, model.now)
            job.reason, job.due = ("delay", 0) if job.not_before > model.now else ("new", job.mark)
        elif spare < 0:
            job.move(Event.SKIP, S.SKIPPED)
            job.ends("impossible", model.now)
            skipped.append(job)
            model.skipped += 1
    return skipped


def _counted(model: Model, job: Job) -> tuple[int, int]:
    """How many upstreams it still needs, and how many it can do without."""
    edges = [edge for edge in model.edges if edge.downstream == job.id]
    if job.join is None or not edges:
        return 0, 0
    needed = {"all": len(edges), "any": 1}.get(job.join.mode, job.join.needed)
    good, bad = (sum(edge.met is how for edge in edges) for how in (True, False))
    return needed - good, len(edges) - needed - bad


def _end_flow(model: Model, flow_id: str | None) -> None:
    if flow_id is None or model.flows[flow_id].finished:
        return
    flow, members = model.flows[flow_id], model.members(flow_id)
    if all(job.state.is_terminal for job in members):
        bad = any(job.state in (S.FAILED, S.EXPIRED, S.CANCELLED) for job in members)
        flow.finished, flow.outcome = True, "cancelled" if flow.cancelled else "failed" if bad else "succeeded"
