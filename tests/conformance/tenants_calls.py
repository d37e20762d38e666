"""Every call that one tenant could aim at what is the other's.

The calls are found by looking at the view itself: a method that takes what is known here is covered without a word, and
one that takes something new fails until it is said what to give it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random
from typing import Any

import holdfast
from holdfast import App
from holdfast.client.tenants import Scoped
from holdfast.errors import HoldfastError
from holdfast.flows.flow import extension_of
from holdfast.model import FlowFilter, JobFilter, Outgoing
from holdfast.model.flows import Edge
from holdfast.model.jobs import Ended, JobState
from holdfast.rules.steps import Call
from holdfast.tasks.context import JobInfo, Stop
from holdfast.tasks.job import Job

from .tenants_kit import THEM, US, WORD, Stage

MISSING = "01m0000000000000000missing"
_DAY = timedelta(days=1)

# -- what can be called


@dataclass(frozen=True)
class Method:
    """One of the view's methods, by its name there."""

    path: str

    def of(self, view: Scoped) -> Callable[..., Any]:
        found: Any = view
        for name in self.path.split("."):
            name, _, called_with = name.removesuffix(")").partition("(")
            found = getattr(found, name)
            found = found(called_with) if called_with else found
        return found  # type: ignore[no-any-return]

    @property
    def asks_for(self) -> set[str]:
        """The parameters that name a job or a flow."""
        return {"job_id", "job", "target", "flow_id", "endpoint_id", "delivery_id"} & inspect.signature(
            self.of(_anybody())
        ).parameters.keys()


def _anybody() -> Scoped:
    app = App(":memory:")
    app.declare_destination("cloud")
    return app.scoped(US)


def survey() -> list[Method]:
    """Every public method of the view and of its parts."""
    view = _anybody()
    found: list[str] = []
    seen: set[int] = set()
    for name, part in sorted(_public(view), reverse=True):
        if inspect.ismethod(part):
            found.append(name)
        elif not isinstance(part, str) and id(part) not in seen:
            seen.add(id(part))
            found += [f"{name}.{inner}" for inner, one in sorted(_public(part)) if callable(one)]
            found += [f"{name}.__call__"] if callable(part) else []
    found += [f"outbox(cloud).{inner}" for inner, one in _public(view.outbox("cloud")) if callable(one)]
    return [Method(path) for path in sorted(found)]


def _public(thing: object) -> list[tuple[str, Any]]:
    return [(name, getattr(thing, name)) for name in dir(thing) if not name.startswith("_")]


class Unknown(Exception):
    """Nobody has said what to give for a parameter."""


def calls_of(method: Method, stage: Stage) -> Iterator[dict[str, Any]]:
    """Every way to aim it at what is theirs: each parameter in turn takes each of its values."""
    choices, optional = _choices(method, stage)
    base = {name: values[0] for name, values in choices.items()}
    meant = {name: values[0] for name, values in optional.items() if name in _MEANT}
    yield {**base, **meant}
    for name, values in {**choices, **optional}.items():
        for value in values:
            yield {**base, **({} if name in _INSTEAD else meant), name: value}


def random_call(method: Method, stage: Stage, random: Random) -> dict[str, Any]:
    """Any mixture of these values."""
    choices, optional = _choices(method, stage)
    given = {name: random.choice(values) for name, values in choices.items()}
    return given | {name: random.choice(values) for name, values in optional.items() if random.random() < 0.3}


def _choices(method: Method, stage: Stage) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """The values of the parameters that must be given, and of those that may be."""
    choices: dict[str, list[Any]] = {}
    optional: dict[str, list[Any]] = {}
    for name, parameter in inspect.signature(method.of(stage.view)).parameters.items():
        values = _values(method, name, stage)
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            optional |= {key: [value] for key, value in (values[0] if values else {}).items()}
        elif values is None:
            raise Unknown(f"{method.path}({name}): say in tenants_kit what to give, or that it is harmless")
        elif parameter.default is inspect.Parameter.empty or name in _ALWAYS:
            choices[name] = values
        elif values:
            optional[name] = values
    return choices, optional


_ALWAYS = {"timeout"}
_MEANT = {"ids"}
_INSTEAD = {"filter", "all"}
"""Who is meant by many: those that are named, or what these say instead."""
_HARMLESS = {
    "actor", "at_once", "best_effort", "connection", "cooldown", "count", "downstream", "dry_run", "epoch",
    "events", "every", "expires", "force", "fresh", "jitter", "kinds", "length", "limit", "missed", "on_failure",
    "on_success", "overlap", "payload", "policy", "queue", "reason", "secret", "since", "soft", "source", "tag",
    "tags", "target_kind", "task", "until", "whole", "window", "zone",
}  # fmt: skip


