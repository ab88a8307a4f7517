"""Policy: what a critical decision makes of a run.

A run's standing only ever rises (none < block < kill), so a signal that arrives twice or late does no harm.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

OnCritical = Literal["block_then_kill", "kill", "block", "observe"]


class Standing(IntEnum):
    """How a run stands with us; what the newest signal about it says."""

    NONE = 0
    BLOCKED = 1
    KILLED = 2


def standing_after(standing: Standing, on_critical: OnCritical, aborts: bool) -> Standing:
    """Return a run's standing after one more critical decision.

    A decision that ``aborts`` (the post-compaction guard's) kills at once under the policies that kill at all.
    """
    if on_critical == "observe":
        return standing
    if on_critical == "block":
        return max(standing, Standing.BLOCKED)
    if on_critical == "kill" or aborts or standing != Standing.NONE:
        return Standing.KILLED
    return Standing.BLOCKED
