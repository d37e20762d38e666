"""Traced tasks that a child process can import; its spans go to the file that SPANS names."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

import holdfast
from holdfast.contrib.otel import instrument


class _File(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with open(os.environ["SPANS"], "a", encoding="utf-8") as file:
            file.writelines(json.dumps(json.loads(span.to_json())) + "\n" for span in spans)
        return SpanExportResult.SUCCESS


_provider = TracerProvider()
_provider.add_span_processor(SimpleSpanProcessor(_File()))
app = holdfast.App("unused.db")
instrument(app, tracer_provider=_provider)


@app.task(isolate="process")
def apart(ctx: holdfast.SyncContext) -> str:
    ctx.step("load", int)
    word: str = ctx.wait_for("go", type=str)
    return f"{word} {trace.get_current_span().get_span_context().is_valid}"


@app.task(isolate="process", batch=10)
def together(items: list[holdfast.Item[int]]) -> None: ...
