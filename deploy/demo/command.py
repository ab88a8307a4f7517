"""``loopwarden demo``: a recorded fleet, an embedded broker and a worker, to be watched for a minute."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loopwarden.deploy.demo.player import PlayedEvent, play, read_recording
from loopwarden.deploy.demo.stack import WorkerProcess, make_topics
from loopwarden.deploy.demo.tally import Tally
from loopwarden.deploy.embedded import BrokerError, EmbeddedBroker
from loopwarden.deploy.processes import ProcessFailed
from loopwarden.schemas.configuration import TopicsConfig
from loopwarden.schemas.signals import Signal
from loopwarden.schemas.topics import topic_names
from loopwarden.schemas.verdicts import Verdict
from loopwarden.streams.cli.tail import print_line, readable
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.follow import follow

_CONFIG = Path(__file__).parent / "demo.json5"
_PARTITIONS = 4

#: How long the worker may need for what is left once everything has been sent, in seconds.
_DRAIN_DEADLINE_S = 60.0

_decode_verdict = msgspec.json.Decoder(Verdict).decode
_decode_signal = msgspec.json.Decoder(Signal).decode


class _Speed(click.ParamType):
    name = "speed"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        if value == "max":
            return None
        try:
            speed = float(value)
        except ValueError:
            speed = 0.0
        if speed <= 0:
            self.fail(f"{value!r} is neither a positive number nor max", param, ctx)
        return speed


@click.command()
@click.option("--speed", type=_Speed(), default="2", show_default=True, help="Times as fast as it happened, or max.")
@click.option("--keep", is_flag=True, help="Keep broker and worker up afterwards, until Ctrl-C.")
def demo(speed: float | None, keep: bool) -> None:
    """Watch a recorded fleet of agents, some of them stuck, on an embedded broker.

    Starts a broker in memory and a worker, plays the recording in, and shows verdicts and signals as they come. Nothing
    is left behind afterwards.
    """
    # Asked to end, it ends as on Ctrl-C, in whatever it is just doing.
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    console = Console(highlight=False, soft_wrap=True)
    try:
        _Demo(console, speed, keep).run()
    except KeyboardInterrupt:
        console.print("stopped")
        sys.exit(130)
    except (BrokerError, ProcessFailed) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


class _Demo:
    """One run of the demo."""

    def __init__(self, console: Console, speed: float | None, keep: bool) -> None:
        self.console = console
        self.speed = speed
        self.keep = keep
        self.tally = Tally()
        self.topics = TopicsConfig(partitions=_PARTITIONS)
        self.names = topic_names(self.topics.prefix)

    def run(self) -> None:
        """Start everything, play, show the closing table, stop everything."""
        events = read_recording()
        runs = len({(event.session_id, event.run_id) for event in events})
        self.console.print(f"a recorded fleet: {runs} runs, {len(events)} events; some runs are stuck")
        with EmbeddedBroker() as broker:
            self.console.print(f"broker on {broker.bootstrap}, in memory")
            make_topics(broker.bootstrap, self.topics, "loopwarden")
            worker = WorkerProcess(broker.bootstrap, self.topics, config=_CONFIG)
            try:
                worker.start()
                self.console.print(f"worker ready, metrics on http://127.0.0.1:{worker.status_port}/metrics\n")
                kafka = KafkaSettings(bootstrap_servers=broker.bootstrap)
                asyncio.run(self._watch(kafka, worker, events))
                self.console.print()
                self.console.print(self.tally.table(runs, len(events)))
                if self.keep:
                    self._stay(broker, worker)
            finally:
                worker.stop()

    async def _watch(self, kafka: KafkaSettings, worker: WorkerProcess, events: list[PlayedEvent]) -> None:
        columns = (TextColumn("events played"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task("playing", total=len(events))
            readers = [
                asyncio.create_task(self._show(kafka, self.names.verdicts, "verdicts", self._on_verdict)),
                asyncio.create_task(self._show(kafka, self.names.signals, "signals", self._on_signal)),
            ]
            try:
                await play(kafka, self.names.events, events, self.speed, lambda count: progress.advance(task, count))
                await self._drain(worker, len(events))
            finally:
                for reader in readers:
                    reader.cancel()
                await asyncio.gather(*readers, return_exceptions=True)

    async def _drain(self, worker: WorkerProcess, events: int) -> None:
        """Wait until the worker has folded every event and all that it has published has been read."""
        deadline_s = time.monotonic() + _DRAIN_DEADLINE_S
        while time.monotonic() < deadline_s:
            worker.process.check_alive()
            folded = await asyncio.to_thread(worker.metric, "loopwarden_events_total")
            verdicts = await asyncio.to_thread(worker.metric, "loopwarden_verdicts_total")
            signals = await asyncio.to_thread(worker.metric, "loopwarden_signals_total")
            tally = self.tally
            read = sum(tally.verdicts_by_detector.values()), len(tally.blocked) + len(tally.killed)
            if folded >= events and read >= (verdicts, signals):
                return
            await asyncio.sleep(0.2)
        raise ProcessFailed(f"the worker has not folded all events after {_DRAIN_DEADLINE_S:.0f} s")

    async def _show(self, kafka: KafkaSettings, topic: str, what: str, on_record: Callable[[Any], bool]) -> None:
        batches: AsyncIterator[list[Any]] = follow(kafka, topic, from_beginning=True)
        async for records in batches:
            for record in records:
                if on_record(record):
                    print_line(self.console, readable(what, record))

    def _on_verdict(self, record: Any) -> bool:
        verdict = _decode_verdict(record.value)
        happened_s = datetime.fromisoformat(verdict.time).timestamp()
        return self.tally.add_verdict(verdict, max(0.0, time.time() - happened_s))

    def _on_signal(self, record: Any) -> bool:
        return self.tally.add_signal(_decode_signal(record.value))

    def _stay(self, broker: EmbeddedBroker, worker: WorkerProcess) -> NoReturn:
        self.console.print(
            f"\nup until Ctrl-C; try\n"
            f"  loopwarden tail verdicts --from-beginning --bootstrap {broker.bootstrap}\n"
            f"  curl http://127.0.0.1:{worker.status_port}/metrics"
        )
        while True:
            worker.process.check_alive()
            time.sleep(1)
