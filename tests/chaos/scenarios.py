"""What is done to workers and brokers; each scenario says how often, and leaves the judging to the arena."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import NamedTuple

from arena import BEYOND_SESSION_S, Arena
from broker_tools import wait_until

from loopwarden.deploy.kafka import KafkaCluster

#: How long SIGTERM may take, in seconds.
STOP_MAX_S = 10.0


class Scenario(NamedTuple):
    """A kind of fault: its name, how many rounds of it there are, and how one arena goes through them."""

    name: str
    rounds: int
    play: Callable[[Arena, KafkaCluster, int], None]
    nodes: int = 1


def _soon(arena: Arena, most_s: float = 3.0) -> None:
    """Let a random time pass under load: when a fault strikes must not depend on what the workers are doing."""
    time.sleep(arena.pick.uniform(0.2, most_s))


def kill_one(arena: Arena, _cluster: KafkaCluster, rounds: int) -> None:
    """SIGKILL of one of three workers at a random moment, and another in its place."""
    for _ in range(3):
        arena.start_worker(ready=False)
    for _ in range(rounds):
        _soon(arena)
        arena.kill(arena.pick.choice(arena.workers))
        arena.start_worker(ready=False)


def kill_all(arena: Arena, _cluster: KafkaCluster, rounds: int) -> None:
    """SIGKILL of all workers at once."""
    for _ in range(rounds):
        for _ in range(3):
            arena.start_worker(ready=False)
        wait_until(lambda: any(worker.is_ready() for worker in arena.workers), "a worker is ready")
        _soon(arena)
        for worker in list(arena.workers):
            arena.kill(worker)
    arena.start_worker(ready=False)


def come_and_go(arena: Arena, _cluster: KafkaCluster, rounds: int) -> None:
    """Workers added and removed while loaded."""
    arena.start_worker()
    for number in range(rounds):
        _soon(arena)
        if len(arena.workers) > 3 or (number % 2 and len(arena.workers) > 1):
            arena.stop(arena.pick.choice(arena.workers))
        else:
            arena.start_worker(ready=False)


def freeze_one(arena: Arena, _cluster: KafkaCluster, rounds: int) -> None:
    """A worker frozen beyond the session timeout, and resumed: it must not write what is stale."""
    for _ in range(3):
        arena.start_worker(ready=False)
    wait_until(lambda: all(worker.is_ready() for worker in arena.workers), "all workers are ready")
    for _ in range(rounds):
        _soon(arena)
        arena.freeze(arena.pick.choice(arena.workers), BEYOND_SESSION_S)
        arena.supervise()


def restart_broker(arena: Arena, cluster: KafkaCluster, rounds: int) -> None:
    """The only broker is stopped and started again."""
    for _ in range(2):
        arena.start_worker(ready=False)
    wait_until(lambda: all(worker.is_ready() for worker in arena.workers), "all workers are ready")
    for _ in range(rounds):
        _soon(arena)
        cluster.nodes[0].stop()
        cluster.nodes[0].start()
        _soon(arena)
        arena.supervise()


def kill_broker(arena: Arena, cluster: KafkaCluster, rounds: int) -> None:
    """One of three brokers is killed, with ``acks=all`` and two copies in sync, and started again."""
    for _ in range(2):
        arena.start_worker(ready=False)
    wait_until(lambda: all(worker.is_ready() for worker in arena.workers), "all workers are ready")
    for number in range(rounds):
        _soon(arena)
        node = cluster.nodes[number % len(cluster.nodes)]
        node.process.kill()
        node.process.stop()
        _soon(arena)
        arena.supervise()
        node.start()
        _soon(arena)


def terminate(arena: Arena, _cluster: KafkaCluster, rounds: int) -> None:
    """SIGTERM drains, commits and leaves the group in time, and the next worker folds nothing again."""
    for _ in range(rounds):
        worker = arena.start_worker()
        _soon(arena)
        again = worker.metric("loopwarden_redelivered_events_total")
        assert again == 0, f"{again:.0f} events were delivered again after SIGTERM"
        took_s = arena.stop(worker)
        assert took_s < STOP_MAX_S, f"SIGTERM took {took_s:.1f} s"
    arena.start_worker()


def poison(arena: Arena, _cluster: KafkaCluster, rounds: int) -> None:
    """Records that cannot be used in every partition, and rows of the changelog that cannot be read."""
    arena.start_worker()
    for number in range(rounds):
        bad = [b"", b"not json", b'{"type":"tool_call"}', b"[" * 5000, b'{"type":"run_started","session_id":"\xff"}']
        arena.send_extra([(f"poison-{number}-{at}", bad[at % len(bad)]) for at in range(60)])
        _soon(arena)
    for worker in list(arena.workers):
        arena.stop(worker)
    rows = arena.stream.rows(lambda rows: len(rows) > 100)
    arena.stream.write_rows([(key, b"\xfe" * 40) for at, key in enumerate(rows) if at % 7 == 0])
    arena.start_worker(ready=False)


def disorder(arena: Arena, _cluster: KafkaCluster, rounds: int) -> None:
    """The same event twice, results before their calls, a clock an hour wrong, a session that goes back and forth."""
    arena.start_worker()
    arena.start_worker(ready=False)
    for number in range(rounds):
        records = []
        for at in range(200):
            session = f"odd-{number}-{at % 10}"
            fields = {"session_id": session, "run_id": f"r{at % 3}", "event_id": f"{number}-{at // 2}"}
            fields |= {"tool_name": "read", "args": {"n": at % 4}, "tool_call_id": f"c{at // 2}"}
            fields["type"] = "tool_result" if at % 2 else "tool_call"
            fields["time"] = "2026-01-01T00:00:00Z" if at % 5 else "2031-01-01T00:00:00Z"
            records.append((session, json.dumps(fields | ({"result": "x"} if at % 2 else {})).encode()))
        arena.pick.shuffle(records)
        arena.send_extra(records)
        _soon(arena)


def hot_key(arena: Arena, _cluster: KafkaCluster, _rounds: int) -> None:
    """One session has half of all events."""
    arena.start_worker()
    arena.start_worker(ready=False)
    events = []
    for at in range(60_000):
        fields = {
            "session_id": "hot",
            "run_id": "r",
            "tool_name": "read",
            "args": {"n": at // 2 % 400},
            "type": "tool_call",
        }
        if at % 2:
            fields |= {"type": "tool_result", "result": at // 2 % 7}
        events.append(("hot", json.dumps(fields | {"tool_call_id": f"c{at // 2}"}).encode()))
    for start in range(0, len(events), 10_000):
        arena.send_extra(events[start : start + 10_000])


SCENARIOS = (
    Scenario("a worker is killed (SIGKILL)", 20, kill_one),
    Scenario("all workers are killed at once", 5, kill_all),
    Scenario("workers come and go", 10, come_and_go),
    Scenario("a worker is frozen beyond its session", 5, freeze_one),
    Scenario("the broker is restarted", 5, restart_broker),
    Scenario("one of three brokers is killed", 5, kill_broker, nodes=3),
    Scenario("a worker is stopped (SIGTERM)", 5, terminate),
    Scenario("poison records and unreadable rows", 5, poison),
    Scenario("disorder and duplicates", 5, disorder),
    Scenario("a session with half of all events", 1, hot_key),
)
