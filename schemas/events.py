"""Events as producers send them, and how their bytes become typed values.

Arguments, results and errors stay raw JSON here, and unset where the producer left them out (which is not null): most
of what a producer sends is only ever fingerprinted, and building Python objects of it first would cost more than all
else that the core does.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

#: An identifier; bounded because the state of every held run repeats it.
Identifier = Annotated[str, msgspec.Meta(max_length=512)]

#: A whole number that 64 bits hold, so that readers in any language can.
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Common(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Fields that every event may carry.

    ``session_id`` is required, ``event_id`` unique per event, ``time`` RFC 3339 (the record's timestamp where
    it is missing).
    """

    session_id: Identifier | None = None
    run_id: Identifier | None = None
    agent_id: Identifier | None = None
    runner_id: Identifier | None = None
    event_id: str | None = None
    time: str | None = None


class _ToolEvent(_Common, kw_only=True, omit_defaults=True, gc=False):
    """What calls and results share; from ``parent_run_id`` on, fields that no rule reads yet."""

    tool_name: Identifier
    tool_call_id: str | None = None
    args: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    args_hash: str | None = None
    parent_run_id: str | None = None
    sequence: Whole | None = None
    batch_id: str | None = None
    retry_of: str | None = None
    mutating: bool | None = None
    attended: bool | None = None
    error_type: str | None = None
    result_hash_masked: str | None = None


class ToolCall(_ToolEvent, tag="tool_call", kw_only=True, omit_defaults=True, gc=False):
    """An agent is about to call a tool; ``known_poll`` marks a call that only asks how something stands."""

    known_poll: bool | None = None


class Usage(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What a step cost: tokens as counts, ``cost_usd`` in US dollars."""

    input_tokens: Whole | None = None
    output_tokens: Whole | None = None
    cost_usd: float | None = None


class ToolResult(_ToolEvent, tag="tool_result", kw_only=True, omit_defaults=True, gc=False):
    """A tool call has finished: with a result, with the hash of one made at the edge, or with an error."""

    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result_hash: str | None = None
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    unknown_tool: Identifier | None = None
    usage: Usage | None = None


class Compaction(_Common, tag="compaction", kw_only=True, omit_defaults=True, gc=False):
    """The run's context was compacted; with ``retrying`` the agent goes on with what it was doing."""

    retrying: bool = True
    reason: str | None = None
    tokens_before: Whole | None = None
    tokens_after: Whole | None = None


class RunStarted(_Common, tag="run_started", kw_only=True, omit_defaults=True, gc=False):
    """A run of an agent has begun."""


class RunEnded(_Common, tag="run_ended", kw_only=True, omit_defaults=True, gc=False):
    """A run is over; its state is freed after a grace period."""

    status: str | None = None


Event = ToolCall | ToolResult | Compaction | RunStarted | RunEnded

#: The ``type`` of every event there is, as it stands on the wire and on metrics.
EVENT_TYPES = ("tool_call", "tool_result", "compaction", "run_started", "run_ended")
