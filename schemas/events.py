"""Events as producers send them, and how their bytes become typed values.

Arguments, results and errors stay raw JSON here, and unset where the producer left them out (which is not null): most
of what a producer sends is only ever fingerprinted, and building Python objects of it first would cost more than all
else that the core does.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from loopwarden.schemas.fields import about

#: An identifier; bounded because the state of every held run repeats it.
Identifier = Annotated[str, msgspec.Meta(max_length=512)]

#: A whole number that 64 bits hold, so that readers in any language can.
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Common(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Fields that every event may carry.

    ``session_id`` is required, ``event_id`` unique per event, ``time`` RFC 3339 (the record's timestamp where
    it is missing).
    """

    session_id: Annotated[
        Identifier | None, about("The session of the run, and in UTF-8 the record's key; required.")
    ] = None
    run_id: Annotated[
        Identifier | None,
        about("The run, one execution of an agent; events without one share a history of their session."),
    ] = None
    agent_id: Annotated[Identifier | None, about("The agent, for which settings can be given.")] = None
    runner_id: Annotated[Identifier | None, about("The runner that the run is on, to which signals go.")] = None
    event_id: Annotated[str | None, about("Unique per event; a repeat within the window of the run is dropped.")] = None
    time: Annotated[str | None, about("When it happened, RFC 3339; where missing, the timestamp of the record.")] = None


class _ToolEvent(_Common, kw_only=True, omit_defaults=True, gc=False):
    """What calls and results share; from ``parent_run_id`` on, fields that no rule reads yet."""

    tool_name: Annotated[Identifier, about("The tool.")]
    tool_call_id: Annotated[str | None, about("The call, by which a result finds it.")] = None
    args: Annotated[
        msgspec.Raw | msgspec.UnsetType, about("Arguments, any JSON value; they are fingerprinted and dropped.")
    ] = msgspec.UNSET
    args_hash: Annotated[str | None, about("Instead of arguments: a hash of them, made at the edge.")] = None
    parent_run_id: Annotated[str | None, about("The run that started this one.")] = None
    sequence: Annotated[Whole | None, about("Number of the event in its run, as the producer counts.")] = None
    batch_id: Annotated[str | None, about("What the calls of one reply of the model share.")] = None
    retry_of: Annotated[str | None, about("The call that this one tries again.")] = None
    mutating: Annotated[bool | None, about("Whether the tool changed something.")] = None
    attended: Annotated[bool | None, about("Whether a person is watching.")] = None
    error_type: Annotated[str | None, about("Kind of error, in the producer's words.")] = None
    result_hash_masked: Annotated[
        str | None, about("Hash of the result without the parts of it that change each time.")
    ] = None


class ToolCall(_ToolEvent, tag="tool_call", kw_only=True, omit_defaults=True, gc=False):
    """An agent is about to call a tool; ``known_poll`` marks a call that only asks how something stands."""

    known_poll: Annotated[bool | None, about("Whether the call only asks how something stands.")] = None


class Usage(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """What a step cost: tokens as counts, ``cost_usd`` in US dollars."""

    input_tokens: Annotated[Whole | None, about("Tokens read.")] = None
    output_tokens: Annotated[Whole | None, about("Tokens written.")] = None
    cost_usd: Annotated[float | None, about("Cost in US dollars.")] = None


class ToolResult(_ToolEvent, tag="tool_result", kw_only=True, omit_defaults=True, gc=False):
    """A tool call has finished: with a result, with the hash of one made at the edge, or with an error."""

    result: Annotated[
        msgspec.Raw | msgspec.UnsetType, about("The result, any JSON value; it is fingerprinted and dropped.")
    ] = msgspec.UNSET
    result_hash: Annotated[str | None, about("Instead of a result: a hash of it, made at the edge.")] = None
    error: Annotated[
        msgspec.Raw | msgspec.UnsetType,
        about("Instead of a result: the error, any JSON value; it is fingerprinted and dropped."),
    ] = msgspec.UNSET
    unknown_tool: Annotated[
        Identifier | None, about("Beside a hash: name of the tool that turned out not to exist.")
    ] = None
    usage: Annotated[Usage | None, about("What the step cost.")] = None


class Compaction(_Common, tag="compaction", kw_only=True, omit_defaults=True, gc=False):
    """The run's context was compacted; with ``retrying`` the agent goes on with what it was doing."""

    retrying: Annotated[bool, about("Whether the agent goes on with what it was doing; this arms the guard.")] = True
    reason: Annotated[str | None, about("Why the context was compacted.")] = None
    tokens_before: Annotated[Whole | None, about("Size of the context before, in tokens.")] = None
    tokens_after: Annotated[Whole | None, about("Size of the context after, in tokens.")] = None


class RunStarted(_Common, tag="run_started", kw_only=True, omit_defaults=True, gc=False):
    """A run of an agent has begun."""


class RunEnded(_Common, tag="run_ended", kw_only=True, omit_defaults=True, gc=False):
    """A run is over; its state is freed after a grace period."""

    status: Annotated[str | None, about("How the run ended, in the producer's words.")] = None


Event = ToolCall | ToolResult | Compaction | RunStarted | RunEnded

#: The ``type`` of every event there is, as it stands on the wire and on metrics.
EVENT_TYPES = ("tool_call", "tool_result", "compaction", "run_started", "run_ended")
