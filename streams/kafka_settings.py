"""How to reach Kafka: properties by the names Kafka's clients give them, from options, environment and file.

Users know these names from Kafka's own tools and from kcat; two client libraries need them in two other forms.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import msgspec

#: Where each property may come from besides the file: ``LOOPWARDEN_`` and its name in capitals.
ENVIRONMENT_PREFIX = "LOOPWARDEN_"

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
#: Names that some clients use for the same property.
_ALIASES = {"sasl.mechanisms": "sasl.mechanism", "metadata.broker.list": "bootstrap.servers"}
_INSTEAD = {
    "sasl.jaas.config": "use sasl.mechanism, sasl.username and sasl.password",
    "sasl.kerberos.service.name": "use sasl.mechanism PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
    "ssl.truststore.location": "use ssl.ca.location with a PEM file",
    "ssl.truststore.password": "use ssl.ca.location with a PEM file",
    "ssl.keystore.location": "use ssl.certificate.location and ssl.key.location with PEM files",
    "ssl.keystore.password": "use ssl.key.password",
    "enable.ssl.certificate.verification": "use ssl.ca.location with the broker's authority in a PEM file",
}


class KafkaSettingsError(Exception):
    """Settings that cannot be used; the message names the property."""


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How clients connect."""

    bootstrap_servers: str = DEFAULT_BOOTSTRAP
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: str | None = None
    sasl_password: str | None = None
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None
    ssl_key_password: str | None = None
    ssl_endpoint_identification_algorithm: Literal["https", "none"] = "https"
    client_id: str = "loopwarden"

    def __repr__(self) -> str:
        """Return what can be shown: no secret is."""
        return f"KafkaSettings({self.bootstrap_servers}, {self.security_protocol})"

    @property
    def servers(self) -> list[str]:
        """The brokers to connect to first, each as ``HOST:PORT``."""
        return [server.strip() for server in self.bootstrap_servers.split(",") if server.strip()]

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, None where the protocol has no TLS; raises KafkaSettingsError."""
        if self.security_protocol not in ("SSL", "SASL_SSL"):
            return None
        context = _authorities(self.ssl_ca_location)
        if self.ssl_certificate_location is not None:
            certificate, key = self.ssl_certificate_location, self.ssl_key_location
            _must_be_readable("ssl.certificate.location", certificate)
            _must_be_readable("ssl.key.location", key)
            try:
                # Without a password OpenSSL would ask for one on the terminal, and a worker would hang there.
                context.load_cert_chain(certificate, key, self.ssl_key_password or "")
            except (OSError, ValueError) as error:
                raise KafkaSettingsError(
                    f"TLS: ssl.certificate.location {certificate}: {error}; it must be PEM, ssl.key.location its "
                    "key, and ssl.key.password that of the key"
                ) from None
        elif self.ssl_key_location is not None:
            raise KafkaSettingsError("TLS: ssl.key.location also needs ssl.certificate.location")
        if self.ssl_endpoint_identification_algorithm == "none":
            context.check_hostname = False
        return context

    def client_options(self) -> dict[str, Any]:
        """Return the options of an aiokafka client; raises KafkaSettingsError."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.servers,
            "security_protocol": self.security_protocol,
            "client_id": self.client_id,
        }
        if self.security_protocol in ("SSL", "SASL_SSL"):
            options["ssl_context"] = self.ssl_context()
        if self.sasl_mechanism is not None:
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = self.sasl_password
        return options

    def faust_options(self) -> dict[str, Any]:
        """Return the options of a Faust app; raises KafkaSettingsError."""
        import faust

        options: dict[str, Any] = {
            "broker": [f"aiokafka://{server}" for server in self.servers],
            "broker_client_id": self.client_id,
        }
        context = self.ssl_context()
        if self.sasl_mechanism is not None:
            credentials = faust.SASLCredentials(
                username=self.sasl_username,
                password=self.sasl_password,
                mechanism=self.sasl_mechanism,
                ssl_context=context,
            )
            # Faust takes SASL to mean SASL over TLS once there is a context, and only then.
            options["broker_credentials"] = credentials
        elif context is not None:
            options["broker_credentials"] = faust.SSLCredentials(context)
        return options


_FIELDS = {name.replace("_", "."): name for name in KafkaSettings.__struct_fields__}


