"""Ready-made tasks: HTTP requests, commands, and pools of child programs that answer line by line.

Each function registers a task with an app. Nothing else registers one.
"""

from .commands import CommandFailed, CommandResult, command
from .http import HttpResult, http_request
from .pools import ChildFailed, pool

__all__ = ["ChildFailed", "CommandFailed", "CommandResult", "HttpResult", "command", "http_request", "pool"]
