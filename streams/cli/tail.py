"""``loopwarden tail``: follow a topic."""

from __future__ import annotations

import asyncio
import base64
import functools
import re
import sys
import time
from collections.abc import Callable
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

#: The fields that the readable form shows; arguments and results are none of them.
_SHOWN = frozenset(
    ("type", "session_id", "run_id", "tool_name", "level", "detector", "count", "message", "action", "reason")
)


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
@click.option(
    "--show-value", is_flag=True, help="Show what dead letters hold, too; it may be anything, secrets included."
)
def tail(
    what: str,
    configuration: Configuration,
    kafka: KafkaSettings,
    prefix: str | None,
    from_beginning: bool,
    since: int | None,
    limit: int | None,
    as_json: bool,
    show_value: bool,
) -> None:
    """Follow verdicts (the default), signals, events or dead letters until Ctrl-C.

    Arguments and results are never shown in the readable form; --json shows records as they are, except dead letters,
    of which reason, source and size are shown. Records that cannot be decoded are shown as such.
    """
    show = functools.partial(json_line if as_json else readable, what, show_value=show_value)
    names = topic_names(prefix or configuration.file.topics.prefix)
    topic = {"verdicts": names.verdicts, "signals": names.signals, "events": names.events}.get(what, names.dead_letters)
    since_ms = None if since is None else int((time.time() - since) * 1000)
    try:
        asyncio.run(_follow(show, kafka, topic, from_beginning, since_ms, limit))
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
    show: Callable[[Any], str | Text],
    kafka: KafkaSettings,
    topic: str,
    from_beginning: bool,
    since_ms: int | None,
    limit: int | None,
) -> None:
    console = Console(highlight=False)
    left = limit
    async for records in follow(kafka, topic, from_beginning=from_beginning, since_ms=since_ms):
        for record in records:
            line = show(record)
            if isinstance(line, str):
                sys.stdout.write(line + "\n")
            else:
                print_line(console, line)
            if left is not None:
                left -= 1
                if left == 0:
                    return
        sys.stdout.flush()


def json_line(what: str, record: Any, *, show_value: bool = False) -> str:
    """Return a record as a JSON object on a line: its value as it is, in other spaces only."""
    if what == "dead-letters":
        return msgspec.json.encode(_dead_letter(record, show_value)).decode()
    if _fields(record) is not None:
        compact: bytes = msgspec.json.format(record.value, indent=-1)
        return compact.decode()
    told: dict[str, Any] = {"partition": record.partition, "offset": record.offset, "key": _as_text(record.key or b"")}
    told |= {"tombstone": True} if record.value is None else {"undecodable_bytes": len(record.value)}
    return msgspec.json.encode(told).decode()


def readable(what: str, record: Any, *, show_value: bool = False) -> Text:
    """Return a record as a line for people; nothing that a producer writes can steer their terminal."""
    line = Text(f"{_clock(record.timestamp)}  ")
    if what == "dead-letters":
        letter = {name: _printable(told) for name, told in _dead_letter(record, show_value).items()}
        line.append(f"{letter['reason']:<20}", style="red")
        source = f"{letter['source_topic']}[{letter['source_partition']}]@{letter['source_offset']}"
        line.append(f"{letter['size_bytes']:>9} bytes  from {source}")
        value = letter.get("value", letter.get("value_base64"))
        return line if value is None else line.append(f"  {value}", style="dim")
    decoded = _fields(record)
    if decoded is None:
        at = f"at {record.partition}/{record.offset}"
        if record.value is None:
            return line.append(f"tombstone of {_printable(_as_text(record.key or b''))} {at}", style="dim")
        return line.append(f"{len(record.value)} bytes that are no JSON object, {at}", style="red")
    fields = {name: _printable(value) for name, value in decoded.items() if name in _SHOWN and value is not None}
    where = _where(fields)
    if what == "verdicts":
        level = fields.get("level", "?")
        line.append(f"{level:<9}", style=_STYLES.get(level, ""))
        line.append(f"{fields.get('detector', '?'):<27} {fields.get('count', '?'):>4}  {where}  ")
        return line.append(fields.get("message", ""), style="dim")
    if what == "signals":
        action = fields.get("action", "?")
        line.append(f"{action:<9}", style=_STYLES.get(action, ""))
        line.append(f"{fields.get('reason', '?'):<27}   >>  {where}  ")
        return line.append(fields.get("message", ""), style="dim")
    return line.append(f"{fields.get('type', '?'):<12} {where}  {fields.get('tool_name', '')}")


def _fields(record: Any) -> dict[str, Any] | None:
    """Return the fields of a record, None where its value is no JSON object."""
    try:
        return msgspec.json.decode(record.value or b"", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None


def _clock(timestamp_ms: int) -> str:
    """Return the time of day; timestamps are the producer's, and may be beyond what a calendar knows."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):
        return "--:--:--.---"


def _printable(value: Any) -> str:
    """Return text without control characters: a session's name could hold commands for the terminal."""
    return "".join(character if character.isprintable() else "\ufffd" for character in str(value))


def _as_text(content: bytes) -> str:
    return content.decode(errors="replace")


def _where(fields: dict[str, str]) -> str:
    """Return session and run; a run's id often begins with the session's, which is then said once."""
    session, run = fields.get("session_id", "?"), fields.get("run_id", "")
    return run if run.startswith(session) else f"{session} {run}".strip()


def print_line(console: Console, line: Text) -> None:
    """Print a line: cut to the width of a terminal, whole into anything else."""
    if console.is_terminal:
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
    else:
        console.print(line, soft_wrap=True)


def _dead_letter(record: Any, show_value: bool) -> dict[str, Any]:
    """Return what the headers of a dead letter say, its size, and its value if asked for."""
    headers = {name: _as_text(content or b"") for name, content in record.headers}
    told = ("reason", "detail", "source_topic", "source_partition", "source_offset")
    letter: dict[str, Any] = {name: headers.get(name, "?") for name in told}
    letter["size_bytes"] = len(record.value or b"")
    if show_value and record.value is not None:
        try:
            letter["value"] = record.value.decode()
        except UnicodeDecodeError:
            letter["value_base64"] = base64.b64encode(record.value).decode()
    return letter
