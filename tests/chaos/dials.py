"""How long a proof runs, which dice it throws, and what it came to.

`PROOF_SEED` is the dice: the same number repeats the same run. `PROOF_SCALE` says how many times as much of everything
is tried; 1 is what a change is checked with.
"""

from __future__ import annotations

import os
from collections.abc import Callable

Figure = Callable[[float, str], None]
"""Notes what a proof came to, a number and of what, for the table at the end. Those of the same thing are added up."""

SEED = int(os.environ.get("PROOF_SEED", "1"))
SCALE = float(os.environ.get("PROOF_SCALE", "1"))


def scaled(count: int) -> int:
    """So many at a scale of 1; at least one at any."""
    return max(1, round(count * SCALE))
