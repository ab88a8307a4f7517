"""What is added to Faust's recovery: it also ends where a changelog ends without records.

Recovery itself stays Faust's. Its events are chunks here, so what Faust pays for each event is paid for some hundred
records; the table takes a chunk's records in one go (see ``RunTable.apply_changelog_batch``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka.errors import IllegalStateError

from loopwarden.streams.plumbing.logs import get_logger

log = get_logger("loopwarden.recovery")


async def pass_over_empty_tail(consumer: Any, next_offsets: Mapping[Any, int | None]) -> None:
    """Where the client stands at the end of a changelog and all that was delivered is applied, say so to recovery.

    Faust waits for the record before the end; markers of transactions and compacted batches take up offsets without
    there being one. To be called when a fetch brought nothing.
    """
    recovery = consumer.app.tables.recovery
    if not recovery.in_recovery:
        return
    for tp, last_offset in list(recovery.active_highwaters.items()):
        applied = recovery.active_offsets.get(tp)
        if applied is None or last_offset is None or applied >= last_offset:
            continue
        if (next_offsets.get(tp) or 0) > applied + 1:
            continue  # delivered, but still in the queue
        try:
            position = await consumer.position(tp)
        except IllegalStateError:
            return  # revoked meanwhile
        if position is not None and position > last_offset:
            log.info("the changelog ends without records", partition=tp.partition, offset=last_offset)
            recovery.active_offsets[tp] = last_offset
