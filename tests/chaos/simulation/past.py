"""Seeds that fail without a mend that was made, each with what they found. They are run for ever.

They are seeds of this generator: whoever changes what is drawn looks for others, with each mend undone.
"""

from __future__ import annotations

PAST: tuple[int, ...] = (
    11,  # a worker that could not make its declarations known kept its lease and did nothing
    23,  # a handler was begun by a worker whose lease was over by its own clock
    29,  # the same
    66,  # a worker that heard twice that it was declared lost lived on under two identities
    105,  # the same
)
