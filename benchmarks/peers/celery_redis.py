"""Celery on Redis: a prefork pool of one, a prefetch of 128, no results, acknowledged after the run."""

from __future__ import annotations

from celery import Celery

from . import kit

app = Celery("bench", broker=kit.PLACE)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=128,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": kit.LEASE if kit.WORK else 3600},
    worker_hijack_root_logger=False,
)


@app.task(name="nothing")
def nothing(number: int, text: str) -> None:
    kit.handle(number)


class CeleryPeer(kit.Peer):
    def reset(self) -> None:
        kit.empty_redis()

    def put(self, number: int) -> None:
        nothing.apply_async((number, kit.TEXT))

    def unfinished(self) -> int:
        client = kit.redis_client()
        return int(client.llen("celery") + client.hlen("unacked"))


if __name__ == "__main__":
    kit.run(CeleryPeer())
