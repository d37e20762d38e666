"""What operators remove: gone, and in the audit, in one commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..storage.ops.audit import audit
from ..storage.port import Op, Tx


def removal(
    remove: Callable[[Tx], Awaitable[bool]],
    *,
    action: str,
    target: str,
    actor: str,
    reason: str,
    tenant: str | None = None,
) -> Op[bool]:
    """Whether there was something to remove; where there was nothing, nothing is recorded."""

    async def run(tx: Tx) -> bool:
        removed = await remove(tx)
        if removed:
            await audit(tx, actor=actor, action=action, target=target, reason=reason, tenant=tenant)
        return removed

    return Op(run)
