"""What a store must do, in plain Python: jobs move by the transition table, and everything beside them follows."""

from .purse import Purse
from .state import Job, Model, Waiting

__all__ = ["Job", "Model", "Purse", "Waiting"]
