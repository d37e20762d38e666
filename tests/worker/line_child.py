"""A child for the tests of pools: one JSON line in, one out. What it does, the payload says."""

from __future__ import annotations

import json
import os
import sys
import time

served = 0
for line in sys.stdin:
    job = json.loads(line)
    what = job["payload"] or {}
    served += 1
    answer = {
        "id": job["id"],
        "status": "ok",
        "result": {"pid": os.getpid(), "served": served, "attempt": job["attempt"]},
    }
    match what.get("do"):
        case "fail":
            answer = {"id": job["id"], "status": "error", "error": "it went wrong", "permanent": what.get("permanent")}
        case "throttle":
            answer = {"id": job["id"], "status": "throttled", "after": what["after"]}
        case "other id":
            answer["id"] = "somebody else"
        case "odd status":
            answer["status"] = "fine"
        case "list":
            answer = [1]  # type: ignore[assignment]
        case "die":
            os._exit(3)
        case "half":
            sys.stdout.write('{"id": ')
            sys.stdout.flush()
            os._exit(0)
        case "nonsense":
            print("hello?", flush=True)
            continue
        case "long":
            answer["result"] = "x" * 2_000_000  # type: ignore[assignment]
        case "hang":
            with open(what["pipe"], "w") as pipe:
                pipe.write(str(os.getpid()))
            time.sleep(600)
    print(json.dumps(answer), flush=True)
