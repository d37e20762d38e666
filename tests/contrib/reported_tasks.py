"""Tasks that report to Sentry and that a child process can import; reports go to the file that ENVELOPES names."""

from __future__ import annotations

import json
import os
from typing import Any

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

import holdfast
from holdfast.contrib.sentry import instrument


class FileTransport(Transport):
    """Appends each item of an envelope to a file, as a line of JSON."""

    def capture_envelope(self, envelope: Envelope) -> None:
        with open(os.environ["ENVELOPES"], "a", encoding="utf-8") as file:
            for item in envelope.items:
                file.write(json.dumps({"kind": item.type, **(item.payload.json or {})}) + "\n")


def init(**options: Any) -> None:
    """Start Sentry without a network, and without patching what other tests use."""
    sentry_sdk.init(
        dsn="https://key@sentry.invalid/1",
        transport=FileTransport,
        default_integrations=False,
        auto_enabling_integrations=False,
        **options,
    )


app = holdfast.App("unused.db")
instrument(app, check_ins=True)
if "ENVELOPES" in os.environ:
    init(data_collection={"queues": True})


@app.task(isolate="process", max_attempts=1)
def apart(word: str) -> None:
    sentry_sdk.set_tag("mine", word)
    raise ValueError("it broke")


@app.task(isolate="process", max_attempts=1)
def dies() -> None:
    os._exit(3)


@app.task(isolate="process", max_attempts=1)
def fine() -> None: ...
