"""``loopwarden tail``: what it shows of a record, whatever the record holds, and how it begins and ends."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from broker_tools import Stream, wait_until
from click.testing import CliRunner, Result

from loopwarden.streams.cli.main import main
from loopwarden.streams.cli.tail import json_line, readable

COMMAND = [sys.executable, "-m", "loopwarden.streams.cli.main", "tail"]

VERDICT = {
    "level": "critical",
    "detector": "generic_repeat",
    "count": 20,
    "session_id": "s-1",
    "run_id": "r-1",
    "tool_name": "read",
    "action": "block",
    "message": "read was called 20 times",
}
SIGNAL = {"action": "kill", "reason": "ping_pong", "session_id": "s-1", "run_id": "s-1-run-2", "message": "stop"}
HEADERS = [
    ("reason", b"not_json"),
    ("source_topic", b"loopwarden.events"),
    ("source_partition", b"3"),
    ("source_offset", b"17"),
]


class Record(NamedTuple):
    """What a consumer hands over, as far as it is shown."""

    value: bytes | None
    key: bytes | None = b"s-1"
    timestamp: int = 1_700_000_000_123
    partition: int = 2
    offset: int = 7
    headers: Sequence[tuple[str, bytes | None]] = ()


#: Values that a topic may hold and that are no JSON object.
NO_OBJECTS = {
    "no JSON": b"{",
    "not UTF-8": b'{"session_id":"\xff"}',
    "empty": b"",
    "a number": b"3",
    "null": b"null",
    "a list": b"[]",
    "too deep": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "lone surrogate": b'{"a":"\\ud800"}',
    "number out of range": b'{"a":1e999}',
}


def test_a_verdict_is_a_line_with_time_level_detector_count_run_and_message() -> None:
    line = readable("verdicts", Record(json.dumps(VERDICT).encode()))

    assert line.plain == ("22:13:20.123  critical generic_repeat                20  s-1 r-1  read was called 20 times")
    assert [str(span.style) for span in line.spans] == ["bold red", "dim"]


def test_a_signal_is_a_line_with_action_and_reason() -> None:
    line = readable("signals", Record(json.dumps(SIGNAL).encode()))

    assert line.plain == "22:13:20.123  kill     ping_pong                     >>  s-1-run-2  stop"


def test_arguments_results_and_errors_of_events_are_not_shown_to_people() -> None:
    event = {
        "type": "tool_result",
        "session_id": "s-1",
        "tool_name": "read",
        "args": {"a": "geheim-1"},
        "result": "geheim-2",
        "error": "geheim-3",
    }
    line = readable("events", Record(json.dumps(event).encode())).plain

    assert line == "22:13:20.123  tool_result  s-1  read"
    assert "geheim-1" in json_line("events", Record(json.dumps(event).encode()))


def test_json_keeps_a_value_as_it_is_on_one_line() -> None:
    value = b'{ "count": 1.10,\n  "big": 123456789012345678901234567890, "a": 1, "a": "\\u00e9" }'

    assert json_line("verdicts", Record(value)) == (
        '{"count":1.10,"big":123456789012345678901234567890,"a":1,"a":"\\u00e9"}'
    )


@pytest.mark.parametrize("what", ["verdicts", "signals", "events"])
@pytest.mark.parametrize("value", NO_OBJECTS.values(), ids=NO_OBJECTS.keys())
def test_a_record_that_cannot_be_decoded_is_shown_as_such(what: str, value: bytes) -> None:
    line = readable(what, Record(value)).plain
    told = json.loads(json_line(what, Record(value)))

    assert line == f"22:13:20.123  {len(value)} bytes that are no JSON object, at 2/7"
    assert told == {"partition": 2, "offset": 7, "key": "s-1", "undecodable_bytes": len(value)}


@pytest.mark.parametrize("what", ["verdicts", "signals", "events"])
def test_fields_that_are_missing_or_of_other_types_stop_nothing(what: str) -> None:
    odd = {"level": ["x"], "count": {"n": 1}, "session_id": None, "run_id": 4, "message": 5, "reason": 1.5, "type": []}

    assert readable(what, Record(b"{}")).plain.startswith("22:13:20.123  ?")
    assert readable(what, Record(json.dumps(odd).encode())).plain.startswith("22:13:20.123  ")


def test_a_tombstone_is_told_from_an_empty_record() -> None:
    line = readable("signals", Record(None, key=b"s-1/r-1")).plain
    told = json.loads(json_line("signals", Record(None, key=None)))

    assert line == "22:13:20.123  tombstone of s-1/r-1 at 2/7"
    assert told == {"partition": 2, "offset": 7, "key": "", "tombstone": True}


@pytest.mark.parametrize("timestamp_ms", [4_102_444_800_000_000, 2**63 - 1, -(2**63)])
def test_a_timestamp_beyond_the_calendar_stops_nothing(timestamp_ms: int) -> None:
    assert readable("events", Record(b"{}", timestamp=timestamp_ms)).plain.startswith("--:--:--.---  ")


@pytest.mark.parametrize("what", ["verdicts", "signals", "events"])
def test_nothing_in_a_record_reaches_the_terminal_as_a_command(what: str) -> None:
    nasty = "\x1b[2J\x9b1m\r\nforged\u202eline\x07"
    fields = dict.fromkeys(
        ("session_id", "run_id", "type", "tool_name", "level", "detector", "action", "reason", "message"), nasty
    )
    lines = [
        readable(what, Record(json.dumps(fields).encode())),
        readable(what, Record(None, key=nasty.encode())),
        readable("dead-letters", Record(nasty.encode(), headers=[("reason", nasty.encode())]), show_value=True),
    ]

    assert all(line.plain.isprintable() for line in lines)
    assert json_line(what, Record(json.dumps(fields).encode())).isprintable()


def test_a_dead_letter_is_told_by_reason_source_and_size_and_held_back_unless_asked_for() -> None:
    record = Record(b"geheim", headers=HEADERS)

    assert readable("dead-letters", record).plain == (
        "22:13:20.123  not_json                    6 bytes  from loopwarden.events[3]@17"
    )
    assert json.loads(json_line("dead-letters", record)) == {
        "reason": "not_json",
        "detail": "?",
        "source_topic": "loopwarden.events",
        "source_partition": "3",
        "source_offset": "17",
        "size_bytes": 6,
    }
    assert readable("dead-letters", record, show_value=True).plain.endswith("@17  geheim")
    assert json.loads(json_line("dead-letters", record, show_value=True))["value"] == "geheim"


def test_a_dead_letter_that_is_no_text_is_shown_in_base64_and_a_tombstone_has_no_value() -> None:
    binary = json.loads(json_line("dead-letters", Record(b"\xff\x00", headers=HEADERS), show_value=True))
    tombstone = json.loads(json_line("dead-letters", Record(None, headers=HEADERS), show_value=True))

    assert (binary["value_base64"], "value" in binary) == ("/wA=", False)
    assert (tombstone["size_bytes"], set(tombstone) & {"value", "value_base64"}) == (0, set())


def test_a_dead_letter_without_headers_is_shown_all_the_same() -> None:
    line = readable("dead-letters", Record(b"x", headers=[("reason", None)])).plain

    assert line.endswith("1 bytes  from ?[?]@?")


@pytest.mark.parametrize("since", ["10", "m", "10x", "-5m", "1.5h"])
def test_a_time_that_is_none_is_refused(since: str) -> None:
    result = CliRunner().invoke(main, ["tail", "--since", since])

    assert result.exit_code == 2
    assert "a number and one of s, m, h, d is expected" in result.stderr


def where(stream: Stream) -> list[str]:
    return ["--bootstrap", stream.bootstrap, "--prefix", stream.topics.prefix]


def run(stream: Stream, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["tail", *arguments, *where(stream)])


def put(
    stream: Stream, topic: str, values: Sequence[bytes | None], timestamp_ms: int | None = None, **more: Any
) -> None:
    """Append records of one session to a topic."""

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=stream.bootstrap) as producer:
            sent = [
                await producer.send(topic, value, key=b"s-1", timestamp_ms=timestamp_ms, **more) for value in values
            ]
            await asyncio.gather(*sent)

    asyncio.run(send())


@contextmanager
def tailing(stream: Stream, *arguments: str, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A tail as a process, whatever it says in a file."""
    with output.open("wb") as sink:
        process = subprocess.Popen([*COMMAND, *arguments, *where(stream)], stdout=sink, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.broker
def test_it_goes_through_records_that_cannot_be_decoded_and_ends_at_its_limit(stream: Stream) -> None:
    put(stream, stream.names.events, [*NO_OBJECTS.values(), None, b'{"type":"compaction","session_id":"s-1"}'])
    count = len(NO_OBJECTS) + 2

    shown = run(stream, "events", "--from-beginning", "--limit", str(count))
    told = run(stream, "events", "--from-beginning", "--json", "--limit", str(count))

    assert (shown.exit_code, told.exit_code) == (0, 0), shown.output
    assert shown.stdout.count("bytes that are no JSON object") == len(NO_OBJECTS)
    assert shown.stdout.count("tombstone of s-1") == 1
    assert shown.stdout.count("compaction   s-1") == 1
    assert len([json.loads(line) for line in told.stdout.splitlines()]) == count


@pytest.mark.broker
def test_since_leaves_out_what_is_older(stream: Stream) -> None:
    now_ms = int(time.time() * 1000)
    put(stream, stream.names.verdicts, [b'{"detector":"old"}'], timestamp_ms=now_ms - 2 * 3_600_000)
    put(stream, stream.names.verdicts, [b'{"detector":"young"}'], timestamp_ms=now_ms - 60_000)

    hour = run(stream, "--since", "1h", "--limit", "1", "--json").stdout
    day = run(stream, "--since", "1d", "--limit", "2", "--json").stdout

    assert hour.splitlines() == ['{"detector":"young"}']
    assert day.splitlines() == ['{"detector":"old"}', '{"detector":"young"}']


@pytest.mark.broker
def test_dead_letters_are_shown_with_their_value_when_asked_for(stream: Stream) -> None:
    put(stream, stream.names.dead_letters, [b"geheim"], headers=HEADERS)
    options = ["dead-letters", "--from-beginning", "--limit", "1"]

    assert "geheim" not in run(stream, *options).stdout + run(stream, *options, "--json").stdout
    assert "geheim" in run(stream, *options, "--show-value").stdout
    assert json.loads(run(stream, *options, "--show-value", "--json").stdout)["value"] == "geheim"


@pytest.mark.broker
def test_it_follows_what_comes_until_ctrl_c_and_ends_well(stream: Stream, tmp_path: Path) -> None:
    output = tmp_path / "output"
    with tailing(stream, "--json", output=output) as process:

        def shows_a_new_one() -> bool:
            put(stream, stream.names.verdicts, [b'{"level":"warning"}'])
            return '{"level":"warning"}' in output.read_text()

        wait_until(shows_a_new_one, "a verdict is shown that came after it began")
        process.send_signal(signal.SIGINT)
        code = process.wait(30)

    assert code == 0
    assert set(output.read_text().splitlines()) == {'{"level":"warning"}'}


@pytest.mark.broker
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["readable", "json"])
def test_a_reader_that_has_seen_enough_is_no_trouble(stream: Stream, form: list[str]) -> None:
    put(stream, stream.names.verdicts, [json.dumps(VERDICT | {"message": "m" * 500}).encode()] * 2000)
    command = [*COMMAND, "--from-beginning", *form, *where(stream)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            first = process.stdout.readline()
            process.stdout.close()
            process.wait(30)
            complaints = process.stderr.read()
        finally:
            process.kill()

    assert b"generic_repeat" in first
    assert complaints == b""
