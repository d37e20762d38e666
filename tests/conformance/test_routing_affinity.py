"""Claims by affinity, on every store: a worker looks at the first job of each route and settles on few affinities."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.clock import SECOND
from holdfast.ids import token
from holdfast.model.jobs import Claimed
from holdfast.model.outcomes import Done, Finish
from holdfast.model.routing import Route
from holdfast.rules.routing import Hold
from holdfast.storage.ops.jobs import actions, claims
from holdfast.storage.ops.jobs.claims import ClaimRequest, Turn
from holdfast.storage.ops.routing import routes
from holdfast.storage.ops.routing.affinities import Routing
from holdfast.storage.ops.workers import workers
from holdfast.worker.claiming.capacity import LoadedAffinities
from holdfast.worker.claiming.routes import ServedRoutes
from holdfast.worker.settings import WorkerSettings

from .world import World, spec

MODELS = ("llama", "qwen", "whisper")


def route(affinity: str, queue: str = "default") -> Route:
    return Route(queue, affinity=affinity)


def request(
    owner: str,
    n: int = 10,
    *resident: str,
    tiers: Sequence[Sequence[Route]] = ((Route("default"), *map(route, MODELS)),),
    in_use: Sequence[str] = (),
    most: int = 1,
    **more: Any,
) -> ClaimRequest:
    affinities = {one.number: one.affinity for tier in tiers for one in tier if one.affinity}
    hold = Hold(resident, frozenset(in_use), most)
    return ClaimRequest(
        owner=owner,
        token=token(),
        routes=claims.encode_routes(tiers),
        n=n,
        routing=Routing(hold, affinities, frozenset(), resident),
        **more,
    )


def turn(world: World, asked: ClaimRequest) -> Turn:
    return world.run(claims.turn, asked.owner, [], asked)


def taken(world: World, asked: ClaimRequest) -> list[str]:
    names = {one.number: one.affinity for one in map(route, MODELS)}
    return [names.get(job.route, "") for job in turn(world, asked).claimed]


def enqueue(world: World, *affinities: str, **fields: Any) -> list[str]:
    return [job.id for job in world.enqueue(*(spec(route=route(name), **fields) for name in affinities))]


def test_only_what_is_loaded_is_claimed_while_there_is_some(world: World) -> None:
    enqueue(world, "qwen", "llama", "qwen", "llama")
    owner = world.worker()
    assert taken(world, request(owner, 10, "llama")) == ["llama", "llama"]
    assert taken(world, request(owner, 10, "llama")) == ["qwen", "qwen"]


def test_jobs_without_an_affinity_keep_their_place_beside_what_is_loaded(world: World) -> None:
    owner = world.worker()
    for name in ("", "llama", "qwen", ""):
        enqueue(world, name) if name else world.add()
        world.clock.advance(1)
    assert taken(world, request(owner, 10, "llama")) == ["", "llama", ""]


def test_what_runs_keeps_its_place_and_those_who_wait_for_one_are_told_of(world: World) -> None:
    enqueue(world, "qwen")
    plain = world.add()
    answer = turn(world, request(world.worker(), 10, "llama", in_use=["llama"]))
    assert [job.id for job in answer.claimed] == [plain]
    assert answer.others_wait


def test_nobody_waits_for_a_place_when_everything_was_taken(world: World) -> None:
    enqueue(world, "llama", "llama")
    assert not turn(world, request(world.worker())).others_wait


def test_what_is_loaded_is_no_reason_to_take_a_lower_priority_first(world: World) -> None:
    enqueue(world, "llama", priority=5)
    enqueue(world, "llama", "llama", priority=0)
    enqueue(world, "qwen", priority=3)
    plain = world.add()
    owner = world.worker()
    answer = turn(world, request(owner, 10, "llama"))
    assert [job.priority for job in answer.claimed] == [5, 0]
    assert answer.claimed[1].id == plain
    assert taken(world, request(owner, 10, "llama")) == ["qwen"]
    assert taken(world, request(owner, 10, "qwen")) == ["llama", "llama"]


def test_a_suspect_of_another_affinity_is_not_forgotten(world: World) -> None:
    lost = world.worker()
    enqueue(world, "qwen")
    assert turn(world, request(lost)).claimed
    world.lose(lost)
    again = world.worker()
    assert turn(world, request(again)).claimed
    world.lose(again)
    owner = world.worker()
    assert turn(world, request(owner, 10, "llama")).claimed == []
    (job,) = turn(world, request(owner, 10, "llama", suspects=1)).claimed
    assert job.suspect


def test_a_paused_queue_is_no_reason_to_load_something(world: World) -> None:
    owner = world.worker(queues=["paused", "default"])
    tiers = [[Route("paused"), route("llama", "paused")], [Route("default"), route("qwen")]]
    world.enqueue(spec(route=route("llama", "paused")), spec(route=route("qwen")))
    world.run(actions.set_queue_state, "paused", "paused")
    (job,) = turn(world, request(owner, tiers=tiers)).claimed
    assert job.route == route("qwen").number


def test_the_store_knows_what_a_worker_has_loaded(world: World) -> None:
    enqueue(world, "qwen")
    owner = world.worker(resident=("llama",))
    assert [worker.resident for worker in world.read(workers.list_workers)] == [("llama",)]
    turn(world, request(owner, 10, "llama"))
    assert [worker.resident for worker in world.read(workers.list_workers)] == [("qwen",)]


def test_a_place_goes_to_the_next_where_others_hold_the_jobs_of_the_best(on_postgres: World) -> None:
    enqueue(on_postgres, "qwen", "llama")
    owner = on_postgres.worker()
    with on_postgres.connect() as other:
        other.execute("select 1 from holdfast_live where route = %s for update", [route("qwen").number])
        assert taken(on_postgres, request(owner)) == ["llama"]


# -- many jobs, two workers, and time


JOB = 0.01
LOAD = 0.2


@dataclass
class Hand:
    """A worker that runs one job after the other on the test's clock, and takes a while to load a model."""

    id: str
    served: ServedRoutes
    residency: LoadedAffinities
    loaded: str = ""
    loads: int = 0
    job: Claimed | None = None
    waits: list[tuple[str, float]] = field(default_factory=list)

    def turn(self, world: World) -> float | None:
        """Finish what it has and take the next; for how long that will keep it busy."""
        finishes = [Finish(self.job.id, self.job.epoch, Done("null"))] if self.job else []
        if self.job:
            self.residency.ended(self.job.id, self.job.epoch)
        self.served.learn(world.read(routes.special_routes))
        asked = ClaimRequest(
            owner=self.id,
            token=token(),
            routes=self.served.current(),
            n=1,
            routing=Routing(self.residency.hold(), self.served.affinities, frozenset(), self.residency.known),
        )
        claimed = world.run(claims.turn, self.id, finishes, asked).claimed
        self.job = claimed[0] if claimed else None
        return self._begin(self.job, world.now) if self.job else None

    def _begin(self, job: Claimed, now: int) -> float:
        # Without affinities the job still needs its model, which stands in its payload.
        model = job.payload
        if job.route in self.served.affinities:
            self.residency.began(job.id, job.epoch, model)
        self.residency.known = self.residency.resident
        self.waits.append((model, (now - job.created_at) / SECOND))
        took = JOB + (LOAD if model != self.loaded else 0)
        self.loads += model != self.loaded
        self.loaded = model
        return took


