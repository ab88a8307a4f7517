"""Reads a configuration file, and says exactly what is wrong with it where it cannot be used.

Configurations are written by people: a message names the file, the place, the value, and what was expected there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import json5
import msgspec

from loopwarden.schemas.configuration import ConfigurationFile, TopicsConfig, WorkerConfig
from loopwarden.streams.partition import Limits
from loopwarden.streams.settings import AgentBlock, ConfigWarning, SettingsBook, resolve

_BLOCK = "tools.loopDetection"
#: Longest text before a mistake for which it is worked out what was expected; the parser is slow.
_PROBED_CHARS_MAX = 20_000
_UNKNOWN = re.compile(r"unknown field `(.*)`")
#: What Kafka takes in the name of a topic, and room for the rest of it.
_NAMES_TOPICS = re.compile(r"[A-Za-z0-9._-]{0,200}")
_OURS: dict[str, type[msgspec.Struct]] = {"topics": TopicsConfig, "worker": WorkerConfig}
#: Allowed values of the fields that have a list of them, by path.
_CHOICES = {
    f"{block}.{stated}": get_args(get_type_hints(struct)[field])
    for block, struct in _OURS.items()
    for field, stated in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
}
_WHERE = re.compile(r":(\d+)\s+(.*?)(?:\s+at)?\s+column\s+(\d+)", re.DOTALL)


class ConfigurationError(Exception):
    """A configuration that cannot be used; the message names file and place."""


class Configuration(NamedTuple):
    """What a file says: detection settings, the file's other blocks, and what is to be said about it."""

    book: SettingsBook
    file: ConfigurationFile
    warnings: list[ConfigWarning]


def load_configuration(path: Path | None) -> Configuration:
    """Return the configuration in a file, or the defaults where there is none; raises ConfigurationError."""
    if path is None:
        book, warnings = resolve(None, {})
        return Configuration(book, ConfigurationFile(), warnings)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 at byte {error.start}") from None
    return parse_configuration(text, str(path))


def parse_configuration(text: str, name: str) -> Configuration:
    """Return the configuration in a JSON5 text; ``name`` stands for it in errors. Raises ConfigurationError."""
    warnings: list[ConfigWarning] = []
    content = _parse(text, name)
    _check_kafka(content.get("kafka"), name)
    try:
        file = msgspec.convert(content, ConfigurationFile)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{name}: {_readable(error, content)}") from None
    _check_names(file, name)
    block = _object(file.tools.get("loopDetection"), _BLOCK, name)
    agents = _agent_blocks(file.agents, name, warnings)
    book, found = resolve(block, agents)
    return Configuration(book, file, warnings + found + _doubtful_copies(file.topics))


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        content = json5.loads(text, allow_duplicate_keys=False)
    except ValueError as error:
        raise ConfigurationError(f"{name}{_located(str(error), text)}") from None
    except RecursionError:
        raise ConfigurationError(f"{name}: nested too deeply") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{name}: the file holds no object; {{ … }} is expected")
    return content


def _located(message: str, text: str) -> str:
    """Return what the parser says in the form ``:line:column: what; what is expected there``."""
    found = _WHERE.search(message)
    if found is None:
        return f": {message}"
    line, what, column = int(found[1]), found[2], int(found[3])
    lines = text.split("\n")
    before = "\n".join([*lines[: line - 1], lines[line - 1][: column - 1]])
    if len(before) > _PROBED_CHARS_MAX:
        return f":{line}:{column}: {' '.join(what.split())}"
    ended = what.endswith("end of input")
    if _may_end_with(f"{before}x") and not _may_end_with(f"{before}\n"):
        what, expected = f"the {'text' if ended else 'line'} ends within a string", ["a closing quote"]
    else:
        expected = _expected_after(before)
        if not expected and not ended and before[:-1].rstrip()[-1:] in ("{", ",") and _expected_after(before[:-1]):
            # Where a key is to come, the parser complains about the character after the one that is wrong.
            column, what, expected = column - 1, f'Unexpected "{before[-1]}"', ["a key", "}"]
    hint = f"; {' or '.join(expected)} is expected" if expected else ""
    return f":{line}:{column}: {what}{hint}"


def _expected_after(before: str) -> list[str]:
    """Return what may follow the beginning of a text, as far as it can be told.

    The parser only says what it does not expect, so it is asked about each thing in turn: one that may stand there
    moves the parser's complaint to the end of the text, or ends it.
    """
    able = {token: _may_end_with(f"{before} {token}") for token in (",", ":", "}", "]", "0")}
    if able[","] and able[":"]:
        # Only where a key is to come (and in a comment) does the parser put off every complaint.
        return ["a key", "}"] if before.rstrip()[-1:] in ("{", ",") else []
    if able["0"]:
        return ["a value"] + (["]"] if able["]"] else [])
    closing = [token for token in (":", ",", "}", "]") if able[token]]
    return closing or (["the end of the file"] if _may_end_with(before) and before.rstrip()[-1:] in ("}", "]") else [])