def _values(method: Method, name: str, stage: Stage) -> list[Any] | None:
    """What to give for a parameter, the aim first; [] leaves an optional one out."""
    for key in (f"{method.path}:{name}", f"{method.path.partition('.')[0]}:{name}", name):
        if key in _GIVEN:
            return _GIVEN[key](stage)
    return [] if name in _HARMLESS else None


def _jobs(stage: Stage) -> list[Any]:
    return list(stage.them.jobs.values())


def _handles(stage: Stage) -> list[Any]:
    return [*_jobs(stage), *(Job(stage.app.jobs, id) for id in stage.them.jobs.values())]


def _talk(stage: Stage, **options: Any) -> Any:
    return stage.app.tasks["talk"].options(**options).job("Oak")


def _requests(stage: Stage) -> list[Any]:
    return [
        _talk(stage, id=stage.them.jobs["ready"]),
        stage.app.tasks["talk"].options(id=stage.them.jobs["ready"]).job(WORD),
        _talk(stage, tenant=THEM),
        _talk(stage, dedupe_key="key", on_duplicate="replace"),
    ]


def _extension(stage: Stage) -> Any:
    info = JobInfo(stage.them.jobs["running"], "talk", "default", THEM, 1, 1, 0, 1, 0, worker="w", flow=stage.them.flow)
    extension = extension_of(stage.view.flows, info, lambda: Call("flow", "", "", 1, 1))
    extension.add(_talk(stage))
    return extension


def _their_flow(stage: Stage) -> Any:
    flow = stage.app.flow("theirs", tenant=THEM)
    flow.add(_talk(stage))
    return flow


def _info(stage: Stage) -> JobInfo:
    return JobInfo(stage.them.jobs["running"], "talk", "default", THEM, 1, 1, 0, 1, 0, worker="w")


_GIVEN: dict[str, Callable[[Stage], list[Any]]] = {
    "jobs.pickled_by:task": lambda stage: ["talk"],
    "job_id": _jobs,
    "job": _handles,
    "target": lambda s: [*_handles(s), s.them.token],
    "audit:target": lambda s: [s.them.jobs["held"]],
    "flow_id": lambda s: [s.them.flow],
    "flows:id": lambda s: [s.them.flow, "mine"],
    "webhooks:id": lambda s: [s.them.endpoint, "mine"],
    "flow_ids": lambda s: [[s.them.flow, MISSING]],
    "keys": lambda s: [[(THEM, "theirs"), (THEM, "nightly"), ("", "nightly")]],
    "webhooks:ids": lambda s: [[s.them.endpoint, MISSING]],
    "waitpoint": lambda s: [one.id for one in s.app.signals.pending(tenant=THEM)],
    "outbox:names": lambda s: [["cloud", "theirs"]],
    "endpoint_id": lambda s: [s.them.endpoint],
    "delivery_id": lambda s: [s.them.delivery],
    "url": lambda s: ["https://example.org/"],
    "outbox:name": lambda s: ["cloud", "theirs"],
    "older_than": lambda s: [0],
    "apply": lambda s: [True],
    "outbox(cloud):data": lambda s: ["Oak"],
    "outbox(cloud):events": lambda s: [["Oak"], [Outgoing("Oak", id="mine")]],
    "outbox(cloud):id": lambda s: ["mine"],
    "outbox(cloud):kind": lambda s: ["order"],
    "webhooks:after": lambda s: s.app.scoped(THEM).webhooks.list(),
    "webhooks:before": lambda s: [s.them.delivery],
    "fingerprint": lambda s: [s.them.fingerprint],
    "tenant": lambda s: [THEM],
    "before": lambda s: [s.them.jobs["ready"], MISSING],
    "signals:before": lambda s: [5],
    "after": lambda s: [s.them.jobs["done"], MISSING],
    "streams:after": lambda s: [],
    "stream:after": lambda s: [],
    "astream:after": lambda s: [],
    "budgets:after": lambda s: [s.app.scoped(THEM).budgets.get("team")],
    "quotas:after": lambda s: [s.app.scoped(THEM).quotas.get("calls")],
    "events:after": lambda s: ["start"],
    "events:job": _jobs,
    "events:flow": lambda s: [s.them.flow],
    "events.read:wanted": lambda s: [{"job": s.them.jobs["done"]}],
    "events.aread:wanted": lambda s: [{"flow": s.them.flow}],
    "owner": lambda s: [s.app.jobs.get(s.them.jobs["running"]).owner],
    "wanted": lambda s: [JobFilter(tenant=THEM), JobFilter(limit=10_000), JobFilter(before=s.them.jobs["ready"])],
    "flows:wanted": lambda s: [FlowFilter(tenant=THEM), FlowFilter(limit=1000), FlowFilter(before=s.them.flow)],
    "request": _requests,
    "requests": lambda s: [[one] for one in _requests(s)],
    "flows:requests": lambda s: [{"more": one} for one in (_talk(s), *_requests(s))],
    "flow": lambda s: [s.app.flows.find(FlowFilter(tenant=THEM))[0]],
    "flows.create:flow": lambda s: [_their_flow(s)],
    "flows.acreate:flow": lambda s: [_their_flow(s)],
    "extension": lambda s: [_extension(s)],
    "edges": lambda s: [[Edge(s.them.jobs["ready"], s.them.jobs["held"])]],
    "revision": lambda s: [1],
    "ended": lambda s: [Ended(s.us.jobs["done"], JobState.SUCCEEDED, '"Oak"', None, None)],
    "jobs.decode_result:task": lambda s: ["talk"],
    "timeout": lambda s: [0.01],
    "info": lambda s: [_info(s)],
    "stop": lambda s: [Stop()],
    "action": lambda s: ["cancel", "delete", "retry", "run_now", "hold", "release"],
    "audit:action": lambda s: ["job.hold"],
    "filter": lambda s: [{"tenant": THEM}, {"task": "talk"}],
    "ids": lambda s: [_jobs(s)],
    "all": lambda s: [True],
    "priority": lambda s: [9],
    "jobs.move:queue": lambda s: ["elsewhere"],
    "jobs.amove:queue": lambda s: ["elsewhere"],
    "jobs.bulk:priority": lambda s: [],
    "jobs.abulk:priority": lambda s: [],
    "jobs:at": lambda s: [],
    "jobs:delay": lambda s: [60],
    "jobs.bulk:delay": lambda s: [],
    "jobs.abulk:delay": lambda s: [],
    "jobs.bulk:worker": lambda s: [],
    "jobs.abulk:worker": lambda s: [],
    "parameters": lambda s: [],
    "worker": lambda s: ["somebody"],
    "jobs": lambda s: [s.app.jobs.find(JobFilter(tenant=THEM))],
    "from_step": lambda s: ["say"],
    "name": lambda s: ["theirs", f"{THEM}/nightly"],
    "schedules:arguments": lambda s: [{"word": "Oak"}],
    "schedules:cron": lambda s: ["0 4 * * *"],
    "schedules:every": lambda s: [120],
    "schedules:max_missed": lambda s: [7],
    "artifacts:name": lambda s: ["file", "completion"],
    "signals:name": lambda s: ["note"],
    "signal:name": lambda s: ["note"],
    "asignal:name": lambda s: ["note"],
    "key": lambda s: [f"key-{THEM}"],
    "needs": lambda s: ["any"],
    "needed": lambda s: [],
    "rest": lambda s: [],
    "amounts": lambda s: [{"tokens": 1}],
    "more": lambda s: [],
    "limits": lambda s: [{"tokens": 5_000}],
    "within": lambda s: [f"tenant:{THEM}", f"{THEM}/team"],
    "concurrency": lambda s: [3],
    "schedules:job": lambda s: [_talk(s), _talk(s, tenant=THEM)],
    "schedules.create:when": lambda s: [{"every": 60}],
    "schedules.acreate:when": lambda s: [{"every": 60}],
    "start": lambda s: [datetime(2020, 1, 1, tzinfo=UTC)],
    "artifacts:start": lambda s: [],
    "end": lambda s: [datetime(2020, 1, 1, tzinfo=UTC) + _DAY],
    "how": lambda s: [],
    "changes": lambda s: [{"priority": 3}],
}


