"""Sending whole batches to a partition, acknowledged by the broker before going on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, KafkaTimeoutError, UnknownError
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from loopwarden.streams.plumbing.logs import get_logger

log = get_logger("loopwarden.producer")

#: Bytes in a batch at most; below the broker's default limit of a megabyte for a message.
BATCH_BYTES_MAX = 900_000


class Outgoing(NamedTuple):
    """A record to be sent; ``timestamp_ms`` is milliseconds since the epoch, None for the time of sending."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


#: For how long a batch that the broker does not take is sent again, in seconds. A client that is stuck for so long may
#: be the cause itself; whoever supervises the worker starts it anew then, which loses nothing.
GIVE_UP_S = 600.0

_RETRY_WAIT_MAX_S = 5.0

#: After how long without an acknowledgement sending counts as stalled, in seconds.
_STALLED_AFTER_S = 5.0


class BatchProducer:
    """Sends record batches, idempotently and with ``acks=all``."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._producer: AIOKafkaProducer | None = None
        # When each send that has not been acknowledged began.
        self._sending: dict[object, float] = {}

    async def start(self) -> None:
        """Connect to the broker; raises KafkaConnectionError where there is none.

        The embedded broker knows no idempotent producer. Nothing is lost without it: a batch may then be written
        twice, and everything sent here can be.
        """
        try:
            self._producer = await self._connect(idempotent=True)
        except UnknownError:
            log.info("this broker has no idempotent producer; going on without")
            self._producer = await self._connect(idempotent=False)

    async def _connect(self, *, idempotent: bool) -> AIOKafkaProducer:
        producer = AIOKafkaProducer(
            **self._options,
            acks="all",
            enable_idempotence=idempotent,
            max_batch_size=BATCH_BYTES_MAX,
            max_request_size=2 * BATCH_BYTES_MAX,
        )
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        return producer

    async def stop(self) -> None:
        """Send what is waiting, and disconnect."""
        if self._producer is not None:
            await self._producer.stop()
            self._producer = None

    async def send(self, topic: str, partition: int, records: Sequence[Outgoing]) -> int:
        """Send records to a partition in order; return the offset of the last one, once all are acknowledged.

        Raises what aiokafka raises when the broker does not take them.
        """
        producer = self._producer
        if producer is None:
            raise RuntimeError("the producer is not started")
        batch = producer.create_batch()
        sent = []
        for record in records:
            timestamp = record.timestamp_ms
            headers = list(record.headers)
            if batch.append(key=record.key, value=record.value, timestamp=timestamp, headers=headers) is None:
                sent.append(await producer.send_batch(batch, topic, partition=partition))
                batch = producer.create_batch()
                if batch.append(key=record.key, value=record.value, timestamp=timestamp, headers=headers) is None:
                    raise ValueError(f"a record for {topic} is larger than {BATCH_BYTES_MAX} bytes")
        sent.append(await producer.send_batch(batch, topic, partition=partition))
        acknowledged = await asyncio.gather(*sent)
        last_offset: int = acknowledged[-1].offset + batch.record_count() - 1
        return last_offset

    @property
    def stalled_since_s(self) -> float | None:
        """Monotonic time since when the broker takes nothing, in seconds; None where it does, or has nothing to take.

        aiokafka sends an idempotent batch again for ever, without a word.
        """
        began_s = min(self._sending.values(), default=None)
        return None if began_s is None or time.monotonic() - began_s < _STALLED_AFTER_S else began_s

    async def insist(self, send: Callable[[], Awaitable[object]], is_wanted: Callable[[], bool]) -> bool:
        """Call ``send`` until the broker takes what it sends; return False once that is no longer wanted.

        Everything sent here may come twice, so it may be sent again. aiokafka too tries again on its own, but not where
        a partition stays without a leader. Raises what aiokafka raises: at once where trying again mends nothing, and
        after ten minutes.
        """
        if not is_wanted():
            return False
        this = object()
        self._sending[this] = time.monotonic()
        try:
            await send()
        except KafkaError as error:
            if not _may_pass(error):
                raise
            log.warning("the broker does not take a batch; sending it again until it does", error=repr(error))
            return await self._send_again(send, is_wanted)
        finally:
            del self._sending[this]
        return True

    async def _send_again(self, send: Callable[[], Awaitable[object]], is_wanted: Callable[[], bool]) -> bool:
        trying = AsyncRetrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_delay(GIVE_UP_S),
            wait=wait_random_exponential(multiplier=0.1, max=_RETRY_WAIT_MAX_S),
            reraise=True,
        )
        async for attempt in trying:
            if not is_wanted():
                return False
            with attempt:
                await send()
        return True


def _may_pass(error: BaseException) -> bool:
    """Return whether an error is one of those that pass when the broker recovers."""
    return isinstance(error, KafkaTimeoutError) or (isinstance(error, KafkaError) and bool(error.retriable))
