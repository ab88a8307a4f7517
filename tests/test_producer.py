"""Insisting on a batch: what is sent again, what is not, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiokafka.errors import KafkaError, KafkaTimeoutError, LeaderNotAvailableError, TopicAuthorizationFailedError

from loopwarden.streams.plumbing import producer
from loopwarden.streams.plumbing.producer import BatchProducer


class Broker:
    """Takes what is sent after it has refused with these errors, one a time."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)
        self.tries = 0

    async def take(self) -> None:
        self.tries += 1
        if self._errors:
            raise self._errors.pop(0)


def insist(send: Callable[[], Awaitable[None]], is_wanted: Callable[[], bool] = lambda: True) -> bool:
    return asyncio.run(BatchProducer({}).insist(send, is_wanted))


def test_what_the_broker_takes_is_sent_once() -> None:
    broker = Broker()

    assert insist(broker.take)
    assert broker.tries == 1


@pytest.mark.parametrize("error", [LeaderNotAvailableError(), KafkaTimeoutError()])
def test_what_may_pass_is_sent_again(error: KafkaError) -> None:
    broker = Broker(error, error)

    assert insist(broker.take)
    assert broker.tries == 3


def test_what_trying_again_does_not_mend_is_raised_at_once() -> None:
    broker = Broker(LeaderNotAvailableError(), TopicAuthorizationFailedError("runs"))

    with pytest.raises(TopicAuthorizationFailedError):
        insist(broker.take)
    assert broker.tries == 2


def test_nothing_is_sent_for_a_partition_that_was_lost() -> None:
    broker = Broker()

    assert not insist(broker.take, lambda: False)
    assert broker.tries == 0


def test_nothing_is_sent_again_once_the_partition_was_lost() -> None:
    broker = Broker(LeaderNotAvailableError(), LeaderNotAvailableError())

    assert not insist(broker.take, lambda: broker.tries < 2)
    assert broker.tries == 2


def test_it_is_given_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "GIVE_UP_S", 0.2)
    broker = Broker(*[LeaderNotAvailableError()] * 1_000)

    with pytest.raises(LeaderNotAvailableError):
        insist(broker.take)
    assert 2 <= broker.tries < 1_000


def test_sending_counts_as_stalled_while_no_acknowledgement_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "_STALLED_AFTER_S", 0.0)

    async def look() -> None:
        acknowledged = asyncio.Event()
        sender = BatchProducer({})
        assert sender.stalled_since_s is None
        sending = asyncio.ensure_future(sender.insist(acknowledged.wait, lambda: True))
        await asyncio.sleep(0)
        assert sender.stalled_since_s is not None
        acknowledged.set()
        assert await sending
        assert sender.stalled_since_s is None

    asyncio.run(look())