def play(world: World, arrivals: list[tuple[float, str]], *, affine: bool, **settings: Any) -> list[Hand]:
    """Let two workers run all that arrives, second by model; the workers."""
    hands = [
        Hand(world.worker(), ServedRoutes(["default"], []), LoadedAffinities(WorkerSettings(**settings), world.clock))
        for _ in range(2)
    ]
    begun = world.now
    coming = list(arrivals)
    free = [(0.0, n) for n in range(len(hands))]
    while True:
        at, n = heapq.heappop(free)
        world.clock.advance(max(0.0, at - (world.now - begun) / SECOND))
        now = (world.now - begun) / SECOND
        due = [model for when, model in coming if when <= now]
        del coming[: len(due)]
        if due:
            kinds = [route(model) if affine else Route("default") for model in due]
            world.enqueue(*(spec(route=kind, payload=model) for kind, model in zip(kinds, due, strict=True)))
        took = hands[n].turn(world)
        if took is None and not coming and all(hand.job is None for hand in hands):
            return hands
        heapq.heappush(free, (now + (0.05 if took is None else took), n))


def evenly(n: int) -> list[tuple[float, str]]:
    """All at once."""
    chance = random.Random(7)
    return [(0.0, chance.choice(MODELS)) for _ in range(n)]


def mostly_for_one(n: int) -> list[tuple[float, str]]:
    """More for the first model than the two workers can do, and a little for the others, all the time."""
    chance = random.Random(7)
    return [(i / 220, chance.choices(MODELS, (18, 1, 1))[0]) for i in range(n)]


def loads(hands: list[Hand]) -> int:
    return sum(hand.loads for hand in hands)


def longest_wait_of_others(hands: list[Hand]) -> float:
    return max(wait for hand in hands for model, wait in hand.waits if model != MODELS[0])


def test_two_workers_load_seldom_even_when_others_may_not_wait_for_ever(ground: Any) -> None:
    world, arrivals = ground.open("memory"), evenly(3_000)
    fifo = loads(play(world, arrivals, affine=False))
    assert loads(play(world, arrivals, affine=True, affinity_wait=4.0)) <= fifo * 0.05


def test_others_wait_no_longer_than_the_bound_though_there_is_always_more_for_what_is_loaded(each_store: World) -> None:
    bound, arrivals = 1.6, mostly_for_one(800)
    # What runs must end, and another model must be loaded, twice where two are late at once.
    slack = 2 * (JOB + LOAD)
    assert longest_wait_of_others(play(each_store, arrivals, affine=True)) > 2 * bound
    assert longest_wait_of_others(play(each_store, arrivals, affine=True, affinity_wait=bound)) <= bound + slack
