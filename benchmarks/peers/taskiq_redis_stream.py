"""taskiq on a Redis stream, which acknowledges after the run: one process, 100 tasks at once."""

from __future__ import annotations

from taskiq_redis import RedisStreamBroker

from . import kit

broker = RedisStreamBroker(kit.PLACE, consumer_id="0", idle_timeout=(kit.LEASE if kit.WORK else 600) * 1000)


@broker.task(task_name="nothing")
async def nothing(number: int, text: str) -> None:
    await kit.ahandle(number)


class Taskiq(kit.AsyncPeer):
    def reset(self) -> None:
        kit.empty_redis()

    async def aopen(self) -> None:
        await broker.startup()

    async def aput(self, number: int) -> None:
        await nothing.kiq(number, kit.TEXT)

    def unfinished(self) -> int:
        groups = kit.redis_client().xinfo_groups("taskiq")
        return sum(int(group["pending"]) + int(group.get("lag") or 0) for group in groups)


if __name__ == "__main__":
    kit.run(Taskiq())
