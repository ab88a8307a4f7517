"""Runs the embedded broker in the foreground, for trying things out with any Kafka client."""

from __future__ import annotations

import signal
import time

import click

from loopwarden.deploy.embedded import BrokerError, EmbeddedBroker


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Port on 127.0.0.1; 0 takes a free one.",
)
def main(port: int) -> None:
    """Run a Kafka-compatible broker in memory until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with EmbeddedBroker(port) as broker:
            click.echo(f"broker on {broker.bootstrap}, in memory; Ctrl-C ends it and forgets everything")
            while True:
                broker.check_alive()
                time.sleep(1)  # what ends us interrupts it
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
    except BrokerError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
