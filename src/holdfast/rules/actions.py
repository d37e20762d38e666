"""The operator actions on jobs, each described once.

A `JobAction` says what an action takes, what it does to a job in its state, when to ask before it, and what each of its
results means in words. The client, the HTTP API, the pages, the command line, actions on many jobs and the audit are
made from it. `storage/ops/jobs/actions.py` has the statements; they repeat the rules as their guards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

from ..errors import InvalidInput
from ..model.access import ScopeName
from ..model.actions import Action, ActionResult, Order
from ..model.jobs import JobState
from ..names import check_duration, check_instant, check_name, check_priority, check_queue
from .lifecycle import MAX_GENERATION
from .reserved import check_open_queue

HELD: Final = "operator"
"""The reason of a job that an operator holds."""
_NOT_UNBLOCKED_BY_HAND: Final = frozenset({"dependencies", "budget_exhausted", "quota", "route"})
_S = JobState
_R = ActionResult

Kind: TypeAlias = Literal["flag", "priority", "queue", "name", "number", "duration", "delay", "instant"]
"""The kinds of parameters. Each surface has a type of its own for a kind."""
Meaning: TypeAlias = Literal["done", "later", "refused"]
"""The meaning of a result: as asked or so already; not yet, try again; not in this state."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The facts about a job on which an action depends."""

    id: str
    state: JobState
    queue: str
    route: int
    due: int | None
    reason: str | None
    generation: int
    held: str | None
    """The dedupe key that it would hold again."""
    twin: bool
    """True if another job holds that key."""
    linked: int = 0
    """Not 0 if other jobs or a flow depend on its end."""
    needed: bool = False
    """True if its flow has not ended, or a job waits for it."""
    cancelling: bool = False
    """True if its flow is being cancelled."""
    tenant: str = ""
    priority: int = 0
    owner: str | None = None
    epoch: int = 0
    asked: bool = False
    """True if it was asked to stop."""
    not_before: int = 0
    granted: bool = False
    """True if it is reserved for one worker."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """A question before an action: its title, what happens, and whether that is hard to undo."""

    title: str
    text: str
    danger: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of an action."""

    name: str
    kind: Kind
    about: str
    label: str = ""
    """The label of its field in a form."""
    option: str = ""
    """The option of the command line, where it is not `--name`."""
    metavar: str = ""
    required: bool = False
    default: float | None = None
    by_id: bool = False
    """True if it is meant for named jobs, not for a filter."""
    item: str = ""
    """For a flag: the action with it, as an item of the job's menu."""
    confirm: Confirm | None = None
    """For a flag: the question before that."""
    only: JobState | None = None
    """For a flag: the only state of a job in which it makes a difference."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result in words, which continue "the job"."""

    text: str
    meaning: Meaning = "done"

    def of(self, n: int) -> str:
        """Return the words for a number of jobs."""
        verb, space, rest = self.text.partition(" ")
        return self.text if n == 1 else f"{_PLURALS.get(verb, verb)}{space}{rest.replace(' its ', ' their ')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAction:
    """One operator action on jobs."""

    verb: Action
    about: str
    """Its description: the help of the command and of the HTTP operation."""
    label: str
    """The button."""
    past: str
    """The action in a job's history, and on the page after an action on many."""
    preview: str
    """Its description for many jobs."""
    decide: Callable[[JobFacts, Order], ActionResult]
    """The result that it has for a job. SQL statements repeat this as their guards."""
    outcomes: Mapping[ActionResult, Outcome]
    refusal: str | Callable[[JobFacts], str]
    """The states in which it is allowed, and what to do otherwise."""
    parameters: tuple[Parameter, ...] = ()
    one_of: tuple[str, ...] = ()
    """Parameters of which exactly one must be given."""
    scope: ScopeName = "operate"
    state: str = "ready"
    """The state of the job afterwards, for its history."""
    symbol: str = "retry"
    place: Literal["main", "button", "menu", "nowhere"] = "button"
    """Its place on the job's page."""
    in_bulk: bool = True
    """True if the list of jobs offers it."""
    confirm: Confirm | None = None
    reason: str = ""
    """The reason, where none is given. It is kept on the job."""
    undo: tuple[Action, str] | None = None
    """The action that takes it back, and the label of that."""
    before: tuple[str, ...] = ()
    """The facts that the audit keeps of a job before it."""
    many: str = ""
    """The words before "3 jobs", where they are not the label."""

    @property
    def slug(self) -> str:
        """The verb in paths and on the command line."""
        return self.verb.replace("_", "-")

    def order(self, given: Mapping[str, object], *, partial: bool = False) -> Order:
        """Return the action with its parameters, checked. InvalidInput for a wrong or superfluous one.

        Unless it is `partial`, as for a preview, also for a missing one.
        """
        known = {one.name: one for one in self.parameters}
        wanted = {name: value for name, value in given.items() if value is not None and value is not False}
        wanted = {one.name: one.default for one in self.parameters if one.default is not None} | wanted
        for name in wanted:
            if name not in known:
                raise InvalidInput(f"{name} does not belong to the action '{self.verb}'; leave it out")
        missing = [one.name for one in self.parameters if one.required and one.name not in wanted]
        if missing and not partial:
            raise InvalidInput(f"the action '{self.verb}' needs {' and '.join(missing)}")
        chosen = sum(name in wanted for name in self.one_of)
        if chosen > 1 or (self.one_of and not chosen and not partial):
            raise InvalidInput(f"the action '{self.verb}' needs either {' or '.join(self.one_of)}")
        checked: dict[str, Any] = {name: _CHECKS[known[name].kind](name, value) for name, value in wanted.items()}
        return Order(self.verb, **checked)

    def outcome(self, result: ActionResult) -> Outcome:
        """Return what a result means."""
        return self.outcomes.get(result) or _ANY[result]

    def offered(self, job: JobFacts) -> bool:
        """Return True if it makes sense for a job in its state."""
        result = self.decide(job, Order(self.verb))
        return result.changes and self.outcome(result).meaning == "done"

    def refuses(self, job: JobFacts) -> str:
        """Return why a job's state does not allow it."""
        state = f"{job.state} ({job.reason})" if job.reason else job.state
        why = self.refusal if isinstance(self.refusal, str) else self.refusal(job)
        return f"job {job.id} is {state}; {why.format(id=job.id)}"

    def given(self, order: Order) -> dict[str, Any]:
        """Return the parameters that were given, by name."""
        every = ((one.name, getattr(order, one.name)) for one in self.parameters)
        return {name: value for name, value in every if value is not None and value is not False}


