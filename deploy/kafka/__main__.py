"""Runs an Apache Kafka cluster in the foreground, for trying things out."""

from __future__ import annotations

import signal
import sys

import click

from loopwarden.deploy.kafka import KafkaCluster, KafkaUnavailable
from loopwarden.deploy.processes import ProcessFailed


@click.command()
@click.option("--nodes", type=click.Choice(["1", "3"]), default="1", show_default=True, help="Nodes of the cluster.")
def main(nodes: str) -> None:
    """Run Apache Kafka on loopback until Ctrl-C; its data goes with it."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    try:
        with KafkaCluster(int(nodes)) as cluster:
            click.echo(f"Apache Kafka on {cluster.bootstrap}; Ctrl-C ends it and removes its data")
            signal.pause()
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    except (KafkaUnavailable, ProcessFailed) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
