"""The detection rules restated as plainly as possible: whole histories, scanned anew for every event.

Slow and obvious on purpose; the fast core is held to it. Shares no code with the core.
"""

from __future__ import annotations

import re
from typing import Any

DEFAULTS = {
    "enabled": None,
    "historySize": 30,
    "warningThreshold": 10,
    "criticalThreshold": 20,
    "globalCircuitBreakerThreshold": 30,
    "unknownToolThreshold": 10,
}
VOLATILE = (  # noqa: SIM905
    "messageId message_id messageIds platformMessageId platformMessageIds fileId file_id fileKey pollId poll_id "
    "receipt runId idempotencyKey ts timestamp sentAt deliveredAt createdAt"
).split()
SENDS = "send broadcast reply thread-reply sendWithEffect sendAttachment upload-file sticker poll".split()  # noqa: SIM905
CHATS = "telegram whatsapp discord slack signal imessage msteams feishu matrix line googlechat mattermost".split()  # noqa: SIM905


def configured(block: dict[str, Any]) -> dict[str, Any]:
    config = dict(DEFAULTS)
    for name in DEFAULTS:
        value = block.get(name)
        if name == "enabled" or (type(value) is int and value > 0):
            config[name] = value
    config["criticalThreshold"] = max(config["criticalThreshold"], config["warningThreshold"] + 1)
    config["globalCircuitBreakerThreshold"] = max(
        config["globalCircuitBreakerThreshold"], config["criticalThreshold"] + 1
    )
    for name in ("genericRepeat", "knownPollNoProgress", "pingPong"):
        config[name] = block.get("detectors", {}).get(name, True)
    window = block.get("postCompactionGuard", {}).get("windowSize")
    config["window"] = window if type(window) is int and window > 0 else 3
    return config


