"""``loopwarden config``: look at a configuration before it is used.

A typo in a threshold is otherwise only noticed when a loop was missed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loopwarden.streams.cli.options import fail
from loopwarden.streams.configuration import Configuration, ConfigurationError, load_configuration
from loopwarden.streams.kafka_settings import KafkaSettingsError, check_properties
from loopwarden.streams.settings import Settings, to_file_form

#: Exit code of ``check --strict`` where there is something to warn of.
WARNED = 1

#: How agents without settings of their own are named in what is printed.
EVERYBODY = "every other agent"

#: Width of lines that no terminal cuts, in characters.
_UNCUT = 100_000


@click.group()
def config() -> None:
    """Look at a configuration before it is used."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")
@click.option("--strict", is_flag=True, help="Exit code 1 where there is something to warn of.")
def check(file: Path, as_json: bool, strict: bool) -> None:
    """Print the settings in force for each agent, and which layer set them.

    FILE is a configuration file of ours or of OpenClaw's (JSON5: comments, trailing commas, names without quotes). Each
    agent of agents.list is shown, then what all others get. Layers are 'default', 'tools.loopDetection' and the agent's
    own 'agents.list[ID]'; a value that could not be used counts as the default, a threshold that was raised as set by
    the layer that made it necessary.

    Warnings follow, by the field's path: what was replaced or raised, thresholds that historySize never lets a detector
    reach, unknown fields, agents that cannot be told apart.

    \b
    Exit code 0: usable, with warnings or without
              1: usable with warnings, and --strict was given
              2: not usable; standard error says where and why

    \b
    loopwarden config check ~/.openclaw/openclaw.json
    loopwarden config check --strict loopwarden.json5 && loopwarden worker --config loopwarden.json5
    loopwarden config check --json FILE | jq '.agents[] | {agent, historySize}'
    """
    try:
        configuration = load_configuration(file)
        check_properties(configuration.file.kafka)
    except ConfigurationError as error:
        fail(str(error))
    except KafkaSettingsError as error:
        fail(f"{file}: kafka: {error}")
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(_report(configuration))).decode())
    else:
        _print(configuration)
    if strict and configuration.warnings:
        sys.exit(WARNED)


def _agents(configuration: Configuration) -> list[tuple[str, Settings]]:
    """Return agents by the names they are shown under; an agent may bear any, also that of the last row."""
    return [*configuration.book.agents.items(), (EVERYBODY, configuration.book.everybody)]


def _report(configuration: Configuration) -> dict[str, Any]:
    return {
        "agents": [
            {"agent": agent} | to_file_form(settings) | {"layers": settings.layers}
            for agent, settings in _agents(configuration)
        ],
        "warnings": [warning._asdict() for warning in configuration.warnings],
    }


def _print(configuration: Configuration) -> None:
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _UNCUT  # soft_wrap does not keep rich from breaking a table's cells at 80 characters
    for agent, settings in _agents(configuration):
        console.print(_table(agent, settings))
        console.print()
    for warning in configuration.warnings:
        console.print(_plain("warning: ", "yellow") + _plain(str(warning)))
    if not configuration.warnings:
        console.print("nothing to warn of")


def _table(agent: str, settings: Settings) -> Table:
    """Return an agent's settings in the order of the file form; what is not the default stands out."""
    table = Table(title=_plain(agent, "bold"), title_justify="left", box=None, pad_edge=False)
    for heading in ("setting", "value", "set by"):
        table.add_column(heading)
    for path, value in to_file_form(settings).items():
        if path != "layers":
            layer = settings.layers[path]
            style = "dim" if layer == "default" else ""
            table.add_row(path, _plain(_shown(path, value)), _plain(layer), style=style)
    return table


def _plain(text: str, style: str = "") -> Text:
    """Return a text as it is: rich would take the ``[ID]`` in it for markup, and a lone surrogate cannot be printed."""
    return Text(text.encode(errors="backslashreplace").decode(), style)


def _shown(path: str, value: Any) -> str:
    if path == "enabled":
        return {None: "unset (post-compaction guard only)", True: "true", False: "false (guard off too)"}[value]
    return str(value).lower() if isinstance(value, bool) else str(value)
