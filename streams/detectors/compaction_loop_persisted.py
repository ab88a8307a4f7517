"""The run falls back into the same call right after its context was compacted.

Why it matters: compaction is the one moment at which a stuck agent might have got free; if it did not, nothing will.
Fires when: after a compaction with retry, each of the next few finished calls is the same with the same result.
Quiet when: any of these calls, or any result, differs; disarmed after these few, until the next compaction.
Blind to: a loop that begins a call or two later.
"""

from __future__ import annotations

import msgspec

from loopwarden.streams.decisions import Decision, Pattern
from loopwarden.streams.history import Call
from loopwarden.streams.settings import Settings

NAME = "compaction_loop_persisted"


class Guard(msgspec.Struct, array_like=True, gc=False):
    """What the guard has seen since it was armed: how many finished calls are still to be watched, and how many
    were the same as the first one, as long as all were. ``offset`` is that of the compaction."""

    remaining: int
    offset: int
    signature: bytes | None = None
    result: bytes | None = None
    same: int = 0
    differed: bool = False


def arm(offset: int, settings: Settings) -> Guard:
    """Return a guard that watches the next finished calls."""
    return Guard(remaining=settings.guard_window_size, offset=offset)


def watch(guard: Guard, call: Call, settings: Settings) -> Decision | None:
    """Count a finished call; return a critical decision when all that were watched are the same.

    Since the window is as long as the count that is asked for, one call that differs settles it.
    """
    guard.remaining -= 1
    if guard.same == 0:
        guard.signature, guard.result = call.signature, call.result
    if (guard.signature, guard.result) == (call.signature, call.result):
        guard.same += 1
    else:
        guard.differed = True
    if guard.differed or guard.same < settings.guard_window_size:
        return None
    result = (call.result,) if call.result is not None else ()
    return Decision(
        level="critical",
        detector=NAME,
        count=guard.same,
        tool_name=call.tool_name,
        subject=call.signature + (call.result or b""),
        pattern=Pattern(guard.same, (call.signature,), result),
        message=f"After its context was compacted the run made the same {call.tool_name} call {guard.same} times "
        "with the same result: it will not get free by itself.",
        aborts=True,
    )
