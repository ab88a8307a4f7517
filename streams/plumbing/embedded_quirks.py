"""What is different about the embedded broker, and how it is made up for, on that broker only.

Asked for the end of a partition (ListOffsets), it answers with the first offset of the last batch plus one. Faust takes
that for the end of a changelog and stops recovery before it. What it says of the end when records are fetched is right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.protocol.metadata import MetadataRequest

#: The name that the embedded broker gives its cluster.
EMBEDDED_CLUSTER_ID = "tansu_cluster"

#: How long a fetch at the end of a partition waits, in milliseconds.
_FETCH_WAIT_MS = 50

#: How long the ends may take to become known, in seconds.
_DEADLINE_S = 20.0


async def is_embedded(consumer: Any) -> bool:
    """Return whether a connected client talks to the embedded broker; raises KafkaError where it does not answer."""
    client = consumer._client
    response = await client.send(client.get_random_node(), MetadataRequest([]))
    return bool(getattr(response, "cluster_id", None) == EMBEDDED_CLUSTER_ID)


async def fetched_ends(ends: Mapping[Any, int], options: Mapping[str, Any]) -> dict[Any, int]:
    """Return the ends of partitions as fetches tell them; ``ends`` are offsets at or before them.

    A client of its own looks, since Faust's is where recovery wants it. Raises KafkaError, and TimeoutError after
    20 seconds.
    """
    consumer = AIOKafkaConsumer(
        **options, group_id=None, fetch_max_wait_ms=_FETCH_WAIT_MS, enable_auto_commit=False, auto_offset_reset="none"
    )
    await consumer.start()
    try:
        partitions = {TopicPartition(tp.topic, tp.partition): tp for tp in ends}
        consumer.assign(list(partitions))
        for partition, tp in partitions.items():
            consumer.seek(partition, ends[tp])
        async with asyncio.timeout(_DEADLINE_S):
            while any(consumer.highwater(partition) is None for partition in partitions):
                await consumer.getmany(timeout_ms=_FETCH_WAIT_MS)
        return {tp: max(ends[tp], consumer.highwater(partition)) for partition, tp in partitions.items()}
    finally:
        await consumer.stop()
