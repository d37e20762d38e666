"""Work that needs no code of yours: HTTP requests, commands, and children that answer line by line.

Each function registers a task with an app. Nothing is registered that was not asked for.
"""

from .commands import CommandFailed, CommandResult, command
from .http import HttpResult, http_request
from .pools import ChildFailed, pool

__all__ = ["ChildFailed", "CommandFailed", "CommandResult", "HttpResult", "command", "http_request", "pool"]
