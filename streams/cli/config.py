"""``loopwarden config``: look at a configuration before it is used."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from loopwarden.streams.cli.options import fail
from loopwarden.streams.configuration import Configuration, ConfigurationError, load_configuration
from loopwarden.streams.settings import Settings, to_file_form

#: Exit code of ``check --strict`` where there is something to warn of.
WARNED = 1

#: How agents without settings of their own are named in what is printed.
EVERYBODY = "every other agent"


@click.group()
def config() -> None:
    """Look at a configuration before it is used."""


@config.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for scripts.")
@click.option("--strict", is_flag=True, help="Exit code 1 where there is something to warn of.")
def check(file: Path, as_json: bool, strict: bool) -> None:
    """Print the settings in force for each agent, and which layer set them.

    FILE is a configuration file of ours or of OpenClaw's (JSON5). What was replaced, raised, never reached or not
    known is listed below, by the field's path. Exit code 0, or 2 where the file cannot be used.
    """
    try:
        configuration = load_configuration(file)
    except ConfigurationError as error:
        fail(str(error))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(_report(configuration))).decode())
    else:
        _print(configuration)
    if strict and configuration.warnings:
        sys.exit(WARNED)


def _agents(configuration: Configuration) -> dict[str, Settings]:
    return configuration.book.agents | {EVERYBODY: configuration.book.everybody}


def _report(configuration: Configuration) -> dict[str, Any]:
    return {
        "agents": [
            {"agent": agent} | to_file_form(settings) | {"layers": settings.layers}
            for agent, settings in _agents(configuration).items()
        ],
        "warnings": [warning._asdict() for warning in configuration.warnings],
    }


def _print(configuration: Configuration) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for agent, settings in _agents(configuration).items():
        table = Table(title=agent, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for heading in ("setting", "value", "set by"):
            table.add_column(heading)
        values = to_file_form(settings)
        for path, layer in sorted(settings.layers.items(), key=lambda item: list(values).index(item[0])):
            plain = "dim" if layer == "default" else ""
            table.add_row(path, _shown(path, values[path]), layer, style=plain)
        console.print(table)
        console.print()
    for warning in configuration.warnings:
        console.print(f"[yellow]warning:[/] {warning}", markup=True)
    if not configuration.warnings:
        console.print("nothing to warn of")


def _shown(path: str, value: Any) -> str:
    if path == "enabled":
        return {None: "unset (post-compaction guard only)", True: "true", False: "false (guard off too)"}[value]
    return str(value).lower() if isinstance(value, bool) else str(value)
