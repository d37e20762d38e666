"""Who does what one worker is enough for: a leased row per role, by the database's clock.

Leadership saves work and nothing else: whatever is done under it must be safe when two do it at once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ...port import Tx
from ...statements import sql

RESIGNED: Final = "leader"


async def open_roles(tx: Tx, roles: Collection[str], holder: str, lease: int) -> tuple[set[str], int]:
    """Those that `holder` has or could take now, and in how many microseconds the next could be free.

    A look, so that nobody writes only to learn that another leads.
    """
    found = await tx.all(sql.leaders)
    taken = {role: left for role, other, left in found if role in roles and other != holder and 0 < left <= 2 * lease}
    return set(roles) - taken.keys(), min(taken.values(), default=0)


async def leaders(tx: Tx) -> dict[str, str]:
    """Who has each role now."""
    return {role: holder for role, holder, left in await tx.all(sql.leaders) if left > 0}


async def lead(tx: Tx, roles: Collection[str], holder: str, lease: int) -> set[str]:
    """Take or renew what is free or one's own; the roles that `holder` has for `lease` microseconds from now."""
    # In one order by everybody, so that two who lead several roles never wait for each other.
    return {role for role in sorted(roles) if await tx.one(sql.take_lead, role=role, holder=holder, lease=lease)}


async def resign(tx: Tx, holder: str) -> set[str]:
    """Leave every role at once, rather than when the lease ends."""
    left = {role for (role,) in await tx.all(sql.resign_lead, holder=holder)}
    if left:
        tx.ring(RESIGNED)
    return left
