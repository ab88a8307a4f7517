"""The AsyncAPI document: topics as channels, with what may be sent to and received from each.

It is what people and code generators read who never look at the types, so it says all that a client must get right:
keys, partitions, headers, how long records are kept.
"""

from __future__ import annotations

from typing import Any, get_args

from loopwarden.schemas import dead_letters, examples
from loopwarden.schemas.topics import DAY_S, DEFAULT_PREFIX, TOPICS, TopicSpec

_TITLE = "Loopwarden"
_VERSION = "1.0.0"
#: Version of AsyncAPI's Kafka bindings, which say how topics and keys are written down.
_BINDINGS = "0.5.0"

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

#: CloudEvents attributes that producers of events may use for what the value leaves out.
_EVENT_HEADERS = {
    "ce_type": "The type, where the value has none; what stands before its last dot is ignored.",
    "ce_id": "The event_id, where the value has none.",
    "ce_source": "The runner_id, where the value has none.",
    "ce_subject": "The run_id, where the value has none.",
    "ce_time": "The time, where the value has none; RFC 3339.",
}
_DEAD_LETTER_HEADERS: dict[str, dict[str, Any]] = {
    dead_letters.HEADER_REASON: {"enum": list(get_args(dead_letters.Reason)), "description": "Why it cannot be used."},
    dead_letters.HEADER_DETAIL: {"description": "What was found, and where."},
    dead_letters.HEADER_SOURCE_TOPIC: {"description": "Topic that it was read from."},
    dead_letters.HEADER_SOURCE_PARTITION: {"description": "Partition that it was read from, in decimal."},
    dead_letters.HEADER_SOURCE_OFFSET: {"description": "Offset that it was read from, in decimal."},
}


def asyncapi_document(schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the document; ``schemas`` are the JSON Schemas by name."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": _TITLE,
            "version": _VERSION,
            "description": "Tool call events of AI agents in, verdicts and signals about loops out. Values are JSON, "
            "keys UTF-8. A session's events, state, verdicts and signals share one partition number; partitioning is "
            "Java's murmur2 (librdkafka: partitioner=murmur2_random). Topic names carry a prefix, by default "
            f"{DEFAULT_PREFIX!r}.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {spec.name: _channel(spec) for spec in TOPICS},
        "operations": {f"{_verb(spec)}_{spec.name}": _operation(spec) for spec in TOPICS},
        "components": {
            "messages": {name: _message(name, spec, schemas) for spec in TOPICS for name in _MESSAGES[spec.name]}
        },
    }


def _verb(spec: TopicSpec) -> str:
    return "receive" if spec.name in _READ else "send"


def _channel(spec: TopicSpec) -> dict[str, Any]:
    kept = "newest record of each key" if spec.retention_s is None else f"{spec.retention_s // DAY_S} days"
    partitions = "as many as of events" if spec.partitions is None else str(spec.partitions)
    return {
        "address": DEFAULT_PREFIX + spec.name,
        "description": f"{spec.content}. Key: {spec.key}. Partitions: {partitions}. Written by: {spec.written_by}. "
        f"Kept: {kept}.",
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in _MESSAGES[spec.name]},
        "bindings": {
            "kafka": {
                "bindingVersion": _BINDINGS,
                "topic": DEFAULT_PREFIX + spec.name,
                "topicConfiguration": {"cleanup.policy": list(spec.cleanup)}
                | ({} if spec.retention_s is None else {"retention.ms": spec.retention_s * 1000}),
            }
            | ({} if spec.partitions is None else {"partitions": spec.partitions})
        },
    }


def _operation(spec: TopicSpec) -> dict[str, Any]:
    return {
        "action": _verb(spec),
        "channel": {"$ref": f"#/channels/{spec.name}"},
        "messages": [{"$ref": f"#/channels/{spec.name}/messages/{name}"} for name in _MESSAGES[spec.name]],
    }


def _message(name: str, spec: TopicSpec, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    # The key of a dead letter is whatever it was, so nothing is said of its type.
    key = {"description": spec.key} if name == "dead_letter" else {"type": "string", "description": spec.key}
    message: dict[str, Any] = {"name": name, "bindings": {"kafka": {"bindingVersion": _BINDINGS, "key": key}}}
    headers = _headers(name, spec)
    if headers is not None:
        message["headers"] = headers
    if name in schemas:
        # Draft 2020-12 is what the schema says it is; the reference is to the file beside this one.
        message["payload"] = {
            "schemaFormat": "application/schema+json;version=draft-2020-12",
            "schema": {"$ref": f"./{name}.schema.json"},
        }
        message["summary"] = " ".join(schemas[name]["description"].split("\n\n")[0].split())
        message["examples"] = [{"payload": example} for example in schemas[name]["examples"]]
    elif name == "config_layer":
        message["payload"] = {"type": "object", "description": "a tools.loopDetection block"}
        message["examples"] = [{"payload": examples.CONFIG_LAYER}]
    else:
        message["payload"] = {"description": "the record's value, byte for byte"}
        message["examples"] = [examples.DEAD_LETTER]
    return message


def _headers(name: str, spec: TopicSpec) -> dict[str, Any] | None:
    """Return the schema of a message's headers, all of them UTF-8 text, or None where none are looked at or sent."""
    if spec.name == "events":
        return _texts({header: {"description": text} for header, text in _EVENT_HEADERS.items()}, ())
    if name == "dead_letter":
        return _texts(_DEAD_LETTER_HEADERS, tuple(_DEAD_LETTER_HEADERS))
    if name not in ("verdict", "signal"):
        return None
    sent: dict[str, dict[str, Any]] = {
        "ce_specversion": {"const": "1.0"},
        "ce_id": {"description": f"The {name}_id."},
        "ce_source": {"const": "loopwarden"},
        "ce_type": {"const": f"loopwarden.{name}"},
        "ce_time": {"description": "The time of a verdict, the issued_at of a signal; RFC 3339 in UTC."},
        "content-type": {"const": "application/json"},
    }
    return _texts({**sent, "ce_subject": {"description": "The run_id, where there is one."}}, tuple(sent))


def _texts(headers: dict[str, dict[str, Any]], required: tuple[str, ...]) -> dict[str, Any]:
    properties = {header: {"type": "string", **says} for header, says in headers.items()}
    return {"type": "object", "properties": properties, "required": list(required)}
