"""Ports for the metrics of workers: one port, or the first free one of a range."""

from __future__ import annotations

import click

from ..app import App


def as_ports(_context: click.Context, _parameter: click.Parameter, value: str | None) -> range | None:
    """PORT or FIRST-LAST, as a range."""
    if value is None:
        return None
    first, dash, last = value.partition("-")
    try:
        ports = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a port nor FIRST-LAST") from None
    if not ports or ports[0] < 1 or ports[-1] > 65_535:
        raise click.BadParameter(f"{value!r} is not a port; use 1 to 65535")
    return ports


def ports_of(ports: range, processes: int) -> str:
    """Return the ports for several processes: one each, counting up, unless a range was given."""
    last = max(ports[-1], min(65_535, ports[0] + processes - 1))
    return f"{ports[0]}-{last}"


def serve_metrics(app: App, ports: range) -> None:
    """Serve this process's metrics for as long as it lives."""
    from ..contrib.prometheus import serve

    serve(app, ports)
