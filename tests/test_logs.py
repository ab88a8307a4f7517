"""Logs of libraries: the same line passes once a minute, whatever values it bears."""

from __future__ import annotations

import logging

from loopwarden.streams.plumbing.logs import NowAndThen


def line(logger: str, message: str, *values: object, at_s: float) -> logging.LogRecord:
    record = logging.LogRecord(logger, logging.ERROR, __file__, 1, message, values, None)
    record.created = at_s
    return record


def test_a_client_that_says_the_same_many_times_a_second_is_heard_once_a_minute() -> None:
    passes = NowAndThen().filter
    heard = [at_s / 10 for at_s in range(1_500) if passes(line("aiokafka.conn", "no node %s", at_s, at_s=at_s / 10))]

    assert heard == [0.0, 60.0, 120.0]


def test_different_lines_do_not_hide_each_other() -> None:
    passes = NowAndThen().filter

    assert passes(line("aiokafka.conn", "one", at_s=0))
    assert passes(line("aiokafka.conn", "another", at_s=0))
    assert passes(line("faust.app", "one", at_s=0))


def test_lines_of_our_own_always_pass() -> None:
    passes = NowAndThen().filter

    assert all(passes(line("loopwarden.runs", "loop detected", at_s=0)) for _ in range(3))
