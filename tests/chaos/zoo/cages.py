"""All mutants."""

from __future__ import annotations

from .links import LINKS
from .machinery import MACHINERY
from .mutant import Mutant
from .owners import OWNERS
from .states import STATES

MUTANTS: tuple[Mutant, ...] = (*OWNERS, *STATES, *LINKS, *MACHINERY)
SUITES = tuple(dict.fromkeys(suite for mutant in MUTANTS for suite in mutant.suites))
