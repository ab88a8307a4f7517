"""The engine folds an event into the run it belongs to and says what the detectors decide.

This one function is the product: live processing, replay, tests and benchmarks all call it.
"""

from __future__ import annotations

from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from loopwarden.schemas.events import Compaction, Event, RunEnded, ToolCall, ToolResult
from loopwarden.streams.decisions import Decision
from loopwarden.streams.detectors import CALL_DETECTORS, compaction_loop_persisted
from loopwarden.streams.fingerprint import short_id
from loopwarden.streams.history import Call
from loopwarden.streams.outcomes import failed_result, hashed_result, successful_result
from loopwarden.streams.policy import Standing
from loopwarden.streams.run import Run
from loopwarden.streams.settings import Settings
from loopwarden.streams.signatures import Signatures
from loopwarden.streams.tools import OTHER, POLL_KINDS


class Counts:
    """What happened to events beyond decisions, since the counts were last taken; for metrics."""

    __slots__ = (
        "calls_after_kill",
        "duplicate_events",
        "duplicate_results",
        "guards_armed",
        "incomparable_results",
        "orphan_results",
        "redelivered_events",
    )

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Set all counts to zero."""
        self.calls_after_kill = 0
        self.duplicate_events = 0
        self.duplicate_results = 0
        self.guards_armed = 0
        self.incomparable_results = 0
        self.orphan_results = 0
        self.redelivered_events = 0


class Engine:
    """Folds events into runs. Holds no state of any run, only the memory of arguments fingerprinted lately."""

    __slots__ = ("counts", "signatures")

    def __init__(self) -> None:
        self.signatures = Signatures()
        self.counts = Counts()

    def fold(self, run: Run, event: Event, offset: int, time_ms: int, settings: Settings) -> Decision | None:
        """Fold the event at ``offset`` into the run; return the decision it causes, if any.

        A redelivered event (by offset, or by an event id seen within the run's window) changes nothing. Raises
        Unusable, with the run as it was, where arguments, result or error cannot be fingerprinted.
        """
        if offset <= run.last_offset:
            self.counts.redelivered_events += 1
            return None
        event_key: int | None = None
        if event.event_id is not None:
            event_key = short_id(event.event_id)
            if event_key in run.event_ids:
                self.counts.duplicate_events += 1
                run.last_offset = offset
                return None
        decision: Decision | None = None
        if type(event) is ToolCall:
            decision = self._on_call(run, event, offset, settings)
        elif type(event) is ToolResult:
            decision = self._on_result(run, event, offset, settings)
        elif type(event) is Compaction:
            self._on_compaction(run, event, offset, settings)
        else:
            run.ended_ms = time_ms if type(event) is RunEnded else 0
        run.last_offset = offset
        run.seen_ms = time_ms
        if event.agent_id is not None:
            run.agent_id = event.agent_id
        if event.runner_id is not None:
            run.runner_id = event.runner_id
        if event_key is not None:
            event_ids = run.event_ids
            event_ids[event_key] = None
            if len(event_ids) > settings.event_ids_max:
                del event_ids[next(iter(event_ids))]
        return decision

    def _on_call(self, run: Run, event: ToolCall, offset: int, settings: Settings) -> Decision | None:
        """Ask the detectors about the attempted call, then add it to the history."""
        tool_name = event.tool_name
        if event.args_hash is None:
            signature, kind = self.signatures.of_args(tool_name, event.args)
        else:
            signature, kind = self.signatures.of_hash(tool_name, event.args_hash)
        known_poll = kind in POLL_KINDS or event.known_poll is True
        history = run.history
        decision: Decision | None = None
        if settings.enabled:
            measures = history.measure(tool_name, signature, known_poll, settings.lowest_threshold)
            if measures is not None:
                for detector in CALL_DETECTORS:
                    decision = detector.detect(measures, settings)
                    if decision is not None:
                        decision = replace(decision, first_offset=history.first_offset(decision.pattern))
                        break
        call_id = short_id(event.tool_call_id) if event.tool_call_id else None
        history.add(Call(0, tool_name, signature, kind, call_id, offset), settings.history_size)
        run.ended_ms = 0
        if run.standing == Standing.KILLED:
            self.counts.calls_after_kill += 1
        return decision

    def _on_result(self, run: Run, event: ToolResult, offset: int, settings: Settings) -> Decision | None:
        """Complete the call that the result belongs to, then let the post-compaction guard see it."""
        tool_name = event.tool_name
        history = run.history
        signature: bytes | None = None
        kind = OTHER
        if event.args_hash is not None:
            signature, kind = self.signatures.of_hash(tool_name, event.args_hash)
        elif _is_given(event.args):
            signature, kind = self.signatures.of_args(tool_name, event.args)
        call_id = short_id(event.tool_call_id) if event.tool_call_id else None
        if call_id in history.finished_ids:
            self.counts.duplicate_results += 1
            return None
        call = history.find_open(tool_name, call_id, signature)
        if call is None and signature is None:
            self.counts.orphan_results += 1
            return None
        result, unavailable = _outcome(event, kind if call is None else call.kind)
        if result is None:
            self.counts.incomparable_results += 1
            return None
        if call is None and signature is not None:
            call = Call(0, tool_name, signature, kind, call_id, offset)
            history.add(call, settings.history_size)
        assert call is not None
        history.finish(call, result, unavailable)
        guard = run.guard
        if guard is None or settings.enabled is False:
            return None
        decision = compaction_loop_persisted.watch(guard, call, settings)
        if guard.remaining <= 0 or decision is not None:
            run.guard = None
        if decision is not None:
            decision = replace(decision, first_offset=history.first_offset(decision.pattern))
        return decision

    def _on_compaction(self, run: Run, event: Compaction, offset: int, settings: Settings) -> None:
        if event.retrying and settings.enabled is not False:
            run.guard = compaction_loop_persisted.arm(offset, settings)
            self.counts.guards_armed += 1


def _is_given(value: Raw | UnsetType) -> bool:
    """Return whether a result has these arguments, or this error: null is as good as none."""
    return isinstance(value, Raw) and bytes(value) != b"null"


def _outcome(event: ToolResult, kind: int) -> tuple[bytes | None, str | None]:
    """Return the fingerprint of how a call ended, None where there is none, and the unavailable tool, if named."""
    named = event.unknown_tool.lower() if event.unknown_tool else None
    if event.result_hash is not None:
        return hashed_result(event.result_hash), named
    if isinstance(event.error, Raw) and _is_given(event.error):
        result, unavailable = failed_result(event.error)
        return result, unavailable or named
    if event.result is UNSET:
        return None, None  # a producer that sends no content: nothing to compare
    return successful_result(event.result, kind), named
