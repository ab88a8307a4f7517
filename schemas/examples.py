"""An example of each thing on the wire; they stand in the generated schemas, and tests decode them."""

from __future__ import annotations

from typing import Any

_WHOSE = {
    "session_id": "support-4711",
    "run_id": "support-4711-run-2",
    "agent_id": "support",
    "runner_id": "runner-3",
}

_HASH = "blake2b:9f5c2e71ab0d4c3388e1f06a7d2b94c5"

#: By type, the plainest first.
EVENTS: dict[str, tuple[dict[str, Any], ...]] = {
    "run_started": ({"type": "run_started", "event_id": "e-1", "time": "2026-11-30T09:15:00.000Z", **_WHOSE},),
    "tool_call": (
        {
            "type": "tool_call",
            "event_id": "e-2",
            "time": "2026-11-30T09:15:02.125Z",
            **_WHOSE,
            "tool_call_id": "call-1",
            "tool_name": "read",
            "args": {"path": "notes/open-orders.md"},
        },
        {
            "type": "tool_call",
            "event_id": "e-6",
            "time": "2026-11-30T09:16:11.730Z",
            **_WHOSE,
            "tool_call_id": "call-2",
            "tool_name": "process",
            "args_hash": _HASH,
            "known_poll": True,
            "sequence": 6,
        },
    ),
    "tool_result": (
        {
            "type": "tool_result",
            "event_id": "e-3",
            "time": "2026-11-30T09:15:02.410Z",
            **_WHOSE,
            "tool_call_id": "call-1",
            "tool_name": "read",
            "args": {"path": "notes/open-orders.md"},
            "result": {"content": [{"type": "text", "text": "no open orders"}], "details": {"ok": True}},
            "usage": {"input_tokens": 1840, "output_tokens": 57, "cost_usd": 0.0061},
        },
        {
            "type": "tool_result",
            "event_id": "e-7",
            "time": "2026-11-30T09:16:12.044Z",
            **_WHOSE,
            "tool_call_id": "call-2",
            "tool_name": "process",
            "args_hash": _HASH,
            "result_hash": "blake2b:03d1c4a6be7f5029d4b8f6127ce0a93b",
            "sequence": 7,
        },
        {
            "type": "tool_result",
            "event_id": "e-8",
            "time": "2026-11-30T09:17:30.900Z",
            **_WHOSE,
            "tool_call_id": "call-3",
            "tool_name": "open_ticket",
            "args": {"order": 1093},
            "error": "Unknown tool: open_ticket",
            "error_type": "tool_not_found",
        },
    ),
    "compaction": (
        {
            "type": "compaction",
            "event_id": "e-4",
            "time": "2026-11-30T09:21:40.000Z",
            **_WHOSE,
            "reason": "context overflow",
            "tokens_before": 181_000,
            "tokens_after": 24_000,
        },
        {
            "type": "compaction",
            "event_id": "e-9",
            "time": "2026-11-30T09:21:55.000Z",
            **_WHOSE,
            "retrying": False,
            "reason": "asked for by the user",
        },
    ),
    "run_ended": (
        {
            "type": "run_ended",
            "event_id": "e-5",
            "time": "2026-11-30T09:22:10.000Z",
            **_WHOSE,
            "status": "completed",
        },
    ),
}

VERDICT: dict[str, Any] = {
    "verdict_id": "39e261355c649cb6c05c4f617637bed5",
    "time": "2026-11-30T09:18:41.003Z",
    **_WHOSE,
    "level": "critical",
    "detector": "generic_repeat",
    "count": 20,
    "tool_name": "read",
    "action": "block",
    "message": "read was called 20 times with the same arguments and the same result: the call cannot bring anything "
    "new.",
    "evidence": {
        "topic": "loopwarden.events",
        "partition": 3,
        "first_offset": 88_412,
        "last_offset": 88_932,
        "args_fingerprints": ["4318056c5cb76599"],
        "result_fingerprints": ["66b1b019ef112a0f"],
    },
    "config": {
        "enabled": True,
        "historySize": 30,
        "warningThreshold": 10,
        "criticalThreshold": 20,
        "globalCircuitBreakerThreshold": 30,
        "unknownToolThreshold": 10,
        "postCompactionGuard.windowSize": 3,
        "detectors.genericRepeat": True,
        "detectors.knownPollNoProgress": True,
        "detectors.pingPong": True,
        "onCritical": "block_then_kill",
        "layers": {"enabled": "tools.loopDetection"},
    },
}

SIGNAL: dict[str, Any] = {
    "signal_id": "e6202e66a92f0c8f814be631b4ff7ee7",
    "verdict_id": "39e261355c649cb6c05c4f617637bed5",
    "action": "block",
    **_WHOSE,
    "reason": "generic_repeat",
    "message": "read was called 20 times with the same arguments and the same result: the call cannot bring anything "
    "new.",
    "issued_at": "2026-11-30T09:18:41.010Z",
    "expires_at": "2026-12-01T09:18:41.010Z",
}

SIGNAL_ACK: dict[str, Any] = {
    "signal_id": "e6202e66a92f0c8f814be631b4ff7ee7",
    "runner_id": "runner-3",
    "status": "applied",
    "time": "2026-11-30T09:18:41.220Z",
}

CONFIGURATION: dict[str, Any] = {
    "tools": {"loopDetection": {"enabled": True, "onCritical": "block_then_kill"}},
    "agents": {"list": [{"id": "support", "tools": {"loopDetection": {"warningThreshold": 8}}}]},
    "kafka": {"bootstrap.servers": "kafka-1:9092,kafka-2:9092", "security.protocol": "SASL_SSL"},
    "topics": {"partitions": 24, "replicationFactor": 3, "minInsyncReplicas": 2},
    "worker": {"statusHost": "0.0.0.0", "statusPort": 9464},  # noqa: S104 - an example of it
}

#: Value of a record on the config topic.
CONFIG_LAYER: dict[str, Any] = {"enabled": True, "warningThreshold": 8, "onCritical": "block_then_kill"}

#: Headers and value of a record on the dead-letters topic: a call whose tool is not named.
DEAD_LETTER: dict[str, Any] = {
    "headers": {
        "reason": "wrong_type",
        "detail": "Object missing required field `tool_name`",
        "source_topic": "loopwarden.events",
        "source_partition": "3",
        "source_offset": "88120",
    },
    "payload": {"type": "tool_call", "session_id": "support-4711"},
}
