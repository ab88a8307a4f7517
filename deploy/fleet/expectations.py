"""What each recorded session must be judged to be, as a table that tests compare with.

Default thresholds and ``enabled: true``, one history a run, policy ``block_then_kill``. Written down from the
reports and the detection rules, independently of the scripts and of the detectors, so that it can prove
either of them wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["warning", "critical"]

#: What a run comes to: the strongest thing that was said or sent about it.
Standing = Literal["none", "warned", "blocked", "killed"]

#: Start of the session ids of healthy agents: no decision about any of them is right.
HEALTHY_PREFIX = "healthy-"


@dataclass(frozen=True, slots=True)
class FirstDecision:
    """The first decision of a detector at a level, within a run.

    ``at_call``: the number of the call within its run, the first being 1. ``caused_by``: whether that call's
    attempt or its result brings the decision about. ``count``: what the decision says it counted.
    """

    detector: str
    level: Level
    at_call: int
    count: int
    caused_by: Literal["tool_call", "tool_result"] = "tool_call"


@dataclass(frozen=True, slots=True)
class Expectation:
    """How one incident is recorded, and how each of its runs must be judged.

    ``calls``: calls of one session. ``decisions``: the pairs of detector and level that may occur, all of which must,
    each with its first occurrence, in order; any other pair is a mistake. ``with_guard_only``: the same for
    the configuration ``{}``, where only the guard is on. ``standing``: of each run, when nobody obeys the
    signals. ``published_warnings``: how many warnings come out as verdicts, where that is part of what was
    expected.
    """

    incident: str
    reported_in: str
    session_ids: tuple[str, ...]
    run_ids: tuple[str, ...]
    calls: int
    decisions: tuple[FirstDecision, ...] = ()
    standing: Standing = "none"
    with_guard_only: tuple[FirstDecision, ...] = ()
    published_warnings: int | None = None


def _generic_repeat(*, breaker: bool = True) -> tuple[FirstDecision, ...]:
    """Return how the same call with the same outcome from a run's first call on is judged."""
    decisions = (
        FirstDecision("generic_repeat", "warning", at_call=11, count=10),
        FirstDecision("generic_repeat", "critical", at_call=21, count=20),
        FirstDecision("global_circuit_breaker", "critical", at_call=31, count=30),
    )
    return decisions if breaker else decisions[:2]


def _one_run(
    incident: str,
    reported_in: str,
    calls: int,
    decisions: tuple[FirstDecision, ...] = (),
    standing: Standing = "none",
    with_guard_only: tuple[FirstDecision, ...] = (),
    published_warnings: int | None = None,
) -> Expectation:
    session_id = f"incident-{incident}"
    return Expectation(
        incident=incident,
        reported_in=reported_in,
        session_ids=(session_id,),
        run_ids=(f"{session_id}-run-1",),
        calls=calls,
        decisions=decisions,
        standing=standing,
        with_guard_only=with_guard_only,
        published_warnings=published_warnings,
    )


# The compaction comes after the 16th call; the guard looks at what finishes after it.
_GUARD = FirstDecision("compaction_loop_persisted", "critical", at_call=19, count=3, caused_by="tool_result")

EXPECTATIONS: tuple[Expectation, ...] = (
    _one_run("exec-same", "openclaw#34574", 121, _generic_repeat(), "killed"),
    _one_run(
        "log-poll",
        "openclaw#16808",
        151,  # the first call starts the process, so that the n-th poll is call n + 1
        (
            FirstDecision("known_poll_no_progress", "warning", at_call=12, count=10),
            FirstDecision("known_poll_no_progress", "critical", at_call=22, count=20),
            FirstDecision("global_circuit_breaker", "critical", at_call=32, count=30),
        ),
        "killed",
    ),
    _one_run("status-empty-args", "openclaw#73763", 34, _generic_repeat(), "killed"),
    _one_run("missing-file", "a public benchmark log", 117, _generic_repeat(), "killed"),
    _one_run("validation-error", "openclaw#68026", 204, _generic_repeat(), "killed"),
    _one_run("send-loop", "openclaw#89090", 45, _generic_repeat(), "killed"),
    _one_run(
        "two-paths",
        "openclaw#112479",
        40,
        (
            FirstDecision("ping_pong", "warning", at_call=10, count=10),
            FirstDecision("ping_pong", "critical", at_call=20, count=20),
        ),
        "killed",
    ),
    _one_run(
        "missing-tool",
        "openclaw#62965",
        24,
        (FirstDecision("unknown_tool_repeat", "critical", at_call=11, count=10),),
        "killed",
    ),
    _one_run(
        "compaction",
        "openclaw#77474",
        50,
        (_generic_repeat()[0], _GUARD, *_generic_repeat()[1:]),
        "killed",
        with_guard_only=(_GUARD,),
    ),
    # Refused calls leave no result, so the streak stands at 20, never reaches the breaker, and falls below
    # critical again once the first twenty calls drop out of the history.
    _one_run("obeyed-block", "openclaw#106231, #119719", 45, _generic_repeat(breaker=False), "killed"),
    Expectation(
        incident="heartbeats",
        reported_in="openclaw#40144",
        session_ids=("incident-heartbeats",),
        run_ids=tuple(f"incident-heartbeats-run-{number}" for number in range(1, 61)),
        calls=120,
    ),
    _one_run("progress-poll", "LobsterAI#2454", 61),
    _one_run("batch-work", "gemini-cli#8234", 80),
    _one_run(
        "edit-test",
        "common",
        30,
        (FirstDecision("generic_repeat", "warning", at_call=22, count=10),),
        "warned",
        published_warnings=1,
    ),
    Expectation(
        incident="two-runs",
        reported_in="openclaw#37842 (part)",
        session_ids=("incident-two-runs-a", "incident-two-runs-b"),
        run_ids=("incident-two-runs-a-run-1", "incident-two-runs-b-run-1"),
        calls=6,
    ),
)


def expectation_of(session_id: str) -> Expectation | None:
    """Return what to expect of a recorded session; None for a healthy one, of which nothing may be said."""
    return next((entry for entry in EXPECTATIONS if session_id in entry.session_ids), None)
