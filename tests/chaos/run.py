"""``make chaos``: every scenario on Apache Kafka, a row each; exit code 1 where anything was lost or counted twice."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
sys.path.insert(0, str(Path(__file__).parent))

from arena import Arena, Judgement
from load import Load, mixed_load
from scenarios import SCENARIOS, Scenario

from loopwarden.deploy.kafka import KafkaCluster

_COLUMNS = ("rounds", "events", "verdicts expected", "missing", "wrong", "duplicate ids", "states wrong", "seconds")


@click.command()
@click.option("--events", default=220_000, show_default=True, help="Events of a scenario, besides its own.")
@click.option("--rate", default=4_000, show_default=True, help="Events a second while faults strike; the rest follows.")
@click.option("--rounds", type=int, help="Rounds of each scenario, in place of its own number.")
@click.option("--only", metavar="TEXT", help="Only scenarios whose name has this in it.")
@click.option("--seed", default=20261201, show_default=True, help="Of the random moments.")
def main(events: int, rate: int, rounds: int | None, only: str | None, seed: int) -> None:
    """Kill, freeze, restart and poison, and compare what comes out with what must."""
    # That brokers are away now and then is what this is about.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 150)
    load = mixed_load(events)
    console.print(f"{os.cpu_count()} cores; {len(load.events):,} events of {load.runs:,} runs a scenario, seed {seed}")
    table = Table(title="chaos on Apache Kafka", title_justify="left")
    table.add_column("what was done")
    for heading in _COLUMNS:
        table.add_column(heading, justify="right")
    failed = False
    for scenario in SCENARIOS:
        if only is not None and only not in scenario.name:
            continue
        count = rounds or scenario.rounds
        began_s = time.monotonic()
        judgement = _play(scenario, count, load, rate, seed)
        failed = failed or not judgement.is_right
        numbers = (count, *judgement, int(time.monotonic() - began_s))
        table.add_row(scenario.name, *(f"{number:,}" for number in numbers), style="" if judgement.is_right else "red")
        console.print(f"{scenario.name}: {'as it must be' if judgement.is_right else judgement}")
    console.print(table)
    sys.exit(1 if failed else 0)


def _play(scenario: Scenario, rounds: int, load: Load, rate: int, seed: int) -> Judgement:
    with KafkaCluster(scenario.nodes) as cluster:
        arena = Arena(cluster.bootstrap, replicas=scenario.nodes, seed=seed)
        try:
            arena.feed(load, rate)
            scenario.play(arena, cluster, rounds)
            return arena.judge()
        finally:
            arena.close()


if __name__ == "__main__":
    main()
