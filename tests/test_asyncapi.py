"""The AsyncAPI document is well formed, and says of topics, keys and headers what is really sent and read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import jsonschema
import msgspec
import pytest

from loopwarden.schemas import examples
from loopwarden.schemas.events import ToolCall
from loopwarden.schemas.generate import FOLDER, generated, schemas
from loopwarden.schemas.signals import Signal
from loopwarden.schemas.topics import DEFAULT_PREFIX, TOPICS
from loopwarden.schemas.verdicts import Verdict
from loopwarden.streams.ingest import Refusal, read_event
from loopwarden.streams.plumbing.chunks import Chunk
from loopwarden.streams.plumbing.outgoing import dead_letter_record, signal_record, verdict_record

SCHEMAS = schemas()
ASYNCAPI: dict[str, Any] = json.loads(generated()["asyncapi.json"])
MESSAGES: dict[str, Any] = ASYNCAPI["components"]["messages"]


class Record(NamedTuple):
    value: bytes
    offset: int
    timestamp: int = 0
    key: bytes | None = None


def test_every_topic_is_a_channel_with_messages_and_an_operation() -> None:
    assert sorted(ASYNCAPI["channels"]) == sorted(spec.name for spec in TOPICS)
    assert all(channel["messages"] for channel in ASYNCAPI["channels"].values())
    operated = sorted(operation["channel"]["$ref"] for operation in ASYNCAPI["operations"].values())
    assert operated == sorted(f"#/channels/{spec.name}" for spec in TOPICS)
    addresses = sorted(channel["address"] for channel in ASYNCAPI["channels"].values())
    assert addresses == sorted(DEFAULT_PREFIX + spec.name for spec in TOPICS)


def test_the_document_has_what_asyncapi_3_requires() -> None:
    assert ASYNCAPI["asyncapi"] == "3.0.0"
    assert ASYNCAPI["info"]["title"] and ASYNCAPI["info"]["version"]
    for operation in ASYNCAPI["operations"].values():
        assert operation["action"] in ("send", "receive")
        own = operation["channel"]["$ref"] + "/messages/"
        assert operation["messages"] and all(message["$ref"].startswith(own) for message in operation["messages"])
    used = {name for channel in ASYNCAPI["channels"].values() for name in channel["messages"]}
    assert used == set(MESSAGES)


def test_every_channel_says_key_and_cleanup_of_its_topic() -> None:
    for spec in TOPICS:
        channel = ASYNCAPI["channels"][spec.name]
        topic = channel["bindings"]["kafka"]
        keys = {MESSAGES[name]["bindings"]["kafka"]["key"]["description"] for name in channel["messages"]}

        assert topic["topic"] == channel["address"]
        assert topic["topicConfiguration"]["cleanup.policy"] == list(spec.cleanup)
        assert topic.get("partitions") == spec.partitions
        assert keys == {spec.key}


def test_every_reference_in_the_asyncapi_document_leads_somewhere() -> None:
    references = list(_references(ASYNCAPI))

    assert references
    for reference in references:
        if reference.startswith("./"):
            assert (FOLDER / reference).exists(), reference
        else:
            target: Any = ASYNCAPI
            for step in reference.removeprefix("#/").split("/"):
                target = target[step]


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from _references(item)
    elif isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for item in node.values():
            yield from _references(item)


@pytest.mark.parametrize("name", MESSAGES)
def test_every_message_shows_examples_that_its_schemas_allow(name: str) -> None:
    message = MESSAGES[name]

    assert message["examples"]
    for example in message["examples"]:
        if name in SCHEMAS:
            assert jsonschema.Draft202012Validator(SCHEMAS[name]).is_valid(example["payload"])
        if "headers" in example:
            jsonschema.validate(example["headers"], message["headers"])


@pytest.mark.parametrize("name", ["verdict", "signal"])
def test_what_is_sent_has_the_headers_that_the_document_names(name: str) -> None:
    send: Any = {"verdict": verdict_record, "signal": signal_record}[name]
    kind, example = {"verdict": (Verdict, examples.VERDICT), "signal": (Signal, examples.SIGNAL)}[name]
    described = MESSAGES[name]["headers"]
    for left_out in ((), ("run_id",)):
        value = {field: content for field, content in example.items() if field not in left_out}
        sent = {header: text.decode() for header, text in send(msgspec.convert(value, kind)).headers}

        jsonschema.validate(sent, described)
        assert set(sent) <= set(described["properties"])
        assert ("ce_subject" in sent) == (not left_out)


def test_a_dead_letter_is_sent_as_its_example_shows() -> None:
    shown = examples.DEAD_LETTER
    record = Record(json.dumps(shown["payload"]).encode(), int(shown["headers"]["source_offset"]))
    chunk = Chunk(shown["headers"]["source_topic"], int(shown["headers"]["source_partition"]), [record])
    refusal = read_event(record.value)
    assert isinstance(refusal, Refusal)
    sent = dead_letter_record(chunk, record, refusal)

    assert {header: text.decode() for header, text in sent.headers} == shown["headers"]
    assert sent.value == record.value


def test_the_headers_that_the_document_names_fill_in_what_an_event_lacks() -> None:
    given_headers = {
        "ce_type": "com.example.tool_call",
        "ce_id": "e-1",
        "ce_source": "runner-3",
        "ce_subject": "run-2",
        "ce_time": "2026-11-30T09:15:00Z",
    }
    bare = b'{"session_id":"s","tool_name":"read"}'
    read = read_event(bare, [(name, text.encode()) for name, text in given_headers.items()])

    assert set(given_headers) == set(MESSAGES["tool_call"]["headers"]["properties"])
    assert read == ToolCall(
        session_id="s",
        run_id="run-2",
        runner_id="runner-3",
        event_id="e-1",
        time="2026-11-30T09:15:00Z",
        tool_name="read",
    )
