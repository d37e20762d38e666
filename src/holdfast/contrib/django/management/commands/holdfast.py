"""`manage.py holdfast …`: every command of the `holdfast` program, on the project's own store."""

from __future__ import annotations

from holdfast.contrib.django.command_line import PassingCommand, run_cli


class Command(PassingCommand):
    help = "Runs a command of Holdfast on the project's store, such as: manage.py holdfast jobs list"

    def run(self, program: str, args: list[str]) -> int:
        return run_cli(program, args)
