"""dramatiq on Redis: one process of 4 threads with a prefetch of 200 (an environment variable of its own)."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from . import kit

# Dead workers are looked for by chance, once in a thousand commands unless told otherwise.
SWIFT = {"heartbeat_timeout": kit.LEASE * 1000, "maintenance_chance": 1_000_000} if kit.WORK else {}
broker = RedisBroker(url=kit.PLACE, **SWIFT)
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="nothing")
def nothing(number: int, text: str) -> None:
    kit.handle(number)


class Dramatiq(kit.Peer):
    def reset(self) -> None:
        kit.empty_redis()

    def put(self, number: int) -> None:
        nothing.send(number, kit.TEXT)

    def unfinished(self) -> int:
        # A message stays here until it is acknowledged.
        return int(kit.redis_client().hlen("dramatiq:default.msgs"))


if __name__ == "__main__":
    kit.run(Dramatiq())
