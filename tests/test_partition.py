"""A partition's runs: what a batch of records leads to, what is stored, and when a run is freed."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from loopwarden.schemas.events import ToolCall
from loopwarden.streams.partition import Limits, Outcome, PartitionRuns
from loopwarden.streams.publishing import BUCKET_CALLS
from loopwarden.streams.run import PUBLISHED_MAX
from loopwarden.streams.settings import resolve
from loopwarden.streams.state import run_key

NOW_MS = 2_000_000_000_000
DAY_MS = 86_400_000


class Record(NamedTuple):
    value: bytes | None
    offset: int
    timestamp: int = 1_800_000_000_000
    headers: tuple[tuple[str, bytes], ...] = ()


def record(offset: int, timestamp: int = 1_800_000_000_000, **fields: Any) -> Record:
    return Record(json.dumps({"session_id": "s", "run_id": "r"} | fields).encode(), offset, timestamp)


def loop(calls: int, first_offset: int = 0, **fields: Any) -> list[Record]:
    """The same call, with the same result, this many times."""
    common = {"tool_name": "read", "args": {"path": "/a"}} | fields
    records = []
    for number in range(calls):
        offset = first_offset + 2 * number
        records.append(record(offset, type="tool_call", tool_call_id=f"c{offset}", **common))
        records.append(record(offset + 1, type="tool_result", tool_call_id=f"c{offset}", result="same", **common))
    return records


def runs(rows: dict[bytes, bytes | None] | None = None, limits: Limits | None = None, **block: Any) -> PartitionRuns:
    book, _warnings = resolve({"enabled": True} | block, {})
    return PartitionRuns("events", 3, book, limits, (rows if rows is not None else {}).get)


def said(outcome: Outcome) -> list[tuple[str, str, int]]:
    return [(verdict.level, verdict.detector, verdict.count) for verdict, _time in outcome.verdicts]


def test_a_growing_loop_is_published_once_per_bucket_of_ten() -> None:
    outcome = runs(historySize=100, globalCircuitBreakerThreshold=99).fold(loop(45), NOW_MS)

    assert said(outcome) == [
        ("warning", "generic_repeat", 10),
        ("critical", "generic_repeat", 20),
        ("critical", "generic_repeat", 30),
        ("critical", "generic_repeat", 40),
    ]


def test_a_threshold_below_ten_publishes_its_first_crossing() -> None:
    outcome = runs(warningThreshold=3, criticalThreshold=5, globalCircuitBreakerThreshold=50).fold(loop(12), NOW_MS)

    assert said(outcome) == [
        ("warning", "generic_repeat", 3),
        ("critical", "generic_repeat", 5),
        ("critical", "generic_repeat", 10),
    ]


def test_the_first_critical_decision_blocks_and_the_next_one_kills_and_then_there_is_silence() -> None:
    partition = runs()
    outcome = partition.fold(loop(40), NOW_MS)

    assert [(signal.action, signal.verdict_id) for signal, _time in outcome.signals] == [
        ("block", outcome.verdicts[1][0].verdict_id),
        ("kill", outcome.verdicts[1][0].verdict_id),
    ]
    assert outcome.events[ToolCall] == 40
    assert partition.engine.counts.calls_after_kill == 40 - 22


def test_a_verdict_names_the_offsets_of_its_pattern() -> None:
    outcome = runs().fold(loop(21, first_offset=100), NOW_MS)

    critical = outcome.verdicts[-1][0]
    assert (critical.evidence.topic, critical.evidence.partition) == ("events", 3)
    assert (critical.evidence.first_offset, critical.evidence.last_offset) == (100, 140)


@pytest.mark.parametrize("batch", [1, 7, 42])
def test_batches_of_any_size_say_the_same(batch: int) -> None:
    records = loop(21)
    rows: dict[bytes, bytes | None] = {}
    whole = runs().fold(records, NOW_MS)
    verdicts = []
    for at in range(0, len(records), batch):
        # A new worker each time: nothing but the rows carries over.
        outcome = runs(rows).fold(records[at : at + batch], NOW_MS)
        rows.update(outcome.rows)
        verdicts += outcome.verdicts

    assert verdicts == whole.verdicts
    assert rows == whole.rows


def test_two_runs_never_share_anything() -> None:
    one = loop(6)
    other = [
        item._replace(value=item.value.replace(b'"r"', b'"q"'), offset=item.offset + 100) for item in one if item.value
    ]

    assert said(runs(warningThreshold=6).fold(one + other, NOW_MS)) == []


def test_a_run_is_freed_some_time_after_it_ended() -> None:
    partition = runs(limits=Limits(ended_run_grace_s=60))
    start = 1_800_000_000_000
    partition.fold([*loop(2), record(9, start, type="run_ended")], NOW_MS)
    early = partition.fold([record(10, start + 59_000, type="run_started", run_id="other")], NOW_MS)
    late = partition.fold([record(11, start + 60_000, type="run_started", run_id="other")], NOW_MS)

    assert early.freed == 0
    assert late.rows[run_key("s", "r")] is None
    assert len(partition) == 1


def test_a_run_that_goes_on_after_its_end_is_kept() -> None:
    partition = runs(limits=Limits(ended_run_grace_s=60))
    start = 1_800_000_000_000
    partition.fold([record(9, start, type="run_ended"), *loop(1, first_offset=10)], NOW_MS)
    outcome = partition.fold([record(20, start + 90_000, type="run_started", run_id="other")], NOW_MS)

    assert outcome.freed == 0


def test_an_idle_run_is_freed_after_a_day() -> None:
    partition = runs()
    start = 1_800_000_000_000
    partition.fold(loop(2), NOW_MS)
    outcome = partition.fold([record(9, start + DAY_MS, type="run_started", run_id="other")], NOW_MS)

    assert outcome.rows[run_key("s", "r")] is None


def test_a_freed_run_begins_anew() -> None:
    rows: dict[bytes, bytes | None] = {}
    partition = runs(rows)
    start = 1_800_000_000_000
    rows.update(partition.fold(loop(9), NOW_MS).rows)
    rows.update(partition.fold([record(99, start + DAY_MS, type="run_started", run_id="other")], NOW_MS).rows)

    assert said(partition.fold(loop(9, first_offset=100), NOW_MS)) == []


def test_a_producers_clock_that_is_ahead_frees_nobody_else() -> None:
    start = 1_800_000_000_000
    partition = runs()
    partition.fold(loop(2), start)
    outcome = partition.fold([record(9, start + 90 * DAY_MS, type="run_started", run_id="other")], start)

    assert outcome.freed == 0


def test_what_a_worker_takes_over_is_freed_when_due_too() -> None:
    rows = runs().fold(loop(2), NOW_MS).rows
    taken_over = runs(rows)
    taken_over.restore([(key, row) for key, row in rows.items() if row is not None], NOW_MS)

    assert len(taken_over) == 1
    assert taken_over.free_due(1_800_000_000_000 + DAY_MS) == {run_key("s", "r"): None}


def test_runs_beyond_the_limit_are_kept_as_rows_only() -> None:
    rows: dict[bytes, bytes | None] = {}
    partition = runs(rows, Limits(live_runs_max=2), warningThreshold=3)
    for round_ in range(3):
        for number in range(5):
            first = 10 * number + 2 * round_
            rows.update(partition.fold(loop(1, first_offset=first, run_id=f"r{number}"), NOW_MS).rows)
    outcome = partition.fold(
        [record(1000, type="tool_call", run_id="r0", tool_name="read", args={"path": "/a"})], NOW_MS
    )

    assert said(outcome) == [("warning", "generic_repeat", 3)]


def test_a_row_that_cannot_be_read_does_not_stop_the_partition() -> None:
    outcome = runs({run_key("s", "r"): b"\xff" * 40}).fold(loop(10), NOW_MS)

    assert outcome.unreadable_rows == 1
    assert outcome.events[ToolCall] == 10


def test_how_many_subjects_a_run_remembers_has_a_limit() -> None:
    partition = runs(warningThreshold=1, historySize=1000)
    offset = 0
    for number in range(PUBLISHED_MAX + 40):
        partition.fold(loop(2, first_offset=offset, args={"n": number}), NOW_MS)
        offset += 4
    run = next(iter(partition._live.values()))

    assert len(run.published) == PUBLISHED_MAX
    assert BUCKET_CALLS == 10


def test_policy_observe_publishes_shadow_verdicts_and_no_signal() -> None:
    outcome = runs(onCritical="observe").fold(loop(25), NOW_MS)

    assert [verdict.shadow for verdict, _time in outcome.verdicts] == [True, True]
    assert outcome.signals == []