def decide(job: JobFacts, order: Order) -> ActionResult:
    """Return the result that an action would have for a job."""
    return ACTIONS[order.action].decide(job, order)


# -- the rules


def _retry(job: JobFacts, order: Order) -> ActionResult:
    if not job.state.is_terminal or job.generation >= MAX_GENERATION or job.cancelling:
        return _R.NOT_ALLOWED
    return _R.KEY_TAKEN if job.twin else _R.RETRIED


def _not_retried(job: JobFacts) -> str:
    if not job.state.is_terminal:
        return "only a finished job can be retried; wait for its end, or cancel it first"
    if job.generation >= MAX_GENERATION:
        return f"it was retried {job.generation} times already; enqueue a new one"
    return "its flow is being cancelled; retry it when that has ended"


def _cancel(job: JobFacts, order: Order) -> ActionResult:
    if job.state.is_terminal:
        return _R.FINISHED
    if misfit := order.misfit(job.owner, job.epoch):
        return misfit
    if job.state is not _S.RUNNING or order.force:
        return _R.CANCELLED
    return _R.ALREADY if job.asked else _R.REQUESTED


def _delete(job: JobFacts, order: Order) -> ActionResult:
    if job.state is _S.RUNNING:
        return _R.REQUESTED
    if job.needed and job.state.is_terminal:
        return _R.NEEDED
    return _R.CANCELLED if job.state is _S.SUSPENDED or job.needed else _R.DELETED


def _run_now(job: JobFacts, order: Order) -> ActionResult:
    if job.state is _S.READY:
        return _R.DUE if job.due == 0 else _R.ALREADY_DUE
    unblocked = job.state is _S.BLOCKED and job.reason not in _NOT_UNBLOCKED_BY_HAND
    return _R.DUE if unblocked else _R.NOT_ALLOWED


def _reschedule(job: JobFacts, order: Order) -> ActionResult:
    if job.state is not _S.READY and not _is_held(job):
        return _R.NOT_ALLOWED
    return _R.ALREADY if order.at == job.not_before else _R.RESCHEDULED


def _set_priority(job: JobFacts, order: Order) -> ActionResult:
    if job.state not in (_S.READY, _S.BLOCKED, _S.SUSPENDED):
        return _R.NOT_ALLOWED
    return _R.ALREADY if job.priority == order.priority else _R.CHANGED


def _move(job: JobFacts, order: Order) -> ActionResult:
    if job.state not in (_S.READY, _S.BLOCKED):
        return _R.NOT_ALLOWED
    return _R.ALREADY if job.queue == order.queue else _R.MOVED


