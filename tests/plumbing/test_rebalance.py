"""Workers that come, go, die and are stopped in their tracks share a stream without losing or repeating anything."""

from __future__ import annotations

import signal

import pytest

from .harness import Topics, wait_until

pytestmark = pytest.mark.broker


def test_a_worker_that_joins_and_leaves_costs_nothing(topics: Topics) -> None:
    topics.send(4000)
    first = topics.start_worker(delay_s=0.02).wait_ready(4)
    second = topics.start_worker(delay_s=0.02)
    topics.send(8000)
    second.wait_ready(2)
    topics.send(4000)
    wait_until(lambda: second.records() > 0, "the second worker has work")
    assert second.stop()[0] == 0
    topics.send(2000)
    topics.wait_counted()

    assert first.wait_ready(4).stop()[0] == 0
    assert topics.committed() == dict.fromkeys(range(4), 4500)


def test_a_worker_that_is_killed_beside_another_loses_nothing(topics: Topics) -> None:
    first = topics.start_worker(delay_s=0.02)
    second = topics.start_worker(delay_s=0.02)
    topics.send(8000)
    wait_until(lambda: first.records() + second.records() > 1000, "some is counted")
    wait_until(lambda: second.partitions() == 2 and first.partitions() == 2, "both have partitions")
    second.kill()
    topics.send(4000)
    topics.wait_counted()

    assert first.wait_ready(4).stop()[0] == 0


def test_more_workers_than_partitions_and_several_leaving_at_once(topics: Topics) -> None:
    workers = [topics.start_worker(delay_s=0.02) for _number in range(5)]
    topics.send(6000)
    wait_until(lambda: sorted(worker.partitions() or 0 for worker in workers) == [0, 1, 1, 1, 1], "partitions shared")
    for worker in workers[1:4]:
        worker.process.terminate()
    topics.send(6000)
    topics.wait_counted()

    assert [worker.process.wait(20) for worker in workers[1:4]] == [0, 0, 0]


def test_a_worker_that_wakes_up_after_it_lost_its_partitions_writes_nothing(topics: Topics) -> None:
    first = topics.start_worker(delay_s=0.3).wait_ready(4)
    topics.send(20_000)
    wait_until(lambda: first.records() > 0, "the first worker is at work")
    first.process.send_signal(signal.SIGSTOP)
    written = len(first.chunks())
    second = topics.start_worker().wait_ready(4)
    topics.wait_counted()
    first.process.send_signal(signal.SIGCONT)
    wait_until(lambda: any("refused" in line for line in first.told()), "the first worker notices")
    wait_until(lambda: first.partitions() == 2 and second.partitions() == 2, "partitions shared")

    assert [chunk for chunk in first.chunks()[written:] if chunk["first"] < 5000] == []

    topics.send(400)
    topics.wait_counted()
