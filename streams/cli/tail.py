"""``loopwarden tail``: follow a topic."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from datetime import UTC, datetime
from typing import Any

import click
import msgspec
from aiokafka.errors import KafkaConnectionError, KafkaError
from rich.console import Console
from rich.text import Text

from loopwarden.schemas.topics import topic_names
from loopwarden.streams.cli.options import fail, kafka_options, unreachable
from loopwarden.streams.configuration import Configuration
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.follow import MissingTopic, follow

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_STYLES = {"warning": "yellow", "critical": "bold red", "block": "bold yellow", "kill": "bold red"}


def _ago(_context: click.Context, _parameter: click.Parameter, value: str | None) -> int | None:
    """Return the seconds that ``10m`` and the like mean."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+)([smhd])", value)
    if found is None:
        raise click.BadParameter("a number and one of s, m, h, d is expected, like 10m")
    return int(found[1]) * _UNITS_S[found[2]]


@click.command()
@click.argument("what", type=click.Choice(["verdicts", "signals", "events", "dead-letters"]), default="verdicts")
@kafka_options
@click.option("--prefix", metavar="TEXT", help="What topic names begin with.  [default: loopwarden.]")
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest record that is kept.")
@click.option("--since", callback=_ago, metavar="10m", help="Begin some time ago (s, m, h, d).")
@click.option("--limit", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def tail(
    what: str,
    configuration: Configuration,
    kafka: KafkaSettings,
    prefix: str | None,
    from_beginning: bool,
    since: int | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Follow verdicts (the default), signals, events or dead letters until Ctrl-C.

    Arguments and results are never shown in the readable form; --json shows records as they are, except dead letters,
    of which reason, source and size are shown.
    """
    names = topic_names(prefix or configuration.file.topics.prefix)
    topic = {"verdicts": names.verdicts, "signals": names.signals, "events": names.events}.get(what, names.dead_letters)
    since_ms = None if since is None else int((time.time() - since) * 1000)
    try:
        asyncio.run(_follow(what, kafka, topic, from_beginning, since_ms, limit, as_json))
    except KeyboardInterrupt:
        pass
    except KafkaConnectionError as error:
        fail(unreachable(kafka, error))
    except KafkaError as error:
        fail(f"the broker refuses: {error}")
    except MissingTopic:
        fail(f"there is no topic {topic}; see --prefix, or make it with 'loopwarden topics create'")
    except BrokenPipeError:
        sys.stderr.close()


async def _follow(
    what: str,
    kafka: KafkaSettings,
    topic: str,
    from_beginning: bool,
    since_ms: int | None,
    limit: int | None,
    as_json: bool,
) -> None:
    console = Console(highlight=False)
    left = limit
    async for records in follow(kafka, topic, from_beginning=from_beginning, since_ms=since_ms):
        for record in records:
            if as_json:
                sys.stdout.write(json_line(what, record) + "\n")
            else:
                print_line(console, readable(what, record))
            if left is not None:
                left -= 1
                if left == 0:
                    return
        sys.stdout.flush()


def json_line(what: str, record: Any) -> str:
    """Return a record as a JSON object on a line."""
    if what == "dead-letters":
        return msgspec.json.encode(_dead_letter(record)).decode()
    try:
        return msgspec.json.encode(msgspec.json.decode(record.value or b"null")).decode()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return msgspec.json.encode({"undecodable_bytes": len(record.value)}).decode()


def readable(what: str, record: Any) -> Text:
    """Return a record as a line for people."""
    at = datetime.fromtimestamp(record.timestamp / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    line = Text(f"{at}  ")
    if what == "dead-letters":
        letter = _dead_letter(record)
        line.append(f"{letter['reason']:<20}", style="red")
        source = f"{letter['source_topic']}[{letter['source_partition']}]@{letter['source_offset']}"
        return line.append(f"{letter['size_bytes']:>9} bytes  from {source}")
    try:
        fields = msgspec.json.decode(record.value or b"null", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        size = len(record.value or b"")
        return line.append(f"{size} bytes that are no JSON object, at offset {record.offset}", style="red")
    where = _where(fields)
    if what == "verdicts":
        level = str(fields.get("level"))
        line.append(f"{level:<9}", style=_STYLES.get(level, ""))
        line.append(f"{fields.get('detector')!s:<27} {fields.get('count')!s:>4}  {where}  ")
        return line.append(str(fields.get("message")), style="dim")
    if what == "signals":
        action = str(fields.get("action"))
        line.append(f"{action:<9}", style=_STYLES.get(action, ""))
        line.append(f"{fields.get('reason')!s:<27}   >>  {where}  ")
        return line.append(str(fields.get("message")), style="dim")
    return line.append(f"{fields.get('type')!s:<12} {where}  {fields.get('tool_name') or ''}")


def _where(fields: dict[str, Any]) -> str:
    """Return session and run; a run's id often begins with the session's, which is then said once."""
    session, run = str(fields.get("session_id", "?")), str(fields.get("run_id") or "")
    return run if run.startswith(session) else f"{session} {run}".strip()


def print_line(console: Console, line: Text) -> None:
    """Print a line: cut to the width of a terminal, whole into anything else."""
    if console.is_terminal:
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
    else:
        console.print(line, soft_wrap=True)


def _dead_letter(record: Any) -> dict[str, Any]:
    """Return what the headers of a dead letter say, and its size."""
    headers = {name: content.decode(errors="replace") for name, content in record.headers}
    told = ("reason", "detail", "source_topic", "source_partition", "source_offset")
    letter: dict[str, Any] = {name: headers.get(name, "?") for name in told}
    return letter | {"size_bytes": len(record.value or b"")}