def _hold(job: JobFacts, order: Order) -> ActionResult:
    if _is_held(job):
        return _R.ALREADY
    return _R.HELD if job.state is _S.READY else _R.NOT_ALLOWED


def _release(job: JobFacts, order: Order) -> ActionResult:
    if _is_held(job):
        return _R.RELEASED
    return _R.NOT_ALLOWED if job.state is _S.BLOCKED or job.state.is_terminal else _R.ALREADY


def _revoke(job: JobFacts, order: Order) -> ActionResult:
    if job.state is not _S.RUNNING or job.owner is None:
        return _R.NO_ACTIVE_LEASE
    if misfit := order.misfit(job.owner, job.epoch):
        return misfit
    return _R.CANCELLED if job.asked else _R.REVOKED


def _grant(job: JobFacts, order: Order) -> ActionResult:
    return _R.GRANTED if job.state in (_S.READY, _S.BLOCKED, _S.SUSPENDED) else _R.NOT_ALLOWED


def _withdraw(job: JobFacts, order: Order) -> ActionResult:
    return _R.WITHDRAWN if job.granted else _R.NOT_GRANTED


def _is_held(job: JobFacts) -> bool:
    return job.state is _S.BLOCKED and job.reason == HELD


# -- the checks of the parameters


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} is {value!r}; give True or False")
    return value


