"""The keys that sign tokens of waitpoints: `app.keys`. Each method has an async version; no secret is ever shown."""

from __future__ import annotations

import builtins
import secrets
from collections.abc import Callable
from datetime import timedelta

from ..ids import token
from ..model.access import Key
from ..names import check_duration
from ..rules.signals import SECRET_BYTES, check_kid, check_secret
from ..storage.ops.signals import keys
from ..storage.port import Op, Store
from .calls import composed, reads, writes
from .lines import Line

_DAY = 86_400.0


class Keys:
    """The signing keys of one store. It makes a key for its first waitpoint; seed one to share it between stores."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    @writes
    def seed(self, kid: str, secret: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Store the first key, of 64 hexadecimal digits; False if the store has it. KeyConflict if it has another."""
        name, text = check_kid(kid), check_secret(secret)
        return Op(lambda tx: keys.seed(tx, name, text, actor=actor, reason=reason))

    aseed = seed.awaiting

    @composed
    async def rotate(
        self,
        line: Line,
        kid: str | None = None,
        secret: str | None = None,
        *,
        grace: float | timedelta = _DAY,
        actor: str = "app",
        reason: str = "",
    ) -> str:
        """Sign with another key from now on, a random one unless it is given; return its name.

        Tokens signed with the previous key stay valid for at least `grace` seconds, and until the last has expired.
        Repeating a call that names its key changes nothing.
        """
        name = f"k-{token()[:8]}" if kid is None else check_kid(kid)
        text = secrets.token_hex(SECRET_BYTES) if secret is None else check_secret(secret)
        micros = check_duration("the grace", grace)
        await line.write(Op(lambda tx: keys.rotate(tx, name, text, actor=actor, reason=reason, grace=micros)))
        return name

    arotate = rotate.awaiting

    @writes
    def revoke(self, kid: str, *, actor: str = "app", reason: str = "") -> Op[None]:
        """Refuse all tokens that a retired key has signed. Rotate first to revoke the active one."""
        name = check_kid(kid)
        return Op(lambda tx: keys.revoke(tx, name, actor=actor, reason=reason))

    arevoke = revoke.awaiting

    @reads
    def list(self) -> Op[builtins.list[Key]]:
        """Return every key, oldest first, by a fingerprint instead of its secret."""
        return Op(keys.list_keys)

    alist = list.awaiting
