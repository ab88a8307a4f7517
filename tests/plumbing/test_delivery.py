"""What one worker delivers, stores, recovers and commits, through stops, crashes and failures."""

from __future__ import annotations

import asyncio
import json
import random
from itertools import pairwise
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from .harness import Topics, wait_until

pytestmark = pytest.mark.broker


def test_every_record_is_delivered_once_and_in_order_in_chunks_and_committed(topics: Topics) -> None:
    topics.send(6000)
    worker = topics.start_worker()
    topics.wait_counted()
    chunks = worker.chunks()

    assert worker.stop()[0] == 0
    assert topics.committed() == dict.fromkeys(range(4), 1500)
    assert topics.came_again() == 0
    assert max(chunk["records"] for chunk in chunks) == 512


def test_a_worker_started_again_recovers_all_rows_and_goes_on_without_repeating(topics: Topics) -> None:
    topics.send(2000)
    worker = topics.start_worker()
    topics.wait_counted()
    worker.stop()
    topics.send(1010)
    worker = topics.start_worker()
    topics.wait_counted()

    assert worker.recovered() == len(topics.sent)
    assert topics.came_again() == 0


def test_a_worker_killed_in_mid_stream_leaves_what_the_next_one_needs(topics: Topics) -> None:
    pick = random.Random(42)
    topics.send(2000)
    for _round in range(2):
        worker = topics.start_worker(delay_s=0.02)
        topics.send(4000)
        enough = pick.randrange(500, 2000)
        wait_until(lambda enough=enough, worker=worker: worker.records() >= enough, "some is counted")  # type: ignore[misc]
        worker.kill()
    topics.start_worker()

    topics.wait_counted()


def test_a_chunk_whose_processing_fails_is_not_committed_and_is_repeated_by_the_next_worker(topics: Topics) -> None:
    topics.send(6000)
    worker = topics.start_worker(fail_at=700)

    assert worker.process.wait(30) != 0
    assert all((committed or 0) <= 700 for committed in topics.committed().values())

    topics.start_worker()

    topics.wait_counted()


def test_a_chunk_given_up_is_delivered_again_before_what_follows_it(topics: Topics) -> None:
    topics.send(6000)
    worker = topics.start_worker(give_up_on=2)
    topics.wait_counted()

    assert worker.stop()[0] == 0
    assert topics.committed() == dict.fromkeys(range(4), 1500)


def test_a_full_queue_holds_up_delivery_only_while_it_is_full(topics: Topics) -> None:
    topics.send(60_000)
    worker = topics.start_worker(fetch_bytes=2**16)
    topics.wait_counted()
    times_s = [chunk["at_s"] for chunk in worker.chunks()]

    assert max(after - before for before, after in pairwise(times_s)) < 0.9  # Faust's own way is to sleep for a second


def test_a_stop_lets_the_chunk_in_process_finish_and_commits_it(topics: Topics) -> None:
    topics.send(6000)
    worker = topics.start_worker(delay_s=0.5)
    wait_until(lambda: worker.records() > 0, "the first chunk is done")
    code, took_s = worker.stop()
    done = dict.fromkeys(range(4), 0)
    for chunk in worker.chunks():
        done[chunk["partition"]] = chunk["last"] + 1

    assert (code, took_s < 5) == (0, True)
    assert {number: committed or 0 for number, committed in topics.committed().items()} == done


def test_a_stop_does_not_wait_for_a_processor_that_hangs_nor_commit_its_chunk(topics: Topics) -> None:
    topics.send(1000)
    worker = topics.start_worker(delay_s=600)
    worker.wait_ready(4)
    _code, took_s = worker.stop()

    assert took_s < 15
    assert set(topics.committed().values()) <= {None, 0}

    topics.start_worker()

    topics.wait_counted()


def test_a_long_changelog_is_recovered_in_seconds(topics: Topics) -> None:
    asyncio.run(_fill_changelog(topics, rows=200_000))
    worker = topics.start_worker()

    wait_until(lambda: worker.recovered() == 200_000, "all rows are recovered")


async def _fill_changelog(topics: Topics, rows: int) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=topics.bootstrap, max_batch_size=400_000)
    await producer.start()
    try:
        for partition in range(topics.partitions):
            batch = producer.create_batch()
            for number in range(rows // topics.partitions):
                row = {"key": f"filler-{number}".encode(), "value": b'{"count":0}' * 5, "timestamp": None}
                if batch.append(**row) is None:
                    await producer.send_batch(batch, topics.changelog, partition=partition)
                    batch = producer.create_batch()
                    batch.append(**row)
            await producer.send_batch(batch, topics.changelog, partition=partition)
        await producer.flush()
    finally:
        await producer.stop()


def test_markers_of_transactions_neither_hold_up_delivery_nor_recovery(topics: Topics) -> None:
    if not asyncio.run(_send_in_transactions(topics)):
        pytest.skip("this broker has no transactions")
    worker = topics.start_worker()
    topics.wait_counted()
    worker.stop()

    # 50 records and the marker of their transaction, five times.
    assert topics.committed() == dict.fromkeys(range(4), 5 * 51 - 1)


async def _send_in_transactions(topics: Topics) -> bool:
    producer: Any = AIOKafkaProducer(bootstrap_servers=topics.bootstrap, transactional_id=topics.prefix)
    try:
        await producer.start()
    except Exception:
        await producer.stop()
        return False
    try:
        for _transaction in range(5):
            async with producer.transaction():
                for key, value in topics.numbered(200):
                    await producer.send(topics.events, value, key=key, partition=topics.partition_of(key))
        row = json.dumps({"count": 0, "last": -1, "astray": 0, "again": 0}).encode()
        async with producer.transaction():
            for key in topics.sent:
                await producer.send(topics.changelog, row, key=key, partition=topics.partition_of(key))
    finally:
        await producer.stop()
    return True
