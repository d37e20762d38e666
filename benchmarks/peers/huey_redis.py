"""huey on Redis. It removes a job from the list when a worker takes it."""

from __future__ import annotations

from huey import RedisHuey

from . import kit

huey = RedisHuey("bench", url=kit.PLACE or None, results=False)


@huey.task(name="nothing")
def nothing(number: int, text: str) -> None:
    kit.handle(number)


class Huey(kit.Peer):
    def reset(self) -> None:
        kit.empty_redis()

    def put(self, number: int) -> None:
        nothing(number, kit.TEXT)

    def unfinished(self) -> int:
        return int(huey.pending_count())


if __name__ == "__main__":
    from benchmarks.peers import huey_redis

    kit.run(huey_redis.Huey())
