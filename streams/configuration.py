"""Reads a configuration file, and says exactly what is wrong with it where it cannot be used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import json5
import msgspec

from loopwarden.schemas.configuration import ConfigurationFile, WorkerConfig
from loopwarden.streams.partition import Limits
from loopwarden.streams.settings import AgentBlock, ConfigWarning, SettingsBook, resolve

_BLOCK = "tools.loopDetection"
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
    try:
        file = msgspec.convert(content, ConfigurationFile)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{name}: {_readable(error)}") from None
    block = _object(file.tools.get("loopDetection"), _BLOCK, name)
    agents = _agent_blocks(file.agents, name, warnings)
    book, found = resolve(block, agents)
    return Configuration(book, file, warnings + found)


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        content = json5.loads(text, allow_duplicate_keys=False)
    except ValueError as error:
        raise ConfigurationError(f"{name}{_located(str(error))}") from None
    except RecursionError:
        raise ConfigurationError(f"{name}: nested too deeply") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{name}: the file holds no object")
    return content


def _located(message: str) -> str:
    """Return what the parser says in the form ``:line:column: what``."""
    found = _WHERE.search(message)
    if found is None:
        return f": {message}"
    line, what, column = found.groups()
    return f":{line}:{column}: {' '.join(what.split())}"


def _readable(error: msgspec.ValidationError) -> str:
    """Return ``path: what`` for ``what - at `$.path```."""
    what, _at, path = str(error).partition(" - at `$.")
    return f"{path.rstrip('`')}: {what}" if path else what


def _object(value: Any, path: str, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name}: {path}: an object is expected")
    return value


def _agent_blocks(agents: Mapping[str, Any], name: str, warnings: list[ConfigWarning]) -> list[AgentBlock]:
    """Return the agents that have a block of their own."""
    listed = agents.get("list")
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise ConfigurationError(f"{name}: agents.list: an array is expected")
    blocks: dict[str, AgentBlock] = {}
    for index, agent in enumerate(listed):
        where = f"agents.list[{index}]"
        entry = _object(agent, where, name)
        agent_id = entry.get("id")
        if not isinstance(agent_id, str) or not agent_id:
            warnings.append(ConfigWarning(f"{where}.id", "an agent without an id cannot be told apart; ignored"))
            continue
        if agent_id in blocks:
            warnings.append(ConfigWarning(f"{where}.id", f"{agent_id!r} is listed twice; the later one counts"))
        own = _object(_object(entry.get("tools"), f"{where}.tools", name).get("loopDetection"), where, name)
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
