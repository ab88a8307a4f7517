"""The generated schemas are current, true to the types, and their examples can be used as they are."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from loopwarden.schemas import examples
from loopwarden.schemas.configuration import ConfigurationFile
from loopwarden.schemas.events import EVENT_TYPES, Event
from loopwarden.schemas.generate import FOLDER, generated, schemas
from loopwarden.schemas.signals import Signal, SignalAck
from loopwarden.schemas.topics import TOPICS
from loopwarden.schemas.verdicts import Verdict
from loopwarden.streams.ingest import Refusal, read_event

SCHEMAS = schemas()
ASYNCAPI: dict[str, Any] = json.loads(generated()["asyncapi.json"])
SHOWN: list[tuple[str, Any, dict[str, Any]]] = [
    *((name, Event, example) for name, example in examples.EVENTS.items()),
    *(("event", Event, example) for example in examples.EVENTS.values()),
    ("verdict", Verdict, examples.VERDICT),
    ("signal", Signal, examples.SIGNAL),
    ("signal_ack", SignalAck, examples.SIGNAL_ACK),
    ("configuration", ConfigurationFile, examples.CONFIGURATION),
]


def is_valid(name: str, value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMAS[name]).is_valid(value))


def test_every_generated_file_is_current_and_none_is_left_over() -> None:
    found = {file.name: file.read_text(encoding="utf-8") for file in FOLDER.iterdir()}

    assert found == generated()


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize(("name", "kind", "example"), SHOWN)
def test_every_example_is_valid_and_survives_its_type(name: str, kind: Any, example: dict[str, Any]) -> None:
    decoded = msgspec.json.decode(json.dumps(example), type=kind)
    left_out = {field: value for field, value in example.items() if field == "retrying"}  # true is its default

    assert is_valid(name, example)
    assert json.loads(msgspec.json.encode(decoded)) | left_out == example or kind is ConfigurationFile


def test_there_is_an_example_of_every_type_of_event() -> None:
    assert sorted(examples.EVENTS) == sorted(EVENT_TYPES)


USABLE = {"type": "tool_call", "session_id": "s", "tool_name": "read"}
CASES: dict[str, dict[str, Any]] = {
    "the least that a call may say": USABLE,
    "an unknown field": USABLE | {"later": [1]},
    "any arguments": USABLE | {"args": [None, {"a": "b"}, 1.5]},
    "no session": {"type": "tool_call", "tool_name": "read"},
    "an empty session": USABLE | {"session_id": ""},
    "a number as session": USABLE | {"session_id": 7},
    "no tool": {"type": "tool_call", "session_id": "s"},
    "an unknown type": USABLE | {"type": "tool_progress"},
    "a text as sequence": USABLE | {"sequence": "1"},
    "a sequence beyond 64 bits": USABLE | {"sequence": 2**70},
    "a tool name without end": USABLE | {"tool_name": "x" * 600},
    "a text as switch": {"type": "compaction", "session_id": "s", "retrying": "yes"},
    "a result with usage": USABLE | {"type": "tool_result", "result": "x", "usage": {"cost_usd": 0.1}},
    "usage that is none": USABLE | {"type": "tool_result", "result": "x", "usage": {"cost_usd": "much"}},
}


@pytest.mark.parametrize("name", CASES)
def test_the_schema_takes_what_the_worker_takes_and_nothing_else(name: str) -> None:
    taken = not isinstance(read_event(json.dumps(CASES[name]).encode()), Refusal)

    assert is_valid("event", CASES[name]) == taken


def test_every_topic_is_a_channel_with_messages_and_an_operation() -> None:
    assert sorted(ASYNCAPI["channels"]) == sorted(spec.name for spec in TOPICS)
    assert all(channel["address"] and channel["messages"] for channel in ASYNCAPI["channels"].values())
    operated = {operation["channel"]["$ref"] for operation in ASYNCAPI["operations"].values()}
    assert operated == {f"#/channels/{spec.name}" for spec in TOPICS}


def test_every_reference_in_the_asyncapi_document_leads_somewhere() -> None:
    references = _references(ASYNCAPI)

    assert references
    for reference in references:
        if reference.startswith("./"):
            assert (FOLDER / reference).exists(), reference
        else:
            target: Any = ASYNCAPI
            for step in reference.removeprefix("#/").split("/"):
                target = target[step]


def _references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for item in node for found in _references(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for item in node.values() for found in _references(item)]