def _number(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(f"{name} is {value!r}; give a whole number")
    return value


def _duration(name: str, value: object) -> int:
    micros = check_duration(name, value)
    if micros == 0:
        raise InvalidInput(f"{name} is 0; give more seconds")
    return micros


def _instant(name: str, value: object) -> int:
    if not isinstance(value, str):
        return check_instant(name, value)
    try:
        return check_instant(name, datetime.fromisoformat(value))
    except ValueError:
        raise InvalidInput(f"{name} is {value!r}; write it such as 2026-11-15T09:00:00+00:00") from None


_CHECKS: Final[dict[Kind, Callable[[str, object], object]]] = {
    "flag": _flag,
    "priority": lambda _, value: check_priority(value),
    "queue": lambda _, value: check_open_queue(check_queue(value)),
    "name": check_name,
    "number": _number,
    "duration": _duration,
    "delay": check_duration,
    "instant": _instant,
}


# -- the actions

_PLURALS: Final = {"is": "are", "was": "were", "has": "have", "does": "do", "runs": "run"}
_ELSEWHERE: Final = {
    _R.DIFFERENT_OWNER: Outcome("is held by another worker; nothing changed", "refused"),
    _R.EPOCH_MOVED: Outcome("is held by another run now; nothing changed", "refused"),
}
_ANY: Final = {
    _R.NOT_ALLOWED: Outcome("is unchanged: this state does not allow it", "refused"),
    _R.MISSING: Outcome("does not exist", "refused"),
}
_OWNER: Final = Parameter(name="owner", kind="name", about="Only if this worker runs it.", metavar="WORKER", by_id=True)
_EPOCH: Final = Parameter(name="epoch", kind="number", about="Only under this epoch.", metavar="N", by_id=True)

_RETRY: Final = JobAction(
    verb=Action.RETRY,
    about="""Run finished jobs again: attempts are reset, their history is kept.

    A durable job resumes from its recorded steps. A job can be retried ten times, but not while another live job has
    its dedupe key.""",
    label="Retry",
    past="Retried",
    preview="The jobs run again from their first attempt; their history is kept.",
    decide=_retry,
    outcomes={
        _R.RETRIED: Outcome("runs again, with attempts from zero"),
        _R.KEY_TAKEN: Outcome("is not retried: an unfinished job has the same dedupe key", "refused"),
    },
    refusal=_not_retried,
    parameters=(
        Parameter(
            name="fresh",
            kind="flag",
            about="Discard the recorded steps: all of them run again.",
            item="Retry from the first step",
            confirm=Confirm("Retry from the first step?", "The recorded results of its steps are discarded."),
        ),
    ),
    place="main",
)

_CANCEL: Final = JobAction(
    verb=Action.CANCEL,
    about="""Cancel waiting jobs; ask running ones to stop, or end them now with `force`.

    A job that succeeds within its grace period stays succeeded. With an `owner` or an `epoch`, only if that run holds
    the job.""",
    label="Cancel",
    past="Cancelled",
    preview="Waiting jobs end now; running jobs are asked to stop.",
    decide=_cancel,
    outcomes={
        _R.CANCELLED: Outcome("is cancelled"),
        _R.REQUESTED: Outcome("is running and was asked to stop"),
        _R.ALREADY: Outcome("was already asked to stop"),
        _R.FINISHED: Outcome("had already finished; nothing changed", "refused"),
        **_ELSEWHERE,
    },
    refusal="only a job that has not finished can be cancelled",
    parameters=(
        Parameter(
            name="force",
            kind="flag",
            about="End running jobs immediately, without waiting for their handlers.",
            label="Force: end running jobs immediately, without waiting for them to stop",
            item="Force cancel",
            confirm=Confirm(
                "Force cancel this job?",
                "It is marked cancelled immediately; whatever its worker still does is ignored.",
                danger=True,
            ),
            only=_S.RUNNING,
        ),
        _OWNER,
        _EPOCH,
    ),
    state="cancelled",
    symbol="cancel",
    confirm=Confirm(
        "Cancel this job?", "A running job is asked to stop; if it succeeds within its grace period, that still counts."
    ),
    reason="cancelled",
    undo=(Action.RETRY, "run them again"),
)

_DELETE: Final = JobAction(
    verb=Action.DELETE,
    about="""Delete jobs and their history.

    A running job is asked to stop instead, and one that waits or that others depend on is cancelled: delete it again
    after that. A finished member of an unfinished flow is needed, and stays.""",
    label="Delete",
    past="Deleted",
    preview="The jobs and their history are removed. This cannot be undone.",
    decide=_delete,
    outcomes={
        _R.DELETED: Outcome("is deleted"),
        _R.CANCELLED: Outcome("is cancelled instead; delete it again later", "later"),
        _R.REQUESTED: Outcome("is running and was asked to stop; delete it again after that", "later"),
        _R.NEEDED: Outcome("is part of an unfinished flow, or another job waits for it; delete it later", "refused"),
    },
    refusal="it cannot be deleted now",
    state="cancelled",
    symbol="delete",
    place="menu",
    confirm=Confirm("Delete this job?", "The job and its history are removed. This cannot be undone.", danger=True),
)

_RUN_NOW: Final = JobAction(
    verb=Action.RUN_NOW,
    about="Start delayed, retrying and parked jobs now.",
    label="Run now",
    past="Started early",
    preview="Delayed and retrying jobs start as soon as a worker is free.",
    decide=_run_now,
    outcomes={_R.DUE: Outcome("is due now"), _R.ALREADY_DUE: Outcome("was already due")},
    refusal="only a ready or parked job can be run now; see: holdfast jobs explain {id}",
    symbol="bolt",
    place="main",
)

_RESCHEDULE: Final = JobAction(
    verb=Action.RESCHEDULE,
    about="""Give ready or held jobs a new time: `at` an instant, or after a `delay`.

    A time in the past makes them due now. A held job keeps its new time for when it is released.""",
    label="Reschedule",
    past="Rescheduled",
    preview="The jobs start at the new time, as soon as a worker is free.",
    decide=_reschedule,
    outcomes={_R.RESCHEDULED: Outcome("has a new time"), _R.ALREADY: Outcome("has that time already")},
    refusal="only a ready or held job can get a new time; see: holdfast jobs explain {id}",
    parameters=(
        Parameter(
            name="at",
            kind="instant",
            about="The time, with its zone, such as 2026-11-15T09:00+00:00.",
            label="At, in UTC",
            metavar="TIME",
        ),
        Parameter(
            name="delay", kind="delay", about="The time from now, such as 30m.", label="Or after", metavar="DURATION"
        ),
    ),
    one_of=("at", "delay"),
    symbol="schedules",
    before=("not_before",),
)

_SET_PRIORITY: Final = JobAction(
    verb=Action.SET_PRIORITY,
    about="Change the priority of jobs that have not started; higher runs first.",
    label="Set priority",
    past="Priority changed",
    preview="Higher runs first.",
    decide=_set_priority,
    outcomes={_R.CHANGED: Outcome("has the new priority"), _R.ALREADY: Outcome("has that priority already")},
    refusal="only the priority of a job that waits can be changed",
    parameters=(
        Parameter(
            name="priority",
            kind="priority",
            about="A whole number. Higher runs first; the default is 0.",
            label="Priority",
            option="--to",
            metavar="N",
            required=True,
        ),
    ),
    symbol="up",
    before=("priority",),
    many="Change the priority of",
)

_MOVE: Final = JobAction(
    verb=Action.MOVE,
    about="Move jobs that have not started to another queue.",
    label="Move",
    past="Moved to another queue",
    preview="The jobs wait in the target queue for its workers.",
    decide=_move,
    outcomes={_R.MOVED: Outcome("is moved to the other queue"), _R.ALREADY: Outcome("is already in that queue")},
    refusal="only a job that has not started can be moved; enqueue it again in the other queue",
    parameters=(
        Parameter(
            name="queue",
            kind="queue",
            about="The target queue.",
            label="Queue",
            option="--to",
            metavar="QUEUE",
            required=True,
        ),
    ),
    symbol="move",
    undo=(Action.MOVE, "move them back to {queue}"),
    before=("queue",),
)

_HOLD: Final = JobAction(
    verb=Action.HOLD,
    about="Keep ready jobs from starting until they are released.",
    label="Hold",
    past="Held",
    preview="The jobs do not start until they are released.",
    decide=_hold,
    outcomes={_R.HELD: Outcome("is held"), _R.ALREADY: Outcome("is already held")},
    refusal="only a ready job can be held; to stop it: holdfast jobs cancel {id}, or revoke its lease",
    state="blocked",
    symbol="hold",
    undo=(Action.RELEASE, "release them"),
    before=("reason",),
)

_RELEASE: Final = JobAction(
    verb=Action.RELEASE,
    about="Release held jobs: they start when they are due.",
    label="Release",
    past="Released",
    preview="Held jobs can start again when they are due.",
    decide=_release,
    outcomes={_R.RELEASED: Outcome("is released"), _R.ALREADY: Outcome("is not held; nothing changed")},
    refusal="only a held job can be released; see: holdfast jobs explain {id}",
    symbol="play",
    place="main",
    undo=(Action.HOLD, "hold them again"),
)

_REVOKE: Final = JobAction(
    verb=Action.REVOKE,
    about="""Take running jobs from their workers. They are ready again, without using an attempt.

    With an `owner` or an `epoch`, only if that run holds the job.""",
    label="Revoke lease",
    past="Lease revoked",
    preview="Whatever the workers still do is ignored. The jobs are ready again, without using an attempt.",
    decide=_revoke,
    outcomes={
        _R.REVOKED: Outcome("has its lease revoked and is ready again"),
        _R.CANCELLED: Outcome("has its lease revoked and is cancelled, as it was asked before"),
        _R.NO_ACTIVE_LEASE: Outcome("is not running; nothing changed"),
        **_ELSEWHERE,
    },
    refusal="only a running job has a lease",
    parameters=(_OWNER, _EPOCH),
    symbol="workers",
    place="menu",
    in_bulk=False,
    confirm=Confirm(
        "Revoke the lease?",
        "Whatever its worker still does is ignored. The job is ready again, without using an attempt.",
    ),
    before=("owner", "epoch"),
    many="Revoke the leases of",
)

_GRANT: Final = JobAction(
    verb=Action.GRANT,
    about="""Reserve waiting jobs for one worker, once; after `expires` seconds any worker may claim them again.

    An existing grant is replaced.""",
    label="Grant",
    past="Granted to one worker",
    preview="Only that worker can claim the jobs, until the grant expires.",
    decide=_grant,
    outcomes={_R.GRANTED: Outcome("is reserved for that worker")},
    refusal="only one that waits can be granted to a worker; cancel or retry it first",
    parameters=(
        Parameter(
            name="worker",
            kind="name",
            about="The worker's name, as in `workers list`.",
            label="Worker",
            metavar="NAME",
            required=True,
        ),
        Parameter(name="expires", kind="duration", about="Duration of the grant.", label="For", default=30.0),
    ),
    symbol="workers",
    place="nowhere",
    in_bulk=False,
)

_WITHDRAW: Final = JobAction(
    verb=Action.WITHDRAW,
    about="Withdraw grants: any worker may claim the jobs now.",
    label="Withdraw grant",
    past="Grant withdrawn",
    preview="Any worker may claim the jobs.",
    decide=_withdraw,
    outcomes={
        _R.WITHDRAWN: Outcome("is open to every worker"),
        _R.NOT_GRANTED: Outcome("was not granted; nothing changed"),
    },
    refusal="it has no grant",
    symbol="workers",
    place="nowhere",
    in_bulk=False,
)

ACTIONS: Final[Mapping[Action, JobAction]] = {
    one.verb: one
    for one in (
        _RETRY, _RELEASE, _RUN_NOW, _HOLD, _CANCEL, _REVOKE, _RESCHEDULE, _SET_PRIORITY, _MOVE, _DELETE,
        _GRANT, _WITHDRAW,
    )
}  # fmt: skip
"""Every action, in the order in which pages offer them."""


def action_of(verb: str) -> JobAction:
    """Return the action of a verb. InvalidInput if there is none."""
    found = ACTIONS.get(Action(verb)) if verb in list(Action) else None
    if found is None:
        raise InvalidInput(f"there is no action {verb!r}; use one of {', '.join(Action)}")
    return found
