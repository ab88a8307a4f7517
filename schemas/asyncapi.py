"""The AsyncAPI document: topics as channels, with what may be sent to and received from each."""

from __future__ import annotations

from typing import Any

from loopwarden.schemas import dead_letters
from loopwarden.schemas.topics import DEFAULT_PREFIX, TOPICS, TopicSpec

_TITLE = "Loopwarden"
_VERSION = "1.0.0"

#: Messages by channel. Values of config and dead-letters have no schema: one is a block of a configuration file, the
#: other whatever could not be used.
_MESSAGES: dict[str, tuple[str, ...]] = {
    "events": ("tool_call", "tool_result", "compaction", "run_started", "run_ended"),
    "verdicts": ("verdict",),
    "signals": ("signal",),
    "signal-acks": ("signal_ack",),
    "config": ("config_layer",),
    "dead-letters": ("dead_letter",),
}
#: Channels that Loopwarden reads; it writes to the others.
_READ = ("events", "signal-acks", "config")

_TEXT = {"type": "string"}
_CLOUD_EVENT_HEADERS = ("ce_id", "ce_source", "ce_type", "ce_subject", "ce_time")
_DEAD_LETTER_HEADERS = (
    dead_letters.HEADER_REASON,
    dead_letters.HEADER_DETAIL,
    dead_letters.HEADER_SOURCE_TOPIC,
    dead_letters.HEADER_SOURCE_PARTITION,
    dead_letters.HEADER_SOURCE_OFFSET,
)


def asyncapi_document(schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the document; ``schemas`` are the JSON Schemas by name."""
    names = [name for messages in _MESSAGES.values() for name in messages]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": _TITLE,
            "version": _VERSION,
            "description": "Tool call events of AI agents in, verdicts and signals about loops out. Records are JSON, "
            "keyed so that a session's events, state, verdicts and signals share one partition number; partitioning is "
            "Java's murmur2 (librdkafka: partitioner=murmur2_random). Topic names carry a prefix, by default "
            f"{DEFAULT_PREFIX!r}.",
        },
        "defaultContentType": "application/json",
        "channels": {spec.name: _channel(spec) for spec in TOPICS},
        "operations": {f"{_verb(spec)}_{spec.name}": _operation(spec) for spec in TOPICS},
        "components": {"messages": {name: _message(name, schemas) for name in names}},
    }


def _verb(spec: TopicSpec) -> str:
    return "receive" if spec.name in _READ else "send"


def _channel(spec: TopicSpec) -> dict[str, Any]:
    kept = "newest record of each key" if spec.retention_s is None else f"{spec.retention_s // 86_400} days"
    return {
        "address": DEFAULT_PREFIX + spec.name,
        "description": f"{spec.content}. Key: {spec.key}. Written by: {spec.written_by}. Kept: {kept}.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _MESSAGES[spec.name]},
        "bindings": {
            "kafka": {
                "topic": DEFAULT_PREFIX + spec.name,
                "topicConfiguration": {"cleanup.policy": list(spec.cleanup)}
                | ({} if spec.retention_s is None else {"retention.ms": spec.retention_s * 1000}),
            }
        },
    }


def _operation(spec: TopicSpec) -> dict[str, Any]:
    return {
        "action": _verb(spec),
        "channel": {"$ref": f"#/channels/{spec.name}"},
        "messages": [{"$ref": f"#/channels/{spec.name}/messages/{name}"} for name in _MESSAGES[spec.name]],
    }


def _message(name: str, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    headers = _DEAD_LETTER_HEADERS if name == "dead_letter" else _CLOUD_EVENT_HEADERS
    message: dict[str, Any] = {
        "name": name,
        "headers": {"type": "object", "properties": dict.fromkeys(headers, _TEXT)},
        "payload": {"description": "the record's value, byte for byte"},
    }
    if name == "config_layer":
        message["payload"] = {"type": "object", "description": "a tools.loopDetection block"}
    if name in schemas:
        schema = schemas[name]
        # Draft 2020-12 is what the schema says it is; the reference is to the file beside this one.
        message["payload"] = {
            "schemaFormat": "application/schema+json;version=draft-2020-12",
            "schema": {"$ref": f"./{name}.schema.json"},
        }
        message["examples"] = [{"payload": example} for example in schema["examples"]]
    return message
