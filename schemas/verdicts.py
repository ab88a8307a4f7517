"""Verdicts: decisions that are published, with what an auditor needs to check them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from loopwarden.schemas.fields import about

Level = Literal["warning", "critical"]
Action = Literal["warn", "block", "abort"]


class Evidence(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """Where the pattern lies in the events topic, and what repeats in it.

    ``args_fingerprints`` and ``result_fingerprints`` are digests in hexadecimal; the arguments and results
    themselves never leave the events topic. ``first_offset`` and ``last_offset`` are those of the first and the
    last event of the pattern, both on ``partition`` of ``topic``.
    """

    topic: Annotated[str, about("Name of the events topic.")]
    partition: Annotated[int, about("Partition of both offsets.")]
    first_offset: Annotated[int, about("Offset of the first event of the pattern.")]
    last_offset: Annotated[int, about("Offset of its last event, the one that caused the verdict.")]
    args_fingerprints: Annotated[tuple[str, ...], about("Digests of the calls that repeat, in hexadecimal.")] = ()
    result_fingerprints: Annotated[tuple[str, ...], about("Digests of their results, in hexadecimal.")] = ()


class Verdict(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """One published decision. ``verdict_id`` is the same however often the decision is recomputed.

    ``time`` is that of the event which caused it (RFC 3339, UTC), ``count`` the measure that met the threshold,
    ``config`` the thresholds in force and the layer that set each, ``shadow`` true where policy only observes.
    """

    verdict_id: Annotated[str, about("The same however often the decision is recomputed.")]
    time: Annotated[str, about("When the event that caused it happened, RFC 3339 in UTC.")]
    session_id: Annotated[str, about("The session of the run, and in UTF-8 the record's key.")]
    run_id: Annotated[str | None, about("The run, where its events name one.")] = None
    agent_id: Annotated[str | None, about("The agent, where events name one.")] = None
    runner_id: Annotated[str | None, about("The runner, where events name one.")] = None
    level: Annotated[Level, about("How bad it is.")]
    detector: Annotated[str, about("The detector that decided.")]
    count: Annotated[int, about("The measure that met the threshold.")]
    tool_name: Annotated[str, about("The tool that was called.")]
    paired_tool_name: Annotated[str | None, about("The other tool, where two calls take turns.")] = None
    action: Annotated[Action, about("What the decision asks for; the policy makes signals of it.")]
    message: Annotated[str, about("One sentence that a person can act on.")]
    evidence: Annotated[Evidence, about("Where the pattern lies, for an auditor.")]
    config: Annotated[
        dict[str, Any], about("The thresholds in force, and under layers what set those that are not defaults.")
    ]
    shadow: Annotated[bool, about("Whether policy only observes, so that no signal follows.")] = False