# -- what came of it


@dataclass(frozen=True)
class Answer:
    """What a call gave, as text, or how it was refused."""

    text: str
    refusal: type[HoldfastError] | None = None


def ask(method: Method, stage: Stage, given: dict[str, Any]) -> Answer:
    """Call it, awaiting or iterating as needed."""
    try:
        return Answer(repr(_whole(method.of(stage.view)(**given), stage)))
    except HoldfastError as error:
        return Answer(f"{error} {vars(error)}", type(error))


def _whole(answer: Any, stage: Stage) -> Any:
    if inspect.iscoroutine(answer):
        return _whole(stage.loop.run(answer), stage)
    if isinstance(answer, AsyncIterator):
        return stage.loop.run(_collect(answer))
    if isinstance(answer, Iterator) or type(answer).__name__ == "Feed":
        return list(islice(answer, 100))
    if isinstance(answer, (holdfast.Job, holdfast.flows.FlowHandle)) and not isinstance(answer, holdfast.Flow):
        return [answer, _tried(answer.status)]
    return answer


def _tried(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except HoldfastError as error:
        return error


async def _collect(answer: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in answer]


def spoken(given: dict[str, Any]) -> str:
    """What the caller has said, and may hear again."""
    return " ".join(f"{value!r} {getattr(value, 'holder', '')!r}" for value in given.values())


def without_ids(answer: Answer, *names: str) -> tuple[str, type[HoldfastError] | None]:
    """What remains of an answer when it does not matter who was asked for."""
    text = answer.text
    for name in names:
        text = text.replace(name, "ID")
    return re.sub(r"0x[0-9a-f]+", "", text), answer.refusal
