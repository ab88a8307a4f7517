"""A run's recent tool calls, with the measures that detectors read.

The measures are kept up to date as calls come, finish and drop out, so that an event costs the same however long
the history is. Only a result that arrives out of order looks back, and only past the calls it overtook.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from loopwarden.streams.decisions import Pattern


class Call(msgspec.Struct, array_like=True, gc=False):
    """A call in the history. The last three fields are measures up to this call, as if nothing had dropped out.

    ``alternation``: length of the tail ending here that alternates between two calls. ``settled``: how much of that
    tail, newest first, is finished with each side's result unchanged. ``unknown``: how many calls in a row up to
    this one failed as the same unavailable tool.
    """

    sequence: int
    tool_name: str
    signature: bytes
    kind: int
    call_id: int | None
    offset: int
    result: bytes | None = None
    unavailable: str | None = None
    alternation: int = 1
    settled: int = 0
    unknown: int = 0


class Group:
    """All calls in the history with one signature (tool and arguments)."""

    __slots__ = ("calls", "finished", "newest", "result", "streak")

    def __init__(self) -> None:
        self.calls = 0
        self.finished = 0
        self.newest = -1  # sequence of the newest finished call
        self.result: bytes | None = None  # that call's result
        self.streak = 0  # how many finished calls, newest first, share it


class Measures(NamedTuple):
    """What the history says about a call that is attempted; counts do not include the attempted call itself,
    except for ``alternation``, which does."""

    tool_name: str
    signature: bytes
    known_poll: bool
    repeats: int
    no_progress: int
    result: bytes | None
    unknown: int
    unavailable: str | None
    alternation: int
    stuck: bool
    paired_tool_name: str | None
    paired_signature: bytes | None


class History:
    """The last calls of a run, oldest first, at most as many as the settings say."""

    __slots__ = ("by_id", "calls", "finished_ids", "groups", "next_sequence")

    def __init__(self, calls: list[Call] | None = None) -> None:
        self.calls: list[Call] = []
        self.by_id: dict[int, Call] = {}  # the newest call with each id
        self.finished_ids: set[int] = set()
        self.groups: dict[bytes, Group] = {}
        self.next_sequence = 0
        for call in calls or ():
            self._restore(call)

    def _restore(self, call: Call) -> None:
        """Take a call from stored state, measures included."""
        self.calls.append(call)
        self.next_sequence = call.sequence + 1
        self._index(call)
        if call.result is not None:
            self._count_finished(call, call.result)

    def add(self, call: Call, history_max: int) -> None:
        """Append a call, drop the oldest beyond ``history_max``."""
        calls = self.calls
        call.sequence = self.next_sequence
        self.next_sequence += 1
        if calls:
            newest = calls[-1]
            if newest.signature == call.signature:
                call.alternation = 1
            elif len(calls) > 1 and calls[-2].signature == call.signature:
                call.alternation = newest.alternation + 1
            else:
                call.alternation = 2
        calls.append(call)
        self._index(call)
        while len(calls) > history_max:
            self._drop_oldest()

    def _index(self, call: Call) -> None:
        group = self.groups.get(call.signature)
        if group is None:
            group = self.groups[call.signature] = Group()
        group.calls += 1
        if call.call_id is not None:
            self.by_id[call.call_id] = call

    def _drop_oldest(self) -> None:
        call = self.calls.pop(0)
        group = self.groups[call.signature]
        group.calls -= 1
        if not group.calls:
            del self.groups[call.signature]
        elif call.result is not None:
            group.finished -= 1
            group.streak = min(group.streak, group.finished)
            if not group.finished:
                group.newest, group.result = -1, None
        if call.call_id is not None:
            if self.by_id.get(call.call_id) is call:
                del self.by_id[call.call_id]
            if call.result is not None:
                self.finished_ids.discard(call.call_id)

    def find_open(self, tool_name: str, call_id: int | None, signature: bytes | None) -> Call | None:
        """Return the newest unfinished call of the tool with this id and signature, where they are given."""
        if call_id is not None:
            call = self.by_id.get(call_id)
            if call is None:
                return None
            if _matches(call, tool_name, call_id, signature):
                return call
        for call in reversed(self.calls):
            if _matches(call, tool_name, call_id, signature):
                return call
        return None

    def finish(self, call: Call, result: bytes, unavailable: str | None) -> None:
        """Complete a call of this history with the fingerprint of its result."""
        call.result = result
        call.unavailable = unavailable
        self._count_finished(call, result)
        calls = self.calls
        index = call.sequence - calls[0].sequence
        # A result that was overtaken changes the measures of the calls after it, until one is as it was.
        while index < len(calls) and calls[index].result is not None and _measure_tail(calls, index):
            index += 1

    def _count_finished(self, call: Call, result: bytes) -> None:
        group = self.groups[call.signature]
        group.finished += 1
        if call.call_id is not None:
            self.finished_ids.add(call.call_id)
        if call.sequence < group.newest:
            self._recount_streak(group, call.signature)
            return
        group.newest = call.sequence
        if group.result == result:
            group.streak += 1
        else:
            group.result = result
            group.streak = 1

    def _recount_streak(self, group: Group, signature: bytes) -> None:
        """Count a streak anew when a result arrives after that of a later call with the same arguments."""
        group.streak = 0
        for call in reversed(self.calls):
            if call.signature == signature and call.result is not None:
                if call.result != group.result:
                    break
                group.streak += 1

    def measure(self, tool_name: str, signature: bytes, known_poll: bool, floor: int) -> Measures | None:
        """Return the measures for a call that is attempted; None where none of them reaches ``floor``."""
        calls = self.calls
        if not calls:
            return None
        group = self.groups.get(signature)
        newest = calls[-1]
        if (group is None or group.calls < floor) and newest.alternation < floor - 1 and newest.unknown < floor:
            return None
        held = len(calls)
        unknown = min(newest.unknown, held) if newest.tool_name == tool_name else 0
        tail = min(newest.alternation, held)
        paired = calls[-2] if tail > 1 and calls[-2].signature == signature else None
        return Measures(
            tool_name=tool_name,
            signature=signature,
            known_poll=known_poll,
            repeats=group.calls if group else 0,
            no_progress=group.streak if group else 0,
            result=group.result if group else None,
            unknown=unknown,
            unavailable=newest.unavailable if unknown else None,
            alternation=tail + 1 if paired else 0,
            stuck=paired is not None and min(newest.settled, held) >= tail,
            paired_tool_name=newest.tool_name if paired else None,
            paired_signature=newest.signature if paired else None,
        )

    def first_offset(self, pattern: Pattern) -> int:
        """Return the offset of the oldest call of a pattern; -1 where the history holds none of it."""
        left = pattern.calls
        first = -1
        for call in reversed(self.calls):
            if left == 0:
                break
            if pattern.signatures and call.signature not in pattern.signatures:
                continue
            if pattern.results and call.result not in pattern.results:
                continue
            left -= 1
            first = call.offset
        return first


def _matches(call: Call, tool_name: str, call_id: int | None, signature: bytes | None) -> bool:
    return (
        call.result is None
        and call.tool_name == tool_name
        and (call_id is None or call.call_id == call_id)
        and (signature is None or call.signature == signature)
    )


def _measure_tail(calls: list[Call], index: int) -> bool:
    """Bring the measures of a finished call up to date from the calls before it; return whether they changed."""
    call = calls[index]
    before = calls[index - 1] if index else None
    settled = 1
    unknown = 1 if call.unavailable else 0
    if before is not None and before.result is not None:
        if call.alternation == 2 or (call.alternation > 2 and before.settled == 1):
            settled = 2
        elif call.alternation > 2:
            same = index > 1 and calls[index - 2].result == call.result
            settled = before.settled + 1 if same else 2
        if unknown and before.unavailable == call.unavailable and before.tool_name == call.tool_name:
            unknown = before.unknown + 1
    changed = settled != call.settled or unknown != call.unknown
    call.settled = settled
    call.unknown = unknown
    return changed
