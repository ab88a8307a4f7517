"""Workers that stop, die, come and go: the verdicts, signals and state are those of an undisturbed run."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from broker_tools import Expected, Stream, at_least, expect, wait_until
from conftest import StartWorker

from loopwarden.deploy.demo.player import read_recording
from loopwarden.deploy.demo.stack import WorkerProcess
from loopwarden.streams.settings import resolve
from loopwarden.streams.state import run_key

pytestmark = pytest.mark.broker

BOOK = resolve({"enabled": True}, {})[0]


def fleet(copies: int) -> list[tuple[str, bytes]]:
    """The recorded fleet several times over, each copy's runs with names of their own, interleaved."""
    recording = read_recording()
    events = []
    for played in recording:
        for copy in range(copies):
            fields: dict[str, Any] = json.loads(played.value)
            fields["session_id"] += f"-{copy}"
            events.append((fields["session_id"], json.dumps(fields).encode()))
    return events


def folded(workers: list[WorkerProcess]) -> float:
    """How many events these workers have folded, redelivered ones included."""
    return sum(worker.metric("loopwarden_events_total") for worker in workers)


def lags_shown(worker: WorkerProcess) -> list[str]:
    """The partitions whose lag a worker shows."""
    return re.findall(r'loopwarden_consumer_lag{partition="(\d+)"}', worker.get("/metrics") or "")


def assert_as_undisturbed(stream: Stream, expected: Expected) -> None:
    verdicts = stream.verdicts(at_least(len(expected.verdicts)))
    assert {verdict.verdict_id: verdict for verdict in verdicts} == expected.verdicts
    signals = stream.signals(at_least(len(expected.signals)))
    assert {signal.signal_id: signal for signal in signals} == expected.signals
    assert stream.rows(lambda rows: rows == expected.rows) == expected.rows


def test_a_worker_that_is_stopped_and_started_again_goes_on(stream: Stream, start_worker: StartWorker) -> None:
    events = fleet(1)
    half = len(events) // 2
    first = start_worker()
    stream.send(events[:half])
    wait_until(lambda: folded([first]) == half, "the first half is folded")
    assert first.stop() == 0
    stream.send(events[half:])
    second = start_worker()
    wait_until(lambda: folded([second]) == len(events) - half, "the second half is folded, and nothing twice")

    assert_as_undisturbed(stream, expect(stream, len(events), BOOK))


def test_a_worker_that_is_killed_in_mid_stream_loses_and_repeats_nothing(
    stream: Stream, start_worker: StartWorker
) -> None:
    events = fleet(3)
    pick = random.Random(20261201)
    worker = start_worker()
    stream.send(events[: len(events) // 4])
    for part in range(1, 4):
        goal = folded([worker]) + pick.randrange(500, 5_000)
        stream.send(events[part * len(events) // 4 : (part + 1) * len(events) // 4])
        wait_until(lambda goal=goal, worker=worker: folded([worker]) >= goal, "some of it is folded")  # type: ignore[misc]
        worker.process.kill()
        worker = start_worker()

    assert_as_undisturbed(stream, expect(stream, len(events), BOOK))


def test_workers_that_come_and_go_lose_and_repeat_nothing(stream: Stream, start_worker: StartWorker) -> None:
    events = fleet(3)
    quarter = len(events) // 4
    first = start_worker()
    stream.send(events[:quarter])
    second = start_worker()
    stream.send(events[quarter : 2 * quarter])
    wait_until(lambda: second.metric("loopwarden_events_total") > 0, "the second worker has work")
    assert first.stop() == 0
    stream.send(events[2 * quarter : 3 * quarter])
    third = start_worker()
    stream.send(events[3 * quarter :])
    wait_until(lambda: third.metric("loopwarden_events_total") > 0, "the third worker has work")
    wait_until(
        lambda: sorted(lags_shown(second) + lags_shown(third)) == ["0", "1", "2", "3"],
        "the lag of each partition is shown by the worker that holds it, and by no other",
    )

    assert_as_undisturbed(stream, expect(stream, len(events), BOOK))


def test_rows_that_cannot_be_read_are_rebuilt_from_the_events(stream: Stream, start_worker: StartWorker) -> None:
    events = fleet(1)
    half = len(events) // 2
    first = start_worker()
    stream.send(events[:half])
    wait_until(lambda: folded([first]) == half, "the first half is folded")
    assert first.stop() == 0
    rows = stream.rows(lambda rows: len(rows) > 100)
    odd = [b"", b"garbage", b"\xff" * 100]  # of no version, of none known, and of one that is still to come
    stream.write_rows([(key, odd[at % len(odd)]) for at, key in enumerate(rows) if at % 5 == 0])
    stream.write_rows([(run_key("gone", "r"), b"of a run whose events are gone")])
    start_worker().process.kill()  # the next one has to begin with it again
    start_worker()
    stream.send(events[half:])

    assert_as_undisturbed(stream, expect(stream, len(events), BOOK))


@pytest.mark.parametrize("bootstrap", ["kafka"], indirect=True)  # the embedded broker knows no static members
def test_a_worker_with_an_instance_id_takes_its_partitions_back_without_waiting_for_its_session(
    stream: Stream, start_worker: StartWorker
) -> None:
    events = fleet(1)
    half = len(events) // 2
    session = ["--session-timeout", "120"]
    first = start_worker(more=session, worker={"instanceId": "worker-1"})
    stream.send(events[:half])
    wait_until(lambda: folded([first]) > 0, "some of it is folded")
    first.process.kill()
    start_worker(more=session, worker={"instanceId": "worker-1"})  # which fails where it is not ready in half that time
    stream.send(events[half:])

    assert_as_undisturbed(stream, expect(stream, len(events), BOOK))
