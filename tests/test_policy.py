"""What a critical decision makes of a run, under each policy."""

from __future__ import annotations

import pytest

from loopwarden.streams.policy import OnCritical, Standing, standing_after

NONE, BLOCKED, KILLED = Standing

CASES: dict[str, tuple[OnCritical, bool, list[Standing]]] = {
    "block first, then kill": ("block_then_kill", False, [BLOCKED, KILLED, KILLED]),
    "kill at once when asked to": ("kill", False, [KILLED, KILLED]),
    "never more than block": ("block", False, [BLOCKED, BLOCKED]),
    "only observe": ("observe", False, [NONE, NONE]),
    "an abort kills at once": ("block_then_kill", True, [KILLED]),
    "an abort only blocks where nothing is to be killed": ("block", True, [BLOCKED]),
    "an abort is only observed too": ("observe", True, [NONE]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_runs_standing_after_each_critical_decision(name: str) -> None:
    on_critical, aborts, expected = CASES[name]
    standing, seen = NONE, []
    for _ in expected:
        standing = standing_after(standing, on_critical, aborts)
        seen.append(standing)

    assert seen == expected


@pytest.mark.parametrize("on_critical", ["block_then_kill", "kill", "block", "observe"])
@pytest.mark.parametrize("before", list(Standing))
def test_a_standing_never_falls(on_critical: OnCritical, before: Standing) -> None:
    assert standing_after(before, on_critical, False) >= before
