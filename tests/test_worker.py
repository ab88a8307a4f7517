"""A worker on a real broker: events in, verdicts, signals, dead letters and state out."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from broker_tools import Stream, at_least, expect, values, wait_until
from conftest import StartWorker

from loopwarden.deploy.demo.player import read_recording
from loopwarden.deploy.fleet.expectations import EXPECTATIONS, HEALTHY_PREFIX
from loopwarden.streams.settings import resolve
from loopwarden.streams.state import run_key

pytestmark = pytest.mark.broker

SECRET = "hunter2-do-not-repeat"


def event(session_id: str, **fields: Any) -> tuple[str, bytes]:
    return session_id, json.dumps({"session_id": session_id, "run_id": "r"} | fields).encode()


def loop(session_id: str, calls: int, **fields: Any) -> list[tuple[str, bytes]]:
    """The same call, with the same result, this many times."""
    common = {"tool_name": "read", "args": {"path": "/a"}} | fields
    events = []
    for number in range(calls):
        events.append(event(session_id, type="tool_call", tool_call_id=f"c{number}", **common))
        events.append(event(session_id, type="tool_result", tool_call_id=f"c{number}", result="same", **common))
    return events


def test_every_incident_has_its_expected_outcome_and_every_healthy_run_is_left_alone(
    stream: Stream, start_worker: StartWorker
) -> None:
    worker = start_worker()
    recording = read_recording()
    stream.send([(played.session_id, played.value) for played in recording])
    expected = expect(stream, len(recording), resolve({"enabled": True}, {})[0])

    verdicts = stream.verdicts(at_least(len(expected.verdicts)))
    signals = stream.signals(at_least(len(expected.signals)))

    assert {verdict.verdict_id: verdict for verdict in verdicts} == expected.verdicts
    assert {signal.signal_id: signal for signal in signals} == expected.signals
    assert not [verdict for verdict in verdicts if verdict.session_id.startswith(HEALTHY_PREFIX)]
    for incident in EXPECTATIONS:
        first: dict[tuple[str, str], int] = {}
        for verdict in verdicts:
            if verdict.session_id in incident.session_ids:
                first.setdefault((verdict.detector, verdict.level), verdict.count)
        assert first == {(said.detector, said.level): said.count for said in incident.decisions}, incident.incident
        actions = [signal.action for signal in signals if signal.session_id in incident.session_ids]
        assert (actions[-1] if actions else None) == {"killed": "kill", "blocked": "block"}.get(incident.standing)
    wait_until(lambda: worker.metric("loopwarden_events_total") == len(recording), "all events are folded")
    wait_until(lambda: worker.metric("loopwarden_runs_held") == 300, "all runs are held")
    wait_until(lambda: worker.metric("loopwarden_consumer_lag") == 0, "nothing is left to fold")


def test_dead_letters_arrive_byte_for_byte_and_stop_nothing(
    stream: Stream, start_worker: StartWorker, request: pytest.FixtureRequest
) -> None:
    call = b'{"type":"tool_call","session_id":"s","tool_name":"x","args":%b}'
    bad: list[tuple[bytes | None, str]] = [
        (b"hello", "not_json"),
        (b"[1]", "not_an_object"),
        (b'{"type":"run_started"}', "no_session"),
        (b'{"type":"tool_call","session_id":7,"tool_name":"x"}', "wrong_type"),
        (call % b'"\xff\xfe"', "invalid_utf8"),
        (call % (b'"' + b"a" * 900_000 + b'"'), "too_large"),
        (call % (b"[" * 10_000 + b"]" * 10_000), "too_deep"),
        (call % b"123456789012345678901234567890", "number_out_of_range"),
        (call % b'"\\ud800"', "lone_surrogate"),
        (b"", "empty"),
        (None, "tombstone"),
    ]
    worker = start_worker()
    sent = stream.send([("s", value) for value, _reason in bad])
    stream.send([event("s", type="tool_progress"), *loop("s", 20)])
    letters = stream.read(stream.names.dead_letters, lambda records: len(records) >= len(bad))
    verdicts = stream.verdicts(at_least(1))

    found = [(letter.value, dict(letter.headers)) for letter in letters]
    arrived = [(value, headers["reason"].decode()) for value, headers in found]
    if request.node.callspec.params["bootstrap"] == "embedded":
        # This broker does not tell an empty value from none at all.
        assert arrived[:9] == bad[:9]
        assert {reason for _value, reason in arrived[9:]} <= {"empty", "tombstone"}
    else:
        assert arrived == bad
    assert [
        (headers["source_topic"].decode(), int(headers["source_partition"]), int(headers["source_offset"]))
        for _value, headers in found
    ] == [(stream.names.events, place.partition, place.offset) for place in sent]
    assert [verdict.count for verdict in verdicts][:1] == [10]
    assert worker.metric("loopwarden_dead_letters_total") == len(bad)
    assert worker.metric("loopwarden_events_of_unknown_type_total") == 1


def test_a_killed_runs_later_events_are_counted_and_give_no_further_signal(
    stream: Stream, start_worker: StartWorker
) -> None:
    worker = start_worker()
    stream.send(loop("s", 40))
    wait_until(lambda: worker.metric("loopwarden_events_total") == 80, "all events are folded")

    assert [signal.action for signal in stream.signals(at_least(2))] == ["block", "kill"]
    assert worker.metric("loopwarden_signals_total") == 2
    assert worker.metric("loopwarden_calls_after_kill_total") == 18


def test_an_event_sent_twice_counts_once(stream: Stream, start_worker: StartWorker) -> None:
    worker = start_worker()
    events = [
        (session, json.dumps(json.loads(value) | {"event_id": f"e{at}"}).encode())
        for at, (session, value) in enumerate(loop("s", 9))
    ]
    stream.send([twice for one in events for twice in (one, one)])
    wait_until(lambda: worker.metric("loopwarden_events_total") >= 36, "all events are folded")

    assert worker.metric("loopwarden_duplicate_events_total") == 18
    assert worker.metric("loopwarden_verdicts_total") == 0


def test_an_ended_runs_state_is_freed_with_a_tombstone(stream: Stream, start_worker: StartWorker) -> None:
    worker = start_worker(worker={"endedRunGraceSeconds": 1})
    stream.send([*loop("ends", 3), event("ends", type="run_ended"), *loop("stays", 3)])

    changelog = stream.read(
        stream.names.runs_changelog,
        lambda records: any(record.key == run_key("ends", "r") and record.value is None for record in records),
    )
    assert run_key("stays", "r") in {record.key for record in changelog}
    wait_until(lambda: worker.metric("loopwarden_runs_held") == 1, "one run is held")
    assert worker.metric("loopwarden_runs_freed_total") == 1


def test_what_tools_were_given_and_returned_is_repeated_nowhere(stream: Stream, start_worker: StartWorker) -> None:
    worker = start_worker()
    secret = {"args": {"token": SECRET}, "tool_name": "login"}
    stream.send(loop("s", 25, **secret))
    stream.send([event("s", type="tool_result", tool_call_id="x", error=f"bad token {SECRET}", **secret)])
    stream.send([event("s", type="compaction")])
    wait_until(lambda: worker.metric("loopwarden_events_total") == 52, "all events are folded")
    topics = (stream.names.verdicts, stream.names.signals, stream.names.runs_changelog)
    written = b"".join(value or b"" for topic in topics for value in values(stream.read(topic, at_least(2))))

    assert SECRET.encode() not in written
    assert SECRET not in worker.process.log.read_text()
    assert SECRET not in (worker.get("/metrics") or "")


def test_logs_are_json_lines_that_name_run_and_session(stream: Stream, start_worker: StartWorker) -> None:
    worker = start_worker()
    stream.send([event("s", type="compaction"), *loop("s", 3)])
    stream.verdicts(at_least(1))
    wait_until(lambda: "signal sent" in worker.process.log.read_text(), "the signal is logged")
    lines = [msgspec.json.decode(line) for line in worker.process.log.read_text().splitlines()]

    told = [line for line in lines if line.get("session_id") == "s"]
    assert [(line["event"], line["level"], line["run_id"]) for line in told] == [
        ("post-compaction guard armed for 3 attempts", "info", "r"),
        ("loop detected", "error", "r"),
        ("signal sent", "warning", "r"),
    ]