def frozen(value: Any) -> Any:
    """A value that compares as the rules say: numbers by value, but neither with booleans nor with texts."""
    if isinstance(value, dict):
        return ("object", frozenset((name, frozen(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("array", tuple(frozen(item) for item in value))
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, (int, float)):
        return ("number", value)
    return ("other", value)


def signature_of(event: dict[str, Any]) -> Any:
    if event.get("args_hash") is not None:
        return (event["tool_name"], "hash", event["args_hash"])
    return (event["tool_name"], "value", frozen(event.get("args")))


def stripped(value: Any) -> Any:
    if isinstance(value, list):
        return [stripped(item) for item in value]
    if not isinstance(value, dict):
        return value
    message = (
        isinstance(value.get("id"), str)
        and isinstance(value.get("text"), str)
        and (
            any(isinstance(value.get(name), str) for name in ("direction", "senderId", "accountId"))
            or isinstance(value.get("conversation"), dict)
        )
    )
    return {
        name: stripped(item) for name, item in value.items() if name not in VOLATILE and not (message and name == "id")
    }


def outcome_of(event: dict[str, Any], tool: str, args: Any) -> tuple[Any, str | None]:
    named = event["unknown_tool"].lower() if event.get("unknown_tool") else None
    if event.get("result_hash") is not None:
        return ("hash", event["result_hash"]), named
    if event.get("error") is not None:
        error = event["error"]
        text = error if isinstance(error, str) else ""
        found = re.search(
            r"unknown tool:? *[\"'`]?([\w.-]+)|tool [\"'`]?([\w.-]+)[\"'`]? (?:not found|is not available)",
            text,
            re.I | re.A,
        )
        return ("error", frozen(error)), (found[1] or found[2]).rstrip(".").lower() if found else named
    if "result" not in event:
        return None, None
    value = event["result"]
    if not isinstance(value, dict) or not (
        isinstance(value.get("content"), list) or isinstance(value.get("details"), dict)
    ):
        return ("value", frozen(value)), named
    details = value["details"] if isinstance(value.get("details"), dict) else {}
    content = value["content"] if isinstance(value.get("content"), list) else []
    text = "\n".join(
        part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
    ).strip()
    if details.get("status") == "blocked" and details.get("deniedReason") == "tool-loop":
        return None, None
    action = args.get("action") if isinstance(args, dict) else None
    status = details.get("status")
    if tool == "exec" and status == "running":
        return ("running", frozen(details.get("tail"))), named
    if tool == "exec" and status in ("completed", "failed"):
        aggregated = details.get("aggregated")
        output = aggregated if isinstance(aggregated, str) and aggregated.strip() else text
        return (
            "ended",
            status,
            frozen(details.get("exitCode")),
            frozen(details.get("timedOut")),
            output,
        ), named
    if tool == "exec" and status in ("approval-pending", "approval-unavailable"):
        facts = [details.get(name) for name in ("reason", "host", "command", "warningText")]
        return ("approval", status, frozen(facts)), named
    if tool == "process" and action == "poll":
        facts = [details.get(name) for name in ("status", "exitCode", "exitSignal", "aggregated")]
        return ("poll", text, frozen(facts)), named
    if tool == "process" and action == "log":
        names = ("status", "totalLines", "totalChars", "truncated", "exitCode", "exitSignal")
        return ("log", text, frozen([details.get(name) for name in names])), named
    sends = (
        tool == "sessions_send"
        or (tool == "message" and action in SENDS)
        or (tool in CHATS and isinstance(args, dict) and isinstance(args.get("to"), str) and args["to"].strip())
    )
    if sends:
        return ("sent", frozen(stripped(details))), named
    return ("all", frozen(value.get("details")), text), named


class NaiveRun:
    """One run, kept as the list of all calls in its window."""

    def __init__(self, block: dict[str, Any]) -> None:
        self.config = configured(block)
        self.calls: list[dict[str, Any]] = []
        self.left = 0
        self.seen: list[Any] = []
        self.subject: Any = None  # what the latest decision is about, for publishing

    def fold(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Return the decision the event causes, in the form of the vectors, without ``at``."""
        if event["type"] == "tool_call":
            decision = self.decide(event) if self.config["enabled"] else None
            self.remember(event, None, None)
            return decision
        if event["type"] == "tool_result":
            return self.finish(event)
        if event["type"] == "compaction" and event.get("retrying", True) and self.config["enabled"] is not False:
            self.left, self.seen = self.config["window"], []
        return None

    def remember(self, event: dict[str, Any], result: Any, unknown: str | None) -> dict[str, Any]:
        call = {
            "tool": event["tool_name"],
            "args": event.get("args"),
            "signature": signature_of(event),
            "id": event.get("tool_call_id"),
            "result": result,
            "unknown": unknown,
        }
        self.calls = [*self.calls, call][-self.config["historySize"] :]
        return call

    def finish(self, event: dict[str, Any]) -> dict[str, Any] | None:
        has_args = event.get("args_hash") is not None or event.get("args") is not None
        call_id = event.get("tool_call_id")
        if call_id is not None and any(c["id"] == call_id and c["result"] is not None for c in self.calls):
            return None
        open_calls = [
            call
            for call in self.calls
            if call["result"] is None
            and call["tool"] == event["tool_name"]
            and (call_id is None or call["id"] == call_id)
            and (not has_args or call["signature"] == signature_of(event))
        ]
        if not open_calls and not has_args:
            return None
        args = open_calls[-1]["args"] if open_calls else event.get("args")
        result, unknown = outcome_of(event, event["tool_name"], args)
        if result is None:
            return None
        if open_calls:
            call = open_calls[-1]
            call["result"], call["unknown"] = result, unknown
        else:
            call = self.remember(event, result, unknown)
        return self.watch(call)

    def watch(self, call: dict[str, Any]) -> dict[str, Any] | None:
        if self.left == 0:
            return None
        self.left -= 1
        self.seen.append((call["signature"], call["result"]))
        count = self.seen.count(self.seen[-1])
        if count < self.config["window"]:
            return None
        self.subject = self.seen[-1]
        return said("critical", "compaction_loop_persisted", count, call["tool"])

    def decide(self, event: dict[str, Any]) -> dict[str, Any] | None:
        config, tool, signature = self.config, event["tool_name"], signature_of(event)
        same = [call for call in self.calls if call["signature"] == signature]
        repeats = len(same)
        results = [call["result"] for call in reversed(same) if call["result"] is not None]
        streak = leading(results, lambda result: result == results[0])
        newest_first = list(reversed(self.calls))
        unknown = leading(
            newest_first,
            lambda call: (
                call["tool"] == tool and call["unknown"] is not None and call["unknown"] == newest_first[0]["unknown"]
            ),
        )
        args = event.get("args") if isinstance(event.get("args"), dict) else {}
        poll = (
            tool == "command_status"
            or (tool == "process" and event.get("args_hash") is None and args.get("action") in ("poll", "log"))
            or bool(event.get("known_poll"))
        )
        self.subject = (signature, results[0] if results else None)
        if unknown >= config["unknownToolThreshold"]:
            self.subject = newest_first[0]["unknown"]
            return said("critical", "unknown_tool_repeat", unknown, tool)
        if streak >= config["globalCircuitBreakerThreshold"]:
            return said("critical", "global_circuit_breaker", streak, tool)
        if poll and config["knownPollNoProgress"] and streak >= config["warningThreshold"]:
            level = "critical" if streak >= config["criticalThreshold"] else "warning"
            return said(level, "known_poll_no_progress", streak, tool)
        if config["pingPong"]:
            decision = self.decide_ping_pong(signature, tool)
            if decision is not None:
                return decision
        if config["genericRepeat"] and not poll:
            if streak >= config["criticalThreshold"]:
                return said("critical", "generic_repeat", streak, tool)
            if repeats >= config["warningThreshold"]:
                self.subject = signature
                return said("warning", "generic_repeat", repeats, tool)
        return None

    def decide_ping_pong(self, signature: Any, tool: str) -> dict[str, Any] | None:
        if not self.calls:
            return None
        side_a = self.calls[-1]["signature"]
        others = [call["signature"] for call in self.calls if call["signature"] != side_a]
        if not others or signature != others[-1]:
            return None
        expected = [side_a, others[-1]]
        tail: list[dict[str, Any]] = []
        for call in reversed(self.calls):
            if call["signature"] != expected[len(tail) % 2]:
                break
            tail.append(call)
        count = len(tail) + 1
        if len(tail) < 2 or count < self.config["warningThreshold"]:
            return None
        stuck = all(call["result"] is not None for call in tail) and all(
            call["result"] == tail[index % 2]["result"] for index, call in enumerate(tail)
        )
        level = "critical" if stuck and count >= self.config["criticalThreshold"] else "warning"
        self.subject = frozenset(expected)
        return said(level, "ping_pong", count, tool) | {"paired_tool_name": self.calls[-1]["tool"]}


def published(block: dict[str, Any], events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The decisions about a run that are published, with ``at``."""
    run, buckets, verdicts = NaiveRun(block), {}, []
    for at, event in enumerate(events):
        decision = run.fold(event)
        if decision is None:
            continue
        key = (decision["detector"], decision["level"], run.subject)
        bucket = decision["count"] // 10
        if bucket > buckets.get(key, -1):
            buckets[key] = bucket
            verdicts.append({"at": at} | decision)
    return verdicts


def signalled(block: dict[str, Any], events: list[dict[str, Any]]) -> list[str]:
    """The signals about a run under the default policy: block at the first critical decision, kill at the next."""
    run, signals = NaiveRun(block), []
    for event in events:
        decision = run.fold(event)
        if decision is None or decision["level"] != "critical" or "kill" in signals:
            continue
        aborted = decision["detector"] == "compaction_loop_persisted"
        signals.append("kill" if signals or aborted else "block")
    return signals


def leading(items: list[Any], holds: Any) -> int:
    count = 0
    for item in items:
        if not holds(item):
            break
        count += 1
    return count


def said(level: str, detector: str, count: int, tool: str) -> dict[str, Any]:
    return {"level": level, "detector": detector, "count": count, "tool_name": tool}
