"""Serves the dashboard of a studio at work, until it is interrupted: `python -m examples.studio`."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.studio", description=__doc__)
    parser.add_argument("--port", type=int, default=8787, help="of the dashboard; 8787 by default")
    port = parser.parse_args().port
    with tempfile.TemporaryDirectory(prefix="holdfast-studio-") as folder:
        # The studio's app reads it when it is imported.
        os.environ["HOLDFAST_STORE"] = str(Path(folder) / "studio.db")
        from .opening import open_studio

        open_studio(port)


if __name__ == "__main__":
    main()
