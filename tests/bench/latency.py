"""How long it takes from an event to its verdict: from the time the event was due to be sent until a consumer has the
verdict, at shares of what the whole set-up sustains."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.table import Table
from rig import (
    PARTITIONS,
    cpu_s,
    folded,
    kafka,
    new_place,
    pid_of,
    show,
    standalone,
    topic_bytes,
    wait_until,
    worker_on,
)
from traffic import LINGER_S, Sent, load_seen, load_sent

from loopwarden.deploy.processes import OwnedProcess

SHARES = (0.1, 0.5, 0.8)

#: Verdicts of the first seconds do not count: connections are made and caches filled in them.
WARM_UP_S = 3.0

#: A broker that has just been started is slow until its code is compiled.
BROKER_WARM_UP_S = 15.0
_WARM_UP_EVENTS = 100_000

#: A rate is sustained if the worker is through with everything so soon after the last event was due, in seconds.
_BEHIND_MAX_S = 0.5
_TRIAL_S = 10.0
_TRIALS_MAX = 10
_STEP = 0.9
_FLAT_OUT_EVENTS = 200_000
_FLAT_OUT = 1e9


class _Level(NamedTuple):
    """One steady load: what was sent, the verdicts' latencies, and how long the worker was busy after the last event.

    Means as the worker has them: ``batch_s`` is how long a batch takes, acknowledgements included, ``inside_s`` from an
    event's record to the acknowledgement of its verdict.
    """

    sent: Sent
    latencies_s: list[float]
    drained_s: float
    behind_s: float
    batch_s: float
    inside_s: float
    events_per_batch: float
    worker_cpu_s: float
    changelog_to_input: float


def measure(
    bootstrap: str, capacity: float | None = None, seconds: float = 30.0, shares: Sequence[float] = SHARES
) -> dict[str, Any]:
    """Return latencies at shares of the capacity, in events per second, which is measured where it is not given."""
    _run(bootstrap, _WARM_UP_EVENTS / BROKER_WARM_UP_S, _WARM_UP_EVENTS)
    if capacity is None:
        capacity = measure_capacity(bootstrap)
    levels = []
    for share in shares:
        rate = share * capacity
        level = _run(bootstrap, rate, int(rate * seconds))
        ordered = sorted(level.latencies_s)
        late_s = sorted(level.sent.behind_s)
        levels.append(
            {
                "share": share,
                "events_per_s": rate,
                "verdicts": len(ordered),
                "p50_ms": _quantile(ordered, 0.5) * 1000,
                "p99_ms": _quantile(ordered, 0.99) * 1000,
                "p999_ms": _quantile(ordered, 0.999) * 1000,
                "max_ms": ordered[-1] * 1000,
                "sender_behind_p99_ms": _quantile(late_s, 0.99) * 1000,
                "batch_ms": level.batch_s * 1000,
                "inside_worker_mean_ms": level.inside_s * 1000,
                "events_per_batch": level.events_per_batch,
                "worker_cores": level.worker_cpu_s / seconds,
                "changelog_to_input": level.changelog_to_input,
            }
        )
    return {"capacity_events_per_s": capacity, "seconds": seconds, "linger_ms": LINGER_S * 1000, "levels": levels}


def measure_capacity(bootstrap: str) -> float:
    """Return the highest steady rate at which the worker keeps up, with sender, broker and reader on the same cores."""
    level = _run(bootstrap, _FLAT_OUT, _FLAT_OUT_EVENTS)
    rate = _FLAT_OUT_EVENTS / level.drained_s
    for _ in range(_TRIALS_MAX):
        if _run(bootstrap, rate, int(rate * _TRIAL_S)).behind_s < _BEHIND_MAX_S:
            return rate
        rate *= _STEP
    raise AssertionError(f"not even {rate:.0f} events/s are sustained")


def _run(bootstrap: str, rate: float, events: int) -> _Level:
    """Put one steady load on a worker of its own."""
    place = new_place(bootstrap)
    with tempfile.TemporaryDirectory() as name, worker_on(place) as worker:
        sent_file, seen_file = Path(name) / "sent", Path(name) / "seen"
        reader = _end("read", place.bootstrap, place.names.verdicts, seen_file)
        sender = _end("send", place.bootstrap, place.names.events, sent_file, "m", str(rate), str(events))
        try:
            reader.start(seen_file.with_suffix(".ready").exists, 60.0)
            cpu_before_s = cpu_s(pid_of(worker))
            sender.start(lambda: True, 60.0)
            time.sleep(events / rate)  # asking the worker how far it is would cost it time
            wait_until(lambda: folded([worker]) >= events, "all is folded")
            drained_s = time.monotonic()
            wait_until(sent_file.exists, "the sender tells what it sent", 60.0)
            worker_cpu_s = cpu_s(pid_of(worker)) - cpu_before_s
            time.sleep(1.0)  # the last verdicts are on their way
        finally:
            sender.stop()
            reader.stop()
        sent, seen = load_sent(sent_file), load_seen(seen_file)
        batches, batches_s = (worker.metric(f"loopwarden_batch_seconds_{what}") for what in ("count", "sum"))
        inside_s = worker.metric("loopwarden_event_to_verdict_seconds_sum")
        verdicts = worker.metric("loopwarden_event_to_verdict_seconds_count")
        assert len(seen) >= verdicts > 0, "the reader missed verdicts"
    input_bytes, changelog_bytes = topic_bytes(place)
    causes = [(sent.due_s(partition, offset), at_s) for partition, offset, at_s in seen]
    counted = [at_s - due_s for due_s, at_s in causes if due_s - sent.began_s > min(WARM_UP_S, events / rate / 2)]
    last_due_s = sent.began_s + events / rate
    return _Level(
        sent,
        counted,
        drained_s - sent.began_s,
        drained_s - last_due_s,
        batches_s / batches,
        inside_s / verdicts,
        events / batches,
        worker_cpu_s,
        changelog_bytes / input_bytes,
    )


def _end(role: str, bootstrap: str, topic: str, file: Path, *rest: str) -> OwnedProcess:
    script = Path(__file__).parent / "traffic.py"
    return OwnedProcess(role, [sys.executable, str(script), role, bootstrap, topic, str(PARTITIONS), str(file), *rest])


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def table(figures: dict[str, Any]) -> Table:
    """Return the figures as a table."""
    title = (
        "from an event to its verdict at a consumer; 100% is the steady rate that sender, broker, worker and consumer "
        f"sustain together on this machine's {os.cpu_count()} cores: {figures['capacity_events_per_s']:,.0f} events/s"
    )
    shown = Table(title=title, title_justify="left")
    shown.add_column("load")
    headings = ("events/s", "verdicts", "p50", "p99", "p99.9", "longest", "sender late, p99", "a batch")
    for heading in (*headings, "events in it", "changelog/input"):
        shown.add_column(heading, justify="right")
    for level in figures["levels"]:
        times = ("p50_ms", "p99_ms", "p999_ms", "max_ms", "sender_behind_p99_ms", "batch_ms")
        shown.add_row(
            f"{level['share']:.0%}",
            f"{level['events_per_s']:,.0f}",
            f"{level['verdicts']:,}",
            *(f"{level[name]:.1f} ms" for name in times),
            f"{level['events_per_batch']:.0f}",
            f"{level['changelog_to_input']:.2f}",
        )
    return shown


@click.command()
@click.option("--capacity", type=float, help="Events per second that count as all.  [default: measured]")
@click.option("--seconds", default=30.0, show_default=True, help="Duration of each load.")
@standalone
def main(capacity: float | None, seconds: float, bootstrap: str | None, output: Path | None) -> None:
    """Measure the time from an event to its verdict, under steady loads."""
    with kafka(bootstrap) as address:
        figures = measure(address, capacity, seconds)
    show(figures, table(figures), output)


if __name__ == "__main__":
    main()
