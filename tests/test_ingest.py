"""Records that cannot be used are told apart by reason, and never raise."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.schemas.events import Event, RunStarted, ToolCall
from loopwarden.streams.engine import Engine
from loopwarden.streams.fingerprint import DEPTH_MAX, Unusable
from loopwarden.streams.ingest import Refusal, read_event, read_events
from loopwarden.streams.run import Run
from loopwarden.streams.settings import Settings, resolve

CALL = b'{"type":"tool_call","session_id":"s","tool_name":"x","args":%b}'


def nested(levels: int) -> bytes:
    return CALL % (b"[" * levels + b"]" * levels)


REFUSED = {
    "a tombstone": (None, "tombstone"),
    "an empty record": (b"", "empty"),
    "not JSON": (b"hello", "not_json"),
    "JSON with something behind it": (CALL % b"1" + b" x", "not_json"),
    "JSON that breaks off": (CALL[:-4], "not_json"),
    "an array": (b"[1]", "not_an_object"),
    "null": (b"null", "not_an_object"),
    "no session": (b'{"type":"run_started"}', "no_session"),
    "an empty session": (b'{"type":"run_started","session_id":""}', "no_session"),
    "a number as session": (b'{"type":"run_started","session_id":5}', "wrong_type"),
    "no type": (b'{"session_id":"s"}', "wrong_type"),
    "a number as type": (b'{"type":5,"session_id":"s"}', "wrong_type"),
    "a call without a tool": (b'{"type":"tool_call","session_id":"s"}', "wrong_type"),
    "a session id without end": (b'{"type":"run_started","session_id":"%b"}' % (b"s" * 600), "wrong_type"),
    "invalid UTF-8": (CALL % b'"\xff"', "invalid_utf8"),
    "invalid UTF-8 in a field nobody reads": (b'{"type":"run_started","session_id":"s","x":"\xff"}', "invalid_utf8"),
    "900 KB": (CALL % (b'"' + b"a" * 900_000 + b'"'), "too_large"),
    "10,000 levels": (nested(10_000), "too_deep"),
    "a sequence beyond 64 bits": (
        b'{"type":"tool_call","session_id":"s","tool_name":"x","sequence":18446744073709551616}',
        "number_out_of_range",
    ),
    "half a surrogate pair": (CALL % b'"\\ud800"', "lone_surrogate"),
    "half a surrogate pair as session": (b'{"type":"run_started","session_id":"\\udc00"}', "lone_surrogate"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_unusable_record_is_refused_with_its_reason(name: str) -> None:
    value, reason = REFUSED[name]

    refusal = read_event(value)

    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason


UNFINGERPRINTABLE = {
    "an integer beyond 64 bits": (CALL % b"18446744073709551616", "number_out_of_range"),
    "a float beyond 64 bits": (CALL % b"1e999", "number_out_of_range"),
    "more levels than are taken": (nested(DEPTH_MAX + 1), "too_deep"),
}


@pytest.mark.parametrize("name", UNFINGERPRINTABLE)
def test_what_cannot_be_fingerprinted_leaves_the_run_as_it_was(name: str) -> None:
    value, reason = UNFINGERPRINTABLE[name]
    event = read_event(value)
    run = Run("s", None)
    settings: Settings = resolve({"enabled": True}, {})[0].for_agent(None)
    assert not isinstance(event, Refusal)

    with pytest.raises(Unusable) as raised:
        Engine().fold(run, event, 0, 0, settings)

    assert raised.value.reason == reason
    assert (run.last_offset, run.history.calls) == (-1, [])


def test_the_deepest_nesting_that_is_taken_is_taken() -> None:
    assert isinstance(read_event(nested(DEPTH_MAX)), ToolCall)


def test_an_unknown_type_is_nobodys_fault() -> None:
    assert read_event(b'{"type":"tool_progress","session_id":"s"}') == Refusal(None, "unknown type")


def test_unknown_fields_are_ignored() -> None:
    assert read_event(b'{"type":"run_started","session_id":"s","later":{"a":[1]}}') == RunStarted(session_id="s")


def test_headers_supply_what_the_value_lacks_and_nothing_else() -> None:
    headers = [("ce_id", b"e1"), ("ce_subject", b"r1"), ("ce_time", b"2026-01-01T00:00:00Z"), ("ce_source", b"runner")]

    event = read_event(b'{"type":"run_started","session_id":"s","run_id":"mine"}', headers)

    assert event == RunStarted(
        session_id="s", run_id="mine", event_id="e1", time="2026-01-01T00:00:00Z", runner_id="runner"
    )


def test_the_type_may_come_from_a_header() -> None:
    event = read_event(b'{"session_id":"s"}', [("ce_type", b"com.example.run_started")])

    assert event == RunStarted(session_id="s")


@given(st.binary(max_size=200))
def test_no_bytes_whatever_raise(value: bytes) -> None:
    read_event(value)
    read_event(b'{"type":"tool_call","session_id":"s","tool_name":"t","args":' + value + b"}")


class Record(NamedTuple):
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    offset: int = 0
    timestamp: int = 0


ODD = [
    None,
    b"",
    b"bad",
    b"\n",
    CALL % b"1\n",
    b"{}\n{}",
    CALL % b"[1,\n2]",
    b'{"type":"run_started"}',
    CALL % b'"\xff"',
]
RECORDS = st.builds(
    Record,
    st.one_of(st.sampled_from(ODD), st.integers(0, 9).map(lambda number: CALL % str(number).encode())),
    st.sampled_from([(), (("ce_subject", b"run"),)]),
)


def comparable(events: list[Event | Refusal]) -> list[bytes]:
    return [repr(event).encode() if isinstance(event, Refusal) else msgspec.json.encode(event) for event in events]


@given(st.lists(RECORDS, max_size=8))
def test_a_batch_is_read_as_its_records_are_one_by_one(records: list[Record]) -> None:
    one_by_one = [read_event(record.value, record.headers) for record in records]

    assert comparable(read_events(records)) == comparable(one_by_one)