def _may_end_with(text: str) -> bool:
    try:
        json5.loads(text)
    except ValueError as error:
        return "Unexpected end of input" in str(error)
    except RecursionError:
        return False
    return True


def _readable(error: msgspec.ValidationError, content: Any) -> str:
    """Return ``path: what, not value`` for ``what - at `$.path```, with the name that an unknown field resembles."""
    what, _at, path = str(error).partition(" - at `$.")
    path = path.rstrip("`")
    if not path:
        return what
    unknown = _UNKNOWN.search(what)
    if unknown:
        fields = _OURS[path].__struct_encode_fields__
        close = get_close_matches(unknown[1], fields, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        return f"{path}: {what}; {meant}known are {', '.join(fields)}"
    value = content
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if what.startswith("Invalid enum value"):
        what = f"one of {', '.join(_CHOICES[path])} is expected"
    return f"{path}: {what.partition(', got ')[0]}, not {_kind(value)}"


def _check_kafka(kafka: Any, name: str) -> None:
    """Raise ConfigurationError for a property that is no text; by name, and without its value, which may be secret."""
    if kafka is None:
        return
    if not isinstance(kafka, dict):
        raise ConfigurationError(f"{name}: kafka: an object is expected")
    for key, value in kafka.items():
        if not isinstance(value, str | int):
            raise ConfigurationError(f"{name}: kafka.{key}: text, a whole number or a boolean is expected")


def _check_names(file: ConfigurationFile, name: str) -> None:
    """Raise ConfigurationError for what Kafka refuses in a topic's name; the group is part of its changelog's name."""
    for path, value, length in (("topics.prefix", file.topics.prefix, 0), ("worker.group", file.worker.group, 1)):
        if not _NAMES_TOPICS.fullmatch(value) or len(value) < length:
            expected = f"{length} to 200 letters, digits, '.', '_' and '-' are expected"
            raise ConfigurationError(f"{name}: {path}: {json.dumps(value)} cannot name a topic; {expected}")


def _doubtful_copies(topics: TopicsConfig) -> list[ConfigWarning]:
    """Return a warning where no write could succeed; no error, since an option may still set the copies."""
    if topics.min_insync_replicas <= topics.replication_factor:
        return []
    copies = f"{topics.min_insync_replicas} is more than replicationFactor ({topics.replication_factor})"
    return [ConfigWarning("topics.minInsyncReplicas", f"{copies}; brokers would refuse every write")]


def _object(value: Any, path: str, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name}: {path}: an object is expected, not {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    """Return how a message calls a value that is none of what it should be."""
    if isinstance(value, Mapping):
        return "an object"
    return "an array" if isinstance(value, list) else json.dumps(value)


def _agent_blocks(agents: Mapping[str, Any], name: str, warnings: list[ConfigWarning]) -> list[AgentBlock]:
    """Return the agents that have a block of their own."""
    listed = agents.get("list")
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise ConfigurationError(f"{name}: agents.list: an array is expected, not {_kind(listed)}")
    blocks: dict[str, AgentBlock] = {}
    for index, agent in enumerate(listed):
        where = f"agents.list[{index}]"
        entry = _object(agent, where, name)
        agent_id = entry.get("id")
        if not isinstance(agent_id, str) or not agent_id:
            warnings.append(ConfigWarning(f"{where}.id", "an agent without an id cannot be told apart; ignored"))
            continue
        if agent_id in blocks:
            # As OpenClaw does, which takes the first entry that it finds.
            problem = f"{agent_id} is listed before; the first entry counts, this one is ignored"
            warnings.append(ConfigWarning(f"{where}.id", problem, agent_id))
            continue
        tools = _object(entry.get("tools"), f"{where}.tools", name)
        own = _object(tools.get("loopDetection"), f"{where}.{_BLOCK}", name)
        blocks[agent_id] = AgentBlock(agent_id, own, f"{where}.{_BLOCK}")
    return list(blocks.values())


def limits_of(config: WorkerConfig) -> Limits:
    """Return the limits that a worker's configuration sets."""
    return Limits(
        idle_run_s=config.idle_run_seconds,
        ended_run_grace_s=config.ended_run_grace_seconds,
        event_bytes_max=config.max_event_bytes,
        signal_ttl_s=config.signal_ttl_seconds,
        live_runs_max=config.live_runs_max,
    )
