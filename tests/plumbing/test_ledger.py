"""What a partition's ledger says of what may be committed, and where to go on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from loopwarden.streams.plumbing.chunks import Chunk
from loopwarden.streams.plumbing.ledger import Ledger, give_up


def message(first: int, last: int) -> Any:
    """A message of Faust's with a chunk, as far as a ledger looks at it."""
    records = [SimpleNamespace(offset=first), SimpleNamespace(offset=last)]
    return SimpleNamespace(value=Chunk("events", 0, records), acked=False, generation_id=7)


def delivered(*messages: Any) -> Ledger:
    """A ledger with these messages delivered."""
    ledger = Ledger()
    for each in messages:
        ledger.deliver(each, to_commit=True)
    return ledger


def test_nothing_is_committed_before_it_is_acknowledged() -> None:
    ledger = delivered(message(0, 9))

    assert ledger.take_committable() is None


def test_the_offset_after_the_last_record_is_committed_once() -> None:
    done = message(0, 9)
    ledger = delivered(done)
    done.acked = True

    assert [ledger.take_committable(), ledger.take_committable()] == [10, None]


def test_offsets_missing_between_chunks_hold_up_no_commit() -> None:
    first, second = message(0, 9), message(25, 31)
    ledger = delivered(first, second)
    first.acked = second.acked = True

    assert ledger.take_committable() == 32


def test_a_chunk_acknowledged_out_of_turn_waits_for_those_before_it() -> None:
    first, second = message(0, 9), message(10, 19)
    ledger = delivered(first, second)
    second.acked = True

    assert ledger.take_committable() is None

    first.acked = True

    assert ledger.take_committable() == 20


def test_a_chunk_given_up_is_not_committed_and_neither_is_what_follows() -> None:
    first, second, third = message(0, 9), message(10, 19), message(20, 29)
    ledger = delivered(first, second, third)
    give_up(second)
    first.acked = second.acked = third.acked = True

    assert [ledger.take_committable(), ledger.take_committable()] == [10, None]


def test_what_follows_a_chunk_given_up_counts_no_more() -> None:
    first, second, third = message(0, 9), message(10, 19), message(20, 29)
    ledger = delivered(first, second, third)
    give_up(second)

    assert [ledger.holds(each) for each in (first, second, third)] == [True, False, False]


def test_after_a_chunk_given_up_delivery_goes_back_to_its_first_record() -> None:
    first, second = message(0, 9), message(10, 19)
    ledger = delivered(first, second)
    give_up(first)

    assert ledger.go_back()
    assert (ledger.next_offset, ledger.seek_due) == (0, True)
    assert not ledger.go_back()


def test_a_chunk_of_before_a_restart_counts_no_more() -> None:
    old = message(0, 9)
    ledger = delivered(old)
    ledger.restart(0)
    old.acked = True

    assert (ledger.holds(old), ledger.take_committable()) == (False, None)


def test_giving_up_what_is_unfinished_leaves_what_is_done() -> None:
    first, second = message(0, 9), message(10, 19)
    ledger = delivered(first, second)
    first.acked = True

    assert ledger.give_up_unfinished() == 1

    second.acked = True  # as Faust does with a message whose processing it cancels

    assert ledger.take_committable() == 10


def test_a_changelog_is_followed_without_keeping_its_chunks() -> None:
    ledger = Ledger()
    chunk = message(0, 9)
    ledger.deliver(chunk, to_commit=False)

    assert (ledger.next_offset, ledger.holds(chunk), ledger.give_up_unfinished()) == (10, False, 0)
