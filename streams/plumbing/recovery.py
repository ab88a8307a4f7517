"""What is added to Faust's recovery: it also ends where a changelog ends without records.

Recovery itself stays Faust's. Its events are chunks here, so what Faust pays for each event is paid for some hundred
records; the table takes a chunk's records in one go (see ``RunTable.apply_changelog_batch``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka.errors import IllegalStateError

from loopwarden.streams.plumbing.ledger import Ledger
from loopwarden.streams.plumbing.logs import get_logger

log = get_logger("loopwarden.recovery")


async def pass_over_empty_tail(consumer: Any, ledgers: Mapping[Any, Ledger]) -> None:
    """Where a changelog ends without records, say so to recovery; to be called when a fetch brought nothing.

    Faust waits for the record before the end; markers of transactions and compacted batches take up offsets without
    there being one. That the client stands behind the end is not enough to go by: Faust drops what it fetched when a
    rebalance or a stop of the flow comes in between. So the client is sent back once, and only where it passes the same
    place again without a record, in the same generation, is there none.
    """
    recovery = consumer.app.tables.recovery
    if not recovery.in_recovery:
        return
    generation = consumer.app.consumer_generation_id
    for tp, last_offset in list(recovery.active_highwaters.items()):
        applied = recovery.active_offsets.get(tp)
        ledger = ledgers.get(tp)
        if ledger is None or ledger.next_offset is None or applied is None or last_offset is None:
            continue
        if applied >= last_offset or ledger.next_offset > applied + 1:
            continue  # through with it, or still in the queue
        try:
            position = await consumer.position(tp)
        except IllegalStateError:
            return  # revoked meanwhile
        if position is None or position <= last_offset or ledger.seek_due:
            continue
        place = (generation, ledger.next_offset)
        if ledger.looked_at != place:
            ledger.looked_at = place
            ledger.seek_due = True
            continue
        log.info("the changelog ends without records", partition=tp.partition, offset=last_offset)
        recovery.active_offsets[tp] = last_offset
