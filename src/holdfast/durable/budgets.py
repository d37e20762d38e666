"""Spend, reserve and settle budgets in a running job. Each charge is recorded once, however often it is replayed."""

from __future__ import annotations

import json
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from ..errors import InvalidInput
from ..model.budgets import BUDGET_EXHAUSTED, Crossed, Exhausted
from ..model.outcomes import Parked
from ..model.steps import Step
from ..names import check_name
from ..rules.budgets import Amount, check_amounts
from ..rules.failure import error_json
from ..rules.steps import Call
from ..storage.ops.budgets import reservations, spending
from ..storage.ops.budgets.reservations import Runner, Wish, admission_hold
from ..storage.port import Op
from ..storage.step import step
from .calls import Durable, ending

logger: Final = logging.getLogger("holdfast.budgets")


def spend(durable: Durable, budget: str, amounts: Mapping[str, Amount]) -> Coroutine[Any, Any, None]:
    """Charge a budget. The charge is always recorded, even over the limit."""
    name = check_name("the budget's name", budget)
    return _spend(durable, durable.number("spend", name, ""), name, check_amounts("a spend", amounts))


def settle(durable: Durable, budget: str, amounts: Mapping[str, Amount]) -> Coroutine[Any, Any, None]:
    """Settle what was reserved in a budget before the run began."""
    name = check_name("the budget's name", budget)
    call = durable.number("settle", name, "")
    wish = Wish(admission_hold(name), name, check_amounts("a settlement", amounts, zero=True))
    return _settle(durable, call, wish)


def tell(crossed: Sequence[Crossed]) -> None:
    """Log a warning once for each limit that was crossed."""
    for one in crossed:
        logger.warning(
            "budget %r is over its %s limit: %s of %s %s are spent",
            one.budget, one.kind, f"{one.spent:f}", f"{one.limit:f}", one.dimension,
        )  # fmt: skip


class ReservedBudget:
    """A reservation of one run, for both kinds of task."""

    def __init__(self, durable: Durable, budget: str, amounts: Mapping[str, Amount]) -> None:
        name = check_name("the budget's name", budget)
        self._durable = durable
        self._call = durable.number("reserve", name, "")
        self._wish = Wish(self._call.key, name, check_amounts("a reservation", amounts))
        self._is_open = False
        self._was_settled = False

    async def _enter(self) -> None:
        durable = self._durable
        # Settled by an earlier run: nothing is left to reserve.
        self._was_settled = await durable.find(self._call) is not None
        if self._was_settled or durable.is_inline:
            return
        run, wish = _runner(durable), self._wish
        answer = await durable.io.write(Op(lambda tx: reservations.reserve(tx, run, [wish])))
        if isinstance(answer, Exhausted):
            await durable.pause(Parked(BUDGET_EXHAUSTED, error_json("BudgetExhausted", str(answer))))
        self._is_open = True

    async def _settle(self, amounts: Mapping[str, Amount]) -> None:
        used = check_amounts("a settlement", amounts, zero=True)
        if self._was_settled:
            return
        if not self._is_open and not self._durable.is_inline:
            raise InvalidInput("there is nothing to settle: enter the reservation by `with` first, and settle it once")
        await _charge(self._durable, self._call, Wish(self._wish.hold, self._wish.budget, used))
        self._is_open = False

    async def _leave(self) -> None:
        """Release the amounts that were not settled."""
        self._durable.end(self._call)
        if self._is_open:
            self._is_open = False
            run, hold = _runner(self._durable), self._wish.hold
            await self._durable.io.write(Op(lambda tx: reservations.release(tx, run, hold)))


class AsyncReservation(ReservedBudget):
    """`async with ctx.reserve("team", tokens=4000) as held:`; what is not settled in the block is released."""

    async def settle(self, **amounts: Amount) -> None:
        """Charge the amounts that were actually used, less or more, and release the rest."""
        await self._settle(amounts)

    async def __aenter__(self) -> AsyncReservation:
        await self._enter()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        # If the run itself ends here, its end releases the reservation.
        if error is None or isinstance(error, Exception):
            await self._leave()


class SyncReservation(ReservedBudget):
    """`AsyncReservation` for a `def` task: `with ctx.reserve("team", tokens=4000) as held:`."""

    def settle(self, **amounts: Amount) -> None:
        """Charge the amounts that were actually used, less or more, and release the rest."""
        step(self._settle(amounts))

    def __enter__(self) -> SyncReservation:
        step(self._enter())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, Exception):
            step(self._leave())


@ending
async def _spend(durable: Durable, call: Call, budget: str, amounts: Mapping[str, int]) -> None:
    if await durable.find(call) is not None or durable.is_inline:
        return
    run, entry = _runner(durable), _entry(call, amounts)
    tell(await durable.io.write(Op(lambda tx: spending.spend(tx, run, entry, budget, amounts))))


@ending
async def _settle(durable: Durable, call: Call, wish: Wish) -> None:
    found = await durable.find(call)
    if durable.is_inline:
        return
    if found is None:
        await _charge(durable, call, wish)
        return
    run = _runner(durable)
    await durable.io.write(Op(lambda tx: reservations.release(tx, run, wish.hold)))


async def _charge(durable: Durable, call: Call, wish: Wish) -> None:
    if durable.is_inline:
        return
    run, entry = _runner(durable), _entry(call, wish.amounts)
    tell(await durable.io.write(Op(lambda tx: spending.settle(tx, run, entry, wish))))


def _runner(durable: Durable) -> Runner:
    return Runner(durable.info.worker, durable.info.id, durable.info.epoch)


def _entry(call: Call, amounts: Mapping[str, int]) -> Step:
    value = json.dumps(amounts)
    return Step(key=call.key, kind=call.kind, name=call.name, called=call.called, position=call.position, value=value)
