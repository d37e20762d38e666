"""Names that Holdfast uses itself. A caller that could use them would act as the engine."""

from __future__ import annotations

from typing import Final

from ..errors import ReservedName
from ..model.limits import TENANT_BREAKER
from ..model.outbox import PREFIX
from ..model.webhooks import BREAKER, QUEUE, TASK
from ..names import CREATOR_BYTES, check_name

_SCOPES: Final = (BREAKER, TENANT_BREAKER)
_CREATORS: Final = ("token:", "schedule:", "job:")


def is_own_queue(name: str) -> bool:
    """Return whether only the engine puts jobs into this queue."""
    return name == QUEUE or name.startswith(PREFIX)


def check_open_queue(name: str) -> str:
    """Return the queue; ReservedName if it is the engine's."""
    if is_own_queue(name):
        raise ReservedName("queue", name, "choose another queue; events go into an outbox by app.outbox(…).put")
    return name


def check_open_task(name: str) -> str:
    """Return the task's name; ReservedName if it is the engine's."""
    if name == TASK or name.startswith(PREFIX):
        raise ReservedName("task", name, "choose another name; events go into an outbox by app.outbox(…).put")
    return name


def check_open_scope(what: str, name: str) -> str:
    """Return the name of a breaker or of a key; ReservedName if it is the engine's."""
    if name.startswith(_SCOPES):
        raise ReservedName(what, name, "choose a name with another beginning")
    return name


def check_creator(name: object) -> str:
    """Check the name of the creator; it must not look like a token, a schedule, a job or the engine."""
    text = check_name("created_by", name, limit=CREATOR_BYTES)
    if text == "engine" or text.startswith(_CREATORS):
        raise ReservedName("created_by", text, "write another beginning, such as user:ada")
    return text