def make_kafka_settings(
    options: Mapping[str, Any], file: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> KafkaSettings:
    """Return the settings that options, environment and file make, in this order of precedence.

    All three are by property name (the environment by ``LOOPWARDEN_`` names). Raises KafkaSettingsError.
    """
    values = _by_field(file)
    for name in (*_ALIASES, *_FIELDS):
        stated = environment.get(ENVIRONMENT_PREFIX + name.replace(".", "_").upper())
        if stated:
            values[_field(name)] = stated
    values |= _by_field({name: value for name, value in options.items() if value is not None})
    _normalise(values)
    _check_values(values)
    _check_together(values)
    return msgspec.convert(values, KafkaSettings)


def check_properties(properties: Mapping[str, Any]) -> None:
    """Raise KafkaSettingsError for a property that is not known or has a value that is none.

    What is still missing is not looked at: it may come from the environment or from options.
    """
    values = _by_field(properties)
    _normalise(values)
    _check_values(values)


def _by_field(properties: Mapping[str, Any]) -> dict[str, str]:
    return {_field(name): str(value) for name, value in properties.items()}


def _normalise(values: dict[str, str]) -> None:
    """Bring values that may be written in several ways into one."""
    for field in ("security_protocol", "sasl_mechanism"):
        if field in values:
            values[field] = values[field].upper()
    identification = "ssl_endpoint_identification_algorithm"
    if identification in values:
        values[identification] = values[identification].lower() or "none"


def _field(name: str) -> str:
    """Return the field of a property; raises KafkaSettingsError for one that is not known."""
    property_name = _ALIASES.get(name, name)
    field = _FIELDS.get(property_name)
    if field is None:
        close = get_close_matches(name, _FIELDS, n=1, cutoff=0.8)
        meant = f"did you mean {close[0]}? " if close else ""
        hint = _INSTEAD.get(name, f"{meant}known are {', '.join(_FIELDS)}")
        raise KafkaSettingsError(f"{name}: not supported; {hint}")
    return field


def _check_values(values: Mapping[str, str]) -> None:
    """Raise KafkaSettingsError for a value that its property cannot have."""
    for field, allowed in (
        ("security_protocol", _PROTOCOLS),
        ("sasl_mechanism", _MECHANISMS),
        ("ssl_endpoint_identification_algorithm", ("https", "none")),
    ):
        value = values.get(field)
        if value is not None and value not in allowed:
            raise KafkaSettingsError(f"{field.replace('_', '.')}: {value!r} is none of {', '.join(allowed)}")
    servers = values.get("bootstrap_servers", DEFAULT_BOOTSTRAP)
    for server in servers.split(","):
        host, _colon, port = server.strip().rpartition(":")
        if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise KafkaSettingsError(
                f"bootstrap.servers: {server.strip()!r} is not HOST:PORT (separate them by commas)"
            )


def _check_together(values: Mapping[str, str]) -> None:
    """Raise KafkaSettingsError for values that do not go together."""
    protocol = values.get("security_protocol", "PLAINTEXT")
    if protocol.startswith("SASL"):
        missing = [
            name for name in ("sasl.mechanism", "sasl.username", "sasl.password") if not values.get(_FIELDS[name])
        ]
        if missing:
            raise KafkaSettingsError(f"security.protocol {protocol} also needs {', '.join(missing)}")
    elif "sasl_mechanism" in values:
        raise KafkaSettingsError(
            f"sasl.mechanism goes with security.protocol SASL_SSL or SASL_PLAINTEXT, not {protocol}"
        )


def _authorities(location: str | None) -> ssl.SSLContext:
    """Return a context that trusts the authorities in a PEM file, the system's without one."""
    _must_be_readable("ssl.ca.location", location)
    try:
        return ssl.create_default_context(cafile=location)
    except (OSError, ValueError) as error:
        raise KafkaSettingsError(f"TLS: ssl.ca.location {location}: {error}; a PEM file is expected") from None


def _must_be_readable(name: str, location: str | None) -> None:
    """Raise KafkaSettingsError for a file that cannot be read; the ssl module would not say which one it was."""
    if location is None:
        return
    try:
        with Path(location).open("rb"):
            pass
    except OSError as error:
        raise KafkaSettingsError(f"TLS: {name} {location}: {error.strerror}") from None
