"""rq on Redis: a worker that does not fork for each job, no results kept, three retries for jobs of dead workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import Redis
from rq import Queue, Retry
from rq.registry import StartedJobRegistry

from . import kit


def nothing(number: int, text: str) -> None:
    kit.handle(number)


# A job of a dead worker is missed a minute after it should have ended.
OPTIONS = {"result_ttl": 0, "timeout": kit.LEASE if kit.WORK else 180}
TASK = "benchmarks.peers.rq_redis.nothing"


class Rq(kit.Peer):
    queue: Any

    def reset(self) -> None:
        kit.empty_redis()

    def open(self) -> None:
        self.queue = Queue("default", connection=Redis.from_url(kit.PLACE))

    def put(self, number: int) -> None:
        self.queue.enqueue_call(TASK, (number, kit.TEXT), retry=Retry(max=3), **OPTIONS)

    def put_many(self, numbers: Sequence[int]) -> None:
        again = Retry(max=3)
        jobs = [Queue.prepare_data(TASK, (number, kit.TEXT), retry=again, **OPTIONS) for number in numbers]
        self.queue.enqueue_many(jobs)

    def unfinished(self) -> int:
        if not hasattr(self, "queue"):
            self.open()
        return int(self.queue.count + StartedJobRegistry(queue=self.queue).get_job_count(cleanup=False))


if __name__ == "__main__":
    kit.run(Rq())
