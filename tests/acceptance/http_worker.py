"""A worker that knows nothing of Holdfast but its HTTP API, with the standard library alone: ADDRESS TOKEN LEASE JOBS.

After so many jobs it keeps what it has, and its lease, until it is killed.
"""

import http.client
import json
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit


class Api:
    """One connection, for one thread."""

    def __init__(self, address: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def post(self, path: str, **body: object) -> dict[str, Any]:
        self._connection.request("POST", f"/api/v1{path}", json.dumps(body), self._headers)
        response = self._connection.getresponse()
        answer = json.loads(response.read() or b"{}")
        if response.status >= 400:
            raise RuntimeError(f"{response.status}: {answer}")
        return answer


def main(address: str, token: str, lease: str, jobs: str) -> None:
    api = Api(address, token)
    me = api.post(
        "/work/register", name="elsewhere", queues=["default"], tasks=["double"], concurrency=50, lease=int(lease)
    )
    threading.Thread(target=beat, args=(Api(address, token), me), daemon=True).start()
    left = int(jobs)
    while True:
        for job in api.post("/work/claim", worker=me["worker"], limit=50, wait=10)["jobs"]:
            if not left:
                threading.Event().wait()
            left -= 1
            n = job["arguments"]["n"]
            if n % 100 == 0:
                api.post("/work/emit", handle=job["handle"], frames=[{"data": f"working on {n}"}])
            time.sleep(0.002)
            api.post("/work/finish", handle=job["handle"], end={"outcome": "done", "result": 2 * n})


def beat(api: Api, me: dict[str, Any]) -> None:
    while True:
        time.sleep(me["beat_every"])
        api.post("/work/beat", worker=me["worker"])


if __name__ == "__main__":
    main(*sys.argv[1:])
