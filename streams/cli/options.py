"""Options that several commands share."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from loopwarden.streams.configuration import Configuration, ConfigurationError, load_configuration
from loopwarden.streams.kafka_settings import KafkaSettings, KafkaSettingsError, make_kafka_settings
from loopwarden.streams.plumbing.reach import Refused, Unreachable

#: Exit code of commands that were given what they cannot use, or find no broker.
UNUSABLE = 2

#: Options by the property each one sets; all can also be set by ``LOOPWARDEN_`` and the property's name.
_KAFKA_OPTIONS = (
    ("--bootstrap", "bootstrap.servers", "HOST:PORT,...", "Brokers to connect to first.  [default: 127.0.0.1:9092]"),
    ("--security-protocol", "security.protocol", "NAME", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."),
    ("--sasl-mechanism", "sasl.mechanism", "NAME", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."),
    ("--sasl-username", "sasl.username", "NAME", "User."),
    ("--sasl-password", "sasl.password", "TEXT", "Password; better given as LOOPWARDEN_SASL_PASSWORD."),
    ("--ssl-ca-location", "ssl.ca.location", "FILE", "Authorities to trust (PEM)."),
    ("--ssl-certificate-location", "ssl.certificate.location", "FILE", "Our certificate (PEM)."),
    ("--ssl-key-location", "ssl.key.location", "FILE", "Its key (PEM)."),
    ("--ssl-key-password", "ssl.key.password", "TEXT", "The key's password."),
    (
        "--ssl-endpoint-identification-algorithm",
        "ssl.endpoint.identification.algorithm",
        "NAME",
        "https, or none to accept a certificate for any host.",
    ),
    ("--client-id", "client.id", "NAME", "What brokers call us in their logs.  [default: loopwarden]"),
)


#: Other ways to write an option; Kafka's own tools say --bootstrap-server.
_SPELLINGS = {"--bootstrap": ("--bootstrap-server",)}


def fail(message: str, code: int = UNUSABLE) -> NoReturn:
    """End the command with a message on standard error."""
    click.echo(f"error: {message}", err=True)
    sys.exit(code)


def config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--config FILE``; the command gets ``configuration``."""

    @click.option(
        "--config",
        "config_path",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="LOOPWARDEN_CONFIG",
        metavar="FILE",
        help="Configuration file (JSON5); see 'loopwarden config check'.  [env: LOOPWARDEN_CONFIG]",
    )
    @functools.wraps(command)
    def with_configuration(config_path: Path | None, **options: Any) -> Any:
        try:
            configuration = load_configuration(config_path)
        except ConfigurationError as error:
            fail(str(error))
        return command(configuration=configuration, **options)

    return with_configuration


def kafka_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--config`` and all that says how to reach Kafka; the command gets ``configuration`` and ``kafka``."""

    @functools.wraps(command)
    def with_kafka(configuration: Configuration, properties: tuple[str, ...], **options: Any) -> Any:
        stated = {name: options.pop(_parameter(name)) for _option, name, _metavar, _help in _KAFKA_OPTIONS}
        for item in properties:
            name, equals, value = item.partition("=")
            if not equals:
                fail(f"-X {item}: NAME=VALUE is expected")
            stated[name] = value
        try:
            kafka = make_kafka_settings(stated, configuration.file.kafka)
            kafka.client_options()
        except KafkaSettingsError as error:
            fail(str(error))
        return command(configuration=configuration, kafka=kafka, **options)

    decorated: Callable[..., Any] = click.option(
        "-X", "--property", "properties", multiple=True, metavar="NAME=VALUE", help="Any Kafka property, by its name."
    )(with_kafka)
    for option, name, metavar, text in reversed(_KAFKA_OPTIONS):
        spellings = (option, *_SPELLINGS.get(option, ()))
        decorated = click.option(*spellings, _parameter(name), metavar=metavar, help=text)(decorated)
    return config_option(decorated)


def _parameter(name: str) -> str:
    return name.replace(".", "_")


def unreachable(kafka: KafkaSettings, error: Exception) -> str:
    """Return what to say when no broker answers, or none lets us in."""
    if isinstance(error, Refused):
        return f"the Kafka broker does not let us in over {kafka.security_protocol}: {error.args[0]}"
    told = error.args[0] if isinstance(error, Unreachable) else error
    return (
        f"no Kafka broker answers on {kafka.bootstrap_servers} ({told}); check --bootstrap, that the broker runs, and "
        f"that it speaks {kafka.security_protocol}"
    )
