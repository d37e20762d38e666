"""`manage.py holdfast_worker`: a worker of the project, with the options of `holdfast worker`, and --reload."""

from __future__ import annotations

from holdfast.contrib.django.command_line import PassingCommand, check_schema, run
from holdfast.contrib.django.worker_command import worker


class Command(PassingCommand):
    help = "Runs the project's jobs until stopped."

    def run(self, program: str, args: list[str]) -> int:
        if not {"-h", "--help"} & set(args):
            # As `runserver` does, before anything is started.
            self.check()
            check_schema()
        return run(worker, program, args)
