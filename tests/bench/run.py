"""``make bench``: the core by itself; then a worker, and a plain Faust agent, on the same broker in the same run.

Figures are ratios measured side by side; absolute ones depend on the machine, which is named.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from broker_tools import Stream, wait_until
from core import measure_core
from load import Load, as_records, make_load

from loopwarden.deploy.demo.stack import WorkerProcess, make_topics
from loopwarden.deploy.embedded import EmbeddedBroker
from loopwarden.deploy.processes import OwnedProcess
from loopwarden.schemas.configuration import TopicsConfig

RESULTS = Path("bench-results")
PARTITIONS = 4
DEADLINE_S = 300.0


@click.command()
@click.option("--core-events", default=100_000, show_default=True, help="Events for the core.")
@click.option("--worker-events", default=400_000, show_default=True, help="Events for the worker.")
@click.option("--plain-events", default=40_000, show_default=True, help="Events for the plain agent.")
def main(core_events: int, worker_events: int, plain_events: int) -> None:
    """Measure, print, and write the raw figures to bench-results/."""
    console = Console(highlight=False)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    console.print(f"on {machine}")
    core = measure_core(as_records(make_load(core_events)))
    console.print(f"core: {1_000_000 / core['core_us']:,.0f} events/s on one core")
    with EmbeddedBroker() as broker:
        worker = measure_worker(broker.bootstrap, make_load(worker_events))
        console.print(f"worker: {worker['events_per_s']:,.0f} events/s")
        plain = measure_plain(broker.bootstrap, make_load(plain_events))
        console.print(f"plain agent: {plain['events_per_s']:,.0f} events/s\n")
    console.print(_table(core, worker, plain))
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"bench-{time.strftime('%Y%m%d-%H%M%S')}.json"
    content = {"machine": machine, "core": core, "worker": worker, "plain_agent": plain}
    file.write_text(json.dumps(content, indent=2) + "\n")
    console.print(f"raw figures: {file}")


def _table(core: dict[str, float], worker: dict[str, float], plain: dict[str, float]) -> Table:
    table = Table(title="events a second", title_justify="left")
    table.add_column("what")
    for heading in ("events/s", "CPU µs/event", "to the plain agent"):
        table.add_column(heading, justify="right")
    decode_s, core_s = 1_000_000 / core["decode_us"], 1_000_000 / core["core_us"]
    base = plain["events_per_s"]
    rows = [
        ("decoding alone (msgspec)", decode_s, core["decode_us"]),
        ("core: decode, fold, decide, encode states", core_s, core["core_us"]),
        ("worker on the embedded broker, state durable", worker["events_per_s"], worker["cpu_us"]),
        ("plain Faust agent, same job, same broker", base, plain["cpu_us"]),
    ]
    for what, events_per_s, cpu_us in rows:
        table.add_row(what, f"{events_per_s:,.0f}", f"{cpu_us:.1f}", f"{events_per_s / base:.1f} x")
    return table


def _stream(bootstrap: str, load: Load) -> Stream:
    """Make topics and fill them, so that the worker has all to do at once."""
    unique = uuid.uuid4().hex[:8]
    topics = TopicsConfig(prefix=f"b{unique}.", partitions=PARTITIONS)
    make_topics(bootstrap, topics, f"b{unique}")
    stream = Stream(bootstrap, topics, f"b{unique}")
    for at in range(0, len(load.events), 50_000):
        stream.send(load.events[at : at + 50_000])
    return stream


def measure_worker(bootstrap: str, load: Load) -> dict[str, float]:
    """Return events per second of a worker that works through a full topic, and its CPU time per event."""
    stream = _stream(bootstrap, load)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "bench.json5"
        config.write_text('{tools: {loopDetection: {enabled: true}}, worker: {logLevel: "error"}}')
        worker = WorkerProcess(bootstrap, stream.topics, config=config, group=stream.group)
        try:
            worker.start()
            began_s, cpu_s = time.monotonic(), _cpu_s(worker.process)
            before = worker.metric("loopwarden_events_total")
            events = len(load.events)
            wait_until(lambda: worker.metric("loopwarden_events_total") >= events, "all is folded", DEADLINE_S)
            took_s, cpu_s = time.monotonic() - began_s, _cpu_s(worker.process) - cpu_s
        finally:
            worker.stop()
    folded = events - before
    return {
        "events": folded,
        "mean_event_bytes": load.mean_bytes,
        "events_per_s": folded / took_s,
        "cpu_us": cpu_s / folded * 1_000_000,
    }


def measure_plain(bootstrap: str, load: Load) -> dict[str, float]:
    """Return the same for a plain Faust agent, from its first event to its last."""
    stream = _stream(bootstrap, load)
    total = len(load.events)
    with tempfile.TemporaryDirectory() as folder:
        done = Path(folder) / "done"
        script = Path(__file__).parent / "plain_agent.py"
        names = [stream.names.events, stream.names.verdicts, f"{stream.group}-plain"]
        command = [sys.executable, str(script), bootstrap, *names, str(PARTITIONS), str(done), str(total)]
        agent = OwnedProcess("plain-agent", command)
        try:
            agent.start(lambda: done.exists() and len(done.read_text().splitlines()) == 2, DEADLINE_S)
            first, last = ([float(number) for number in line.split()] for line in done.read_text().splitlines())
        finally:
            agent.stop()
    return {
        "events": total,
        "mean_event_bytes": load.mean_bytes,
        "events_per_s": total / (last[1] - first[1]),
        "cpu_us": (last[2] - first[2]) / total * 1_000_000,
    }


def _cpu_s(process: OwnedProcess) -> float:
    """Return the CPU time that a process has used, in seconds."""
    fields: list[Any] = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
