"""Verdicts: decisions that are published, with what an auditor needs to check them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Level = Literal["warning", "critical"]
Action = Literal["warn", "block", "abort"]


class Evidence(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """Where the pattern lies in the events topic, and what repeats in it.

    ``args_fingerprints`` and ``result_fingerprints`` are digests in hexadecimal; the arguments and results
    themselves never leave the events topic. ``first_offset`` and ``last_offset`` are those of the first and the
    last event of the pattern, both on ``partition`` of ``topic``.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    args_fingerprints: tuple[str, ...] = ()
    result_fingerprints: tuple[str, ...] = ()


class Verdict(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """One published decision. ``verdict_id`` is the same however often the decision is recomputed.

    ``time`` is that of the event which caused it (RFC 3339, UTC), ``count`` the measure that met the threshold,
    ``config`` the thresholds in force and the layer that set each, ``shadow`` true where policy only observes.
    """

    verdict_id: str
    time: str
    session_id: str
    run_id: str | None = None
    agent_id: str | None = None
    runner_id: str | None = None
    level: Level
    detector: str
    count: int
    tool_name: str
    paired_tool_name: str | None = None
    action: Action
    message: str
    evidence: Evidence
    config: dict[str, Any]
    shadow: bool = False
