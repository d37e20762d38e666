"""Where a worker shows its metrics: one port, or the first free one of several."""

from __future__ import annotations

from typing import Any

import click

from ..app import App


class PortRange(click.ParamType[Any]):
    """PORT or FIRST-LAST, as a range."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        if isinstance(value, range):
            return value
        first, dash, last = str(value).partition("-")
        try:
            ports = range(int(first), int(last if dash else first) + 1)
        except ValueError:
            self.fail(f"{value!r} is neither a port nor FIRST-LAST", param, ctx)
        if not ports or ports[0] < 1 or ports[-1] > 65_535:
            self.fail(f"{value!r} is no port; use 1 to 65535", param, ctx)
        return ports


def ports_of(ports: range, processes: int) -> str:
    """The ports for several processes: one each, from the first on, unless more were given."""
    last = max(ports[-1], min(65_535, ports[0] + processes - 1))
    return f"{ports[0]}-{last}"


def serve_metrics(app: App, ports: range) -> None:
    """Show this process's page for as long as it lives."""
    from ..contrib.prometheus import serve

    serve(app, ports)
