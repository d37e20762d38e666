"""Leadership for work that one worker is enough for: a leased row per role, by the database's clock.

Leadership saves work and nothing else: whatever a leader does must be safe when two do it at once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ...port import Tx
from ...statements import sql

RESIGNED: Final = "leader"


async def open_roles(tx: Tx, roles: Collection[str], holder: str, lease: int) -> tuple[set[str], int]:
    """Return the roles that `holder` has or could take now, and in how many microseconds the next could be free.

    A read, to avoid a write that only finds that another worker leads.
    """
    found = await tx.all(sql.leaders)
    taken = {role: left for role, other, left in found if role in roles and other != holder and 0 < left <= 2 * lease}
    return set(roles) - taken.keys(), min(taken.values(), default=0)


async def leaders(tx: Tx) -> dict[str, str]:
    """Return the leader of each role."""
    return {role: holder for role, holder, left in await tx.all(sql.leaders) if left > 0}


async def lead(tx: Tx, roles: Collection[str], holder: str, lease: int) -> set[str]:
    """Take free roles and renew one's own; return the roles that `holder` has for `lease` microseconds from now."""
    # In one order by every worker, so that two that lead several roles never wait for each other.
    return {role for role in sorted(roles) if await tx.one(sql.take_lead, role=role, holder=holder, lease=lease)}


async def resign(tx: Tx, holder: str) -> set[str]:
    """Give up every role at once, rather than when the lease ends."""
    left = {role for (role,) in await tx.all(sql.resign_lead, holder=holder)}
    if left:
        tx.ring(RESIGNED)
    return left
