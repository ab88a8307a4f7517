"""Fingerprints of results: which part of what a tool returned says whether anything changed.

A result carries much that differs each time and means nothing (durations, process ids, delivery ids). Comparing all
of it would hide every loop; comparing too little would make progress look like one.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Raw

from loopwarden.streams import tools
from loopwarden.streams.fingerprint import canonical, digest, parse, parse_text

# First byte of what is digested, so that results of different sorts are never equal.
_HASHED, _ERROR, _TEXT, _VALUE, _PARTS = b"h", b"e", b"t", b"v", b"p"

_QUOTE = ord('"')

_VOLATILE_KEYS = frozenset(
    {
        "messageId",
        "message_id",
        "messageIds",
        "platformMessageId",
        "platformMessageIds",
        "fileId",
        "file_id",
        "fileKey",
        "pollId",
        "poll_id",
        "receipt",
        "runId",
        "idempotencyKey",
        "ts",
        "timestamp",
        "sentAt",
        "deliveredAt",
        "createdAt",
    }
)

_NAME = r"""["'`]?([A-Za-z0-9_.-]+)["'`]?"""
_UNAVAILABLE = re.compile(
    rf"\bunknown tool(?::\s*|\s+){_NAME}|\btool\s+{_NAME}\s+(?:not found|is not available)", re.IGNORECASE
)


def hashed_result(result_hash: str) -> bytes:
    """Return the fingerprint of a result that the producer hashed."""
    return digest(_HASHED + result_hash.encode())


def failed_result(error: Raw) -> tuple[bytes, str | None]:
    """Return the fingerprint of an error, and the tool it says is unavailable, in lower case, if it says so.

    Raises Unusable where the error cannot be fingerprinted.
    """
    raw = bytes(error)
    if raw[0] == _QUOTE:
        text = parse_text(raw)
        return digest(_ERROR + _TEXT + text), unavailable_tool(text.decode())
    return digest(_ERROR + _VALUE + canonical(parse(raw))), unavailable_tool(raw.decode())


def unavailable_tool(error_text: str) -> str | None:
    """Return the name, in lower case, of the tool that an error says does not exist or cannot be used."""
    found = _UNAVAILABLE.search(error_text)
    if found is None:
        return None
    # A name at the end of a sentence takes the full stop with it.
    return (found[1] or found[2]).rstrip(".").lower() or None


def successful_result(result: Raw, kind: int) -> bytes | None:
    """Return the fingerprint of a result; None for our own veto, which is neither progress nor the lack of it.

    Raises Unusable where the result cannot be fingerprinted.
    """
    raw = bytes(result)
    if raw[0] == _QUOTE:
        return digest(_TEXT + parse_text(raw))
    value = parse(raw)
    if not isinstance(value, dict):
        return digest(_VALUE + canonical(value))
    details = value.get("details")
    details = details if isinstance(details, dict) else None
    content = value.get("content")
    if details is None and not isinstance(content, list):
        return digest(_VALUE + canonical(value))
    if details and details.get("status") == "blocked" and details.get("deniedReason") == "tool-loop":
        return None
    return digest(_PARTS + canonical(_telling_parts(value, details, _text_of(content), kind)))


def _text_of(content: Any) -> str:
    """Return the text of all content parts, joined by newlines, trimmed."""
    if not isinstance(content, list):
        return ""
    texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(texts).strip()


def _telling_parts(value: dict[str, Any], details: dict[str, Any] | None, text: str, kind: int) -> list[Any]:
    """Return what of a structured result is compared (the table of cases in the detection rules)."""
    facts = (details or {}).get
    status = facts("status")
    if kind == tools.EXEC:
        if status == "running":
            return ["running", facts("tail")]
        if status in ("completed", "failed"):
            output = facts("aggregated")
            if not isinstance(output, str) or not output.strip():
                output = text
            return ["ended", status, facts("exitCode"), facts("timedOut"), output]
        if status in ("approval-pending", "approval-unavailable"):
            return [
                "approval",
                status,
                facts("reason"),
                facts("host"),
                facts("command"),
                facts("warningText"),
            ]
    elif kind == tools.PROCESS_POLL:
        return ["poll", text, status, facts("exitCode"), facts("exitSignal"), facts("aggregated")]
    elif kind == tools.PROCESS_LOG:
        counts = [facts(name) for name in ("totalLines", "totalChars", "truncated", "exitCode", "exitSignal")]
        return ["log", text, status, *counts]
    elif kind == tools.OUTBOUND_MESSAGE:
        return ["sent", _without_volatile(details)]
    return ["all", value.get("details"), text]


def _is_message(value: dict[str, Any]) -> bool:
    if not isinstance(value.get("id"), str) or not isinstance(value.get("text"), str):
        return False
    has_side = any(isinstance(value.get(name), str) for name in ("direction", "senderId", "accountId"))
    return has_side or isinstance(value.get("conversation"), dict)


def _without_volatile(value: Any) -> Any:
    """Return the value without what differs from one delivery to the next."""
    if isinstance(value, list):
        return [_without_volatile(item) for item in value]
    if not isinstance(value, dict):
        return value
    dropped = _VOLATILE_KEYS | {"id"} if _is_message(value) else _VOLATILE_KEYS
    return {name: _without_volatile(item) for name, item in value.items() if name not in dropped}
