"""Writes the JSON Schemas and the AsyncAPI document that stand beside the types, from the types.

``python -m loopwarden.schemas.generate`` writes them, ``--check`` only says whether they are current.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import msgspec

from loopwarden.schemas import examples
from loopwarden.schemas.asyncapi import asyncapi_document
from loopwarden.schemas.configuration import ConfigurationFile
from loopwarden.schemas.events import Compaction, Event, RunEnded, RunStarted, ToolCall, ToolResult
from loopwarden.schemas.signals import Signal, SignalAck
from loopwarden.schemas.verdicts import Verdict

FOLDER = Path(__file__).parent / "generated"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ID_PREFIX = "urn:loopwarden:schema:"

#: Said of the schema of all events, whose type is a union and has no docstring.
_ANY_EVENT = "Any event, told by its type."

_EVENT_TYPES: dict[str, type[msgspec.Struct]] = {
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "compaction": Compaction,
    "run_started": RunStarted,
    "run_ended": RunEnded,
}


def schemas() -> dict[str, dict[str, Any]]:
    """Return every JSON Schema by the name of its file, without its ending."""
    found = {name: _schema(name, kind, list(examples.EVENTS[name])) for name, kind in _EVENT_TYPES.items()}
    found["event"] = _schema("event", Event, [example for shown in examples.EVENTS.values() for example in shown])
    found["verdict"] = _schema("verdict", Verdict, [examples.VERDICT])
    found["signal"] = _schema("signal", Signal, [examples.SIGNAL])
    found["signal_ack"] = _schema("signal_ack", SignalAck, [examples.SIGNAL_ACK])
    found["configuration"] = _schema("configuration", ConfigurationFile, [examples.CONFIGURATION])
    return found


def _schema(name: str, kind: Any, shown: list[dict[str, Any]]) -> dict[str, Any]:
    (root,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for definition in definitions.values():
        _require_session(definition)
    described = definitions.get(getattr(kind, "__name__", ""), {}).get("description", _ANY_EVENT)
    return {
        "$schema": _DIALECT,
        "$id": f"{_ID_PREFIX}{name}",
        "title": name,
        "description": described,
        **root,
        "examples": shown,
        "$defs": definitions,
    }


def _require_session(definition: dict[str, Any]) -> None:
    """Make ``session_id`` of events required, as the worker does after decoding, when headers have had their say."""
    properties = definition.get("properties", {})
    if "type" not in properties or "session_id" not in properties:
        return
    stated = properties["session_id"]
    text = next(choice for choice in stated["anyOf"] if choice["type"] == "string")
    properties["session_id"] = {"description": stated["description"], **text, "minLength": 1}
    definition["required"] = sorted({*definition["required"], "session_id"})


def generated() -> dict[str, str]:
    """Return the text of every generated file by its name."""
    described = schemas()
    files = {f"{name}.schema.json": _text(schema) for name, schema in described.items()}
    files["asyncapi.json"] = _text(asyncapi_document(described))
    return files


def _text(document: dict[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2).decode() + "\n"


def main() -> int:
    """Write what differs, or with ``--check`` name it and return 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where something differs")
    check = parser.parse_args().check
    stale = []
    for name, text in generated().items():
        file = FOLDER / name
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            FOLDER.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    for name in stale:
        sys.stdout.write(f"{'stale' if check else 'wrote'} {name}\n")
    if stale and check:
        sys.stdout.write("run 'make schemas'\n")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
