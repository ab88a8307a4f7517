"""How to reach Kafka: properties by the names Kafka's clients give them, from options, environment and file."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
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
    "ssl.truststore.location": "use ssl.ca.location with a PEM file",
    "ssl.truststore.password": "use ssl.ca.location with a PEM file",
    "ssl.keystore.location": "use ssl.certificate.location and ssl.key.location with PEM files",
    "ssl.keystore.password": "use ssl.key.password",
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

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, None where the protocol has no TLS; raises KafkaSettingsError."""
        if self.security_protocol not in ("SSL", "SASL_SSL"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ssl_ca_location)
            if self.ssl_certificate_location is not None:
                key = self.ssl_key_location
                context.load_cert_chain(self.ssl_certificate_location, key, self.ssl_key_password)
        except (OSError, ssl.SSLError) as error:
            raise KafkaSettingsError(f"TLS: {error}; see the ssl.*.location properties") from None
        if self.ssl_endpoint_identification_algorithm == "none":
            context.check_hostname = False
        return context

    def client_options(self) -> dict[str, Any]:
        """Return the options of an aiokafka client; raises KafkaSettingsError."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers.split(","),
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

        servers = [server.strip() for server in self.bootstrap_servers.split(",")]
        options: dict[str, Any] = {"broker": [f"aiokafka://{server}" for server in servers]}
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
    values: dict[str, str] = {}
    for name, value in file.items():
        values[_field(name)] = str(value)
    for name, field in _FIELDS.items():
        stated = environment.get(ENVIRONMENT_PREFIX + name.replace(".", "_").upper())
        if stated:
            values[field] = stated
    for name, value in options.items():
        if value is not None:
            values[_field(name)] = str(value)
    for field in ("security_protocol", "sasl_mechanism"):
        if field in values:
            values[field] = values[field].upper()
    if values.get("ssl_endpoint_identification_algorithm") == "":
        values["ssl_endpoint_identification_algorithm"] = "none"
    _check(values)
    return msgspec.convert(values, KafkaSettings)


def _field(name: str) -> str:
    """Return the field of a property; raises KafkaSettingsError for one that is not known."""
    property_name = _ALIASES.get(name, name)
    field = _FIELDS.get(property_name)
    if field is None:
        hint = _INSTEAD.get(name, f"known are {', '.join(_FIELDS)}")
        raise KafkaSettingsError(f"{name}: not supported; {hint}")
    return field


def _check(values: Mapping[str, str]) -> None:
    protocol = values.get("security_protocol", "PLAINTEXT")
    mechanism = values.get("sasl_mechanism")
    if protocol not in _PROTOCOLS:
        raise KafkaSettingsError(f"security.protocol: {protocol!r} is none of {', '.join(_PROTOCOLS)}")
    if mechanism is not None and mechanism not in _MECHANISMS:
        raise KafkaSettingsError(f"sasl.mechanism: {mechanism!r} is none of {', '.join(_MECHANISMS)}")
    if protocol.startswith("SASL"):
        missing = [name for name in ("sasl.mechanism", "sasl.username", "sasl.password") if _FIELDS[name] not in values]
        if missing:
            raise KafkaSettingsError(f"security.protocol {protocol} also needs {', '.join(missing)}")
    elif mechanism is not None:
        raise KafkaSettingsError(
            f"sasl.mechanism goes with security.protocol SASL_SSL or SASL_PLAINTEXT, not {protocol}"
        )
    if values.get("ssl_endpoint_identification_algorithm", "https") not in ("https", "none"):
        raise KafkaSettingsError("ssl.endpoint.identification.algorithm: https or none")
