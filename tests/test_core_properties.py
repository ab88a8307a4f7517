"""Properties of the core on random histories, with every threshold and window size drawn."""

from __future__ import annotations

from typing import Any

from folding import event_of, fold_all, form_of, settings_of
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import NaiveRun
from strategies import blocks, histories

from loopwarden.streams.engine import Engine
from loopwarden.streams.run import Run
from loopwarden.streams.state import decode_run, encode_run

EXAMPLES = 400


@settings(max_examples=EXAMPLES * 3, deadline=None)
@given(histories(), blocks())
def test_the_core_decides_as_the_naive_rules_do(events: list[dict[str, Any]], block: dict[str, Any]) -> None:
    run = NaiveRun(block)
    naive = [(at, run.fold(event)) for at, event in enumerate(events)]

    assert fold_all(events, settings_of(block)) == [{"at": at} | said for at, said in naive if said]


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), blocks(), st.data())
def test_a_run_sent_through_bytes_at_any_point_goes_on_the_same(
    events: list[dict[str, Any]], block: dict[str, Any], data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(0, len(events)), max_size=4))
    effective = settings_of(block)
    engine, run = Engine(), Run("s", "r")
    decisions = []
    for offset, fields in enumerate(events):
        if offset in cuts:
            run = decode_run(encode_run(run))
            engine = Engine()
        decision = engine.fold(run, event_of(fields), offset, 1000 + offset, effective)
        if decision is not None:
            decisions.append({"at": offset} | form_of(decision))

    whole = Run("s", "r")
    assert decisions == fold_all(events, effective, whole)
    assert encode_run(run) == encode_run(whole)


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), blocks(), st.data())
def test_a_redelivered_prefix_changes_nothing(
    events: list[dict[str, Any]], block: dict[str, Any], data: st.DataObject
) -> None:
    effective = settings_of(block)
    engine, run = Engine(), Run("s", "r")
    delivered = list(enumerate(events))
    at = data.draw(st.integers(0, len(events)))
    back = data.draw(st.integers(0, at))
    decisions = []
    for offset, fields in delivered[:at] + delivered[back:]:
        decision = engine.fold(run, event_of(fields), offset, 1000 + offset, effective)
        if decision is not None:
            decisions.append({"at": offset} | form_of(decision))

    assert decisions == fold_all(events, effective)


@settings(max_examples=EXAMPLES, deadline=None)
@given(histories(), blocks(), st.data())
def test_events_sent_twice_under_one_id_count_once(
    events: list[dict[str, Any]], block: dict[str, Any], data: st.DataObject
) -> None:
    effective = settings_of(block)
    named = [fields | {"event_id": f"e{index}"} for index, fields in enumerate(events)]
    twice = []
    for index, fields in enumerate(named):
        twice.append(fields)
        if data.draw(st.integers(0, 3)) == 0:
            twice.append(named[max(0, index - data.draw(st.integers(0, 5)))])
    once_run, twice_run = Run("s", "r"), Run("s", "r")
    once = fold_all(named, effective, once_run)
    repeated = fold_all(twice, effective, twice_run)

    assert [d | {"at": 0} for d in repeated] == [d | {"at": 0} for d in once]
