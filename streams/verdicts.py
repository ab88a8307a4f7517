"""From a decision to what goes out: a verdict when it is news, a signal when the run's standing rises."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import blake2b
from typing import NamedTuple

from loopwarden.schemas.signals import Signal, SignalAction
from loopwarden.schemas.verdicts import Action, Evidence, Verdict
from loopwarden.streams.decisions import Decision
from loopwarden.streams.policy import Standing, standing_after
from loopwarden.streams.publishing import enters_new_bucket, subject_key
from loopwarden.streams.run import Run
from loopwarden.streams.settings import Settings, to_file_form

_ID_BYTES = 16

#: The last time that has four digits for its year: a record's timestamp may be anything.
_LAST_MS = 253_402_300_799_000


class Place(NamedTuple):
    """Where the event that caused a decision stands, and when it happened (``time`` as the producer said it,
    ``time_ms`` as the record did, milliseconds since the epoch)."""

    topic: str
    partition: int
    offset: int
    time: str | None
    time_ms: int


class Announcement(NamedTuple):
    """What is to be published about one decision."""

    verdict: Verdict | None
    signal: Signal | None


def announce(run: Run, decision: Decision, settings: Settings, place: Place, signal_ttl_s: int) -> Announcement:
    """Return the verdict and the signal that a decision makes, and note in the run that they are out.

    A kill may follow between two verdicts about the same loop; its signal then names the latest of them.
    """
    key = subject_key(decision)
    verdict: Verdict | None = None
    if enters_new_bucket(run, key, decision.count, place.offset):
        verdict = _verdict(run, decision, settings, place)
    if decision.level != "critical":
        return Announcement(verdict, None)
    standing = standing_after(run.standing, settings.on_critical, decision.aborts)
    if standing == run.standing:
        return Announcement(verdict, None)
    run.standing = standing
    published_offset = run.published[key][1]
    verdict_id = _verdict_id(run, decision, place.partition, published_offset)
    return Announcement(verdict, _signal(run, decision, verdict_id, place.time_ms, signal_ttl_s))


def _verdict(run: Run, decision: Decision, settings: Settings, place: Place) -> Verdict:
    return Verdict(
        verdict_id=_verdict_id(run, decision, place.partition, place.offset),
        time=rfc3339(_event_time_ms(place)),
        session_id=run.session_id,
        run_id=run.run_id,
        agent_id=run.agent_id,
        runner_id=run.runner_id,
        level=decision.level,
        detector=decision.detector,
        count=decision.count,
        tool_name=decision.tool_name,
        paired_tool_name=decision.paired_tool_name,
        action=_action(decision),
        message=decision.message,
        evidence=Evidence(
            topic=place.topic,
            partition=place.partition,
            first_offset=decision.first_offset,
            last_offset=place.offset,
            args_fingerprints=tuple(signature.hex() for signature in decision.pattern.signatures),
            result_fingerprints=tuple(result.hex() for result in decision.pattern.results),
        ),
        config=to_file_form(settings),
        shadow=settings.on_critical == "observe",
    )


def _signal(run: Run, decision: Decision, verdict_id: str, issued_ms: int, signal_ttl_s: int) -> Signal:
    # Issued at the time of the record that caused it, not of this computation, so that a repeated signal is the same.
    action: SignalAction = "kill" if run.standing == Standing.KILLED else "block"
    return Signal(
        signal_id=_identify(verdict_id, action),
        verdict_id=verdict_id,
        action=action,
        session_id=run.session_id,
        run_id=run.run_id,
        agent_id=run.agent_id,
        runner_id=run.runner_id,
        reason=decision.detector,
        message=decision.message,
        issued_at=rfc3339(issued_ms),
        expires_at=rfc3339(issued_ms + signal_ttl_s * 1000),
    )


def _action(decision: Decision) -> Action:
    if decision.aborts:
        return "abort"
    return "block" if decision.level == "critical" else "warn"


def _identify(*parts: str) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=_ID_BYTES).hexdigest()


def _verdict_id(run: Run, decision: Decision, partition: int, offset: int) -> str:
    """Return the same id whenever the same event leads to the same decision."""
    place = f"{partition}\0{offset}"
    return _identify(run.session_id, run.run_id or "", place, decision.detector, decision.level)


def _event_time_ms(place: Place) -> int:
    """Return the event's own time where it states one that can be read, else the record's."""
    if place.time is None:
        return place.time_ms
    try:
        moment = datetime.fromisoformat(place.time)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return place.time_ms


def rfc3339(time_ms: int) -> str:
    """Return a time, milliseconds since the epoch, as RFC 3339 in UTC; what no calendar has, as the nearest it has."""
    within = min(max(time_ms, 0), _LAST_MS)
    return datetime.fromtimestamp(within / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
