"""The command ``loopwarden``."""

from __future__ import annotations

import importlib
from typing import Any

import click

#: Where each command lives; a module is only imported when its command is asked for, so that ``--help`` is quick.
_COMMANDS = {
    "config": "loopwarden.streams.cli.config:config",
    "demo": "loopwarden.deploy.demo.command:demo",
    "rebuild": "loopwarden.streams.cli.rebuild:rebuild",
    "replay": "loopwarden.streams.cli.replay:replay",
    "tail": "loopwarden.streams.cli.tail:tail",
    "topics": "loopwarden.streams.cli.topics:topics",
    "worker": "loopwarden.streams.cli.worker:worker",
}


class LazyGroup(click.Group):
    """A group whose commands are imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name."""
        path = _COMMANDS.get(cmd_name)
        if path is None:
            return None
        module, _, name = path.partition(":")
        command: Any = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="loopwarden")
def main() -> None:
    """Watch a fleet of AI agents for loops.

    Tool call events come in on Kafka; verdicts and kill signals go out. Start with 'loopwarden demo' to see it on a
    recorded fleet, with 'loopwarden replay FILE' to look for loops in files of your own, and with 'loopwarden topics
    create' and 'loopwarden worker' on a Kafka of your own.
    """


if __name__ == "__main__":
    main()
