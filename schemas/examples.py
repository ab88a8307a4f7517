"""An example of each thing on the wire; they stand in the generated schemas, and tests decode them."""

from __future__ import annotations

from typing import Any

_WHOSE = {
    "session_id": "support-4711",
    "run_id": "support-4711-run-2",
    "agent_id": "support",
    "runner_id": "runner-3",
}

EVENTS: dict[str, dict[str, Any]] = {
    "run_started": {"type": "run_started", "event_id": "e-1", "time": "2026-11-30T09:15:00.000Z", **_WHOSE},
    "tool_call": {
        "type": "tool_call",
        "event_id": "e-2",
        "time": "2026-11-30T09:15:02.125Z",
        **_WHOSE,
        "tool_call_id": "call-1",
        "tool_name": "read",
        "args": {"path": "notes/open-orders.md"},
    },
    "tool_result": {
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
    "compaction": {
        "type": "compaction",
        "event_id": "e-4",
        "time": "2026-11-30T09:21:40.000Z",
        **_WHOSE,
        "retrying": True,
        "reason": "context overflow",
        "tokens_before": 181_000,
        "tokens_after": 24_000,
    },
    "run_ended": {
        "type": "run_ended",
        "event_id": "e-5",
        "time": "2026-11-30T09:22:10.000Z",
        **_WHOSE,
        "status": "completed",
    },
}

VERDICT: dict[str, Any] = {
    "verdict_id": "5d0f1c0d9be2a7f3c1b64a0e8f2d7c55",
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
        "last_offset": 88_934,
        "args_fingerprints": ["84376b7eca4a6149"],
        "result_fingerprints": ["0f6fd7b6e07c2a11"],
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
    "signal_id": "14c4b7f00aa94d0c9a4b1f0de3c9a7e2",
    "verdict_id": "5d0f1c0d9be2a7f3c1b64a0e8f2d7c55",
    "action": "block",
    **_WHOSE,
    "reason": "generic_repeat",
    "message": "read was called 20 times with the same arguments and the same result: the call cannot bring anything "
    "new.",
    "issued_at": "2026-11-30T09:18:41.010Z",
    "expires_at": "2026-12-01T09:18:41.010Z",
}

SIGNAL_ACK: dict[str, Any] = {
    "signal_id": "14c4b7f00aa94d0c9a4b1f0de3c9a7e2",
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
