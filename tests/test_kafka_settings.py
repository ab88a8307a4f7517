"""Kafka settings: where properties come from, what clients make of them, and what is said where they are none."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth
from hypothesis import given
from hypothesis import strategies as st

from loopwarden.streams.kafka_settings import KafkaSettings, KafkaSettingsError, check_properties, make_kafka_settings

SCRAM = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "u", "sasl.password": "secret"}


def make(properties: dict[str, Any], environment: dict[str, str] | None = None) -> KafkaSettings:
    return make_kafka_settings({}, properties, environment or {})


def refusal(properties: dict[str, Any]) -> str:
    with pytest.raises(KafkaSettingsError) as raised:
        make(properties).client_options()
    return str(raised.value)


PROPERTIES = [
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "client.id",
]
SOURCE = st.dictionaries(st.sampled_from(PROPERTIES), st.text("abc", min_size=1))


@given(SOURCE, SOURCE, SOURCE)
def test_options_come_before_the_environment_and_that_before_the_file(
    options: dict[str, str], environment: dict[str, str], file: dict[str, str]
) -> None:
    variables = {f"LOOPWARDEN_{name.replace('.', '_').upper()}": value for name, value in environment.items()}
    settings = make_kafka_settings(options, file, variables)

    for name in PROPERTIES:
        field = name.replace(".", "_")
        expected = options.get(name, environment.get(name, file.get(name)))
        assert getattr(settings, field) == (getattr(KafkaSettings(), field) if expected is None else expected)


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert make({"client.id": "x"}, {"LOOPWARDEN_CLIENT_ID": ""}).client_id == "x"


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_the_mechanism_may_be_given_by_either_name_in_file_and_environment(name: str) -> None:
    rest = {"security.protocol": "sasl_plaintext", "sasl.username": "u", "sasl.password": "p"}
    variable = f"LOOPWARDEN_{name.replace('.', '_').upper()}"

    assert make(rest | {name: "plain"}).sasl_mechanism == "PLAIN"
    assert make(rest, {variable: "scram-sha-512"}).sasl_mechanism == "SCRAM-SHA-512"


def test_brokers_may_be_listed_with_spaces() -> None:
    settings = make({"bootstrap.servers": "a:9092, [::1]:9093 ,b:1"})

    assert settings.client_options()["bootstrap_servers"] == ["a:9092", "[::1]:9093", "b:1"]
    assert settings.faust_options()["broker"] == ["aiokafka://a:9092", "aiokafka://[::1]:9093", "aiokafka://b:1"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a broker without a port": ({"bootstrap.servers": "kafka"}, "bootstrap.servers: 'kafka' is not HOST:PORT"),
    "a broker without a host": ({"bootstrap.servers": ":9092"}, "bootstrap.servers: ':9092' is not HOST:PORT"),
    "a port that is none": ({"bootstrap.servers": "a:99999"}, "bootstrap.servers: 'a:99999' is not HOST:PORT"),
    "brokers with a comma too many": ({"bootstrap.servers": "a:1,"}, "bootstrap.servers: '' is not HOST:PORT"),
    "no brokers": ({"bootstrap.servers": ""}, "bootstrap.servers: '' is not HOST:PORT"),
    "what Java has instead": (
        {"sasl.jaas.config": "org.apache…"},
        "sasl.jaas.config: not supported; use sasl.mechanism, sasl.username and sasl.password",
    ),
    "Java's key stores": (
        {"ssl.truststore.location": "x.jks"},
        "ssl.truststore.location: not supported; use ssl.ca.location with a PEM file",
    ),
    "a misspelt property": ({"sasl.user.name": "u"}, "sasl.user.name: not supported; did you mean sasl.username?"),
    "a mechanism that is none": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
        "sasl.mechanism: 'GSSAPI' is none of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    ),
    "a protocol that is none": (
        {"security.protocol": "tls"},
        "security.protocol: 'TLS' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
    ),
    "an identification that is none": (
        {"ssl.endpoint.identification.algorithm": "maybe"},
        "ssl.endpoint.identification.algorithm: 'maybe' is none of https, none",
    ),
    "an empty password": (
        SCRAM | {"security.protocol": "SASL_SSL", "sasl.password": ""},
        "security.protocol SASL_SSL also needs sasl.password",
    ),
    "authorities that are not there": (
        {"security.protocol": "SSL", "ssl.ca.location": "/no/ca.pem"},
        "TLS: ssl.ca.location /no/ca.pem: No such file or directory",
    ),
    "a certificate that is not there": (
        {"security.protocol": "SSL", "ssl.certificate.location": "/no/c.pem"},
        "TLS: ssl.certificate.location /no/c.pem: No such file or directory",
    ),
    "a key without a certificate": (
        {"security.protocol": "SSL", "ssl.key.location": "/no/k.pem"},
        "TLS: ssl.key.location also needs ssl.certificate.location",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_used_is_refused_by_property(name: str) -> None:
    properties, expected = REFUSED[name]

    assert refusal(properties).startswith(expected)


def test_a_file_is_checked_for_what_is_in_it_and_not_for_what_may_come_from_elsewhere() -> None:
    check_properties({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u"})

    with pytest.raises(KafkaSettingsError, match="SASL_TLS"):
        check_properties({"security.protocol": "SASL_TLS"})
    with pytest.raises(KafkaSettingsError, match="no such"):
        check_properties({"no such": "x"})


def test_no_secret_shows() -> None:
    properties = SCRAM | {"security.protocol": "SASL_PLAINTEXT", "ssl.key.password": "secret"}
    settings = make(properties)

    assert "secret" not in f"{settings!r} {settings} {[settings]}"
    assert "secret" not in repr(settings.faust_options())
    assert "secret" not in refusal(properties | {"security.protocol": "PLAINTEXT"})


PROTOCOLS: dict[str, dict[str, Any]] = {
    "PLAINTEXT": {},
    "SSL": {},
    "SASL_PLAINTEXT": SCRAM,
    "SASL_SSL": SCRAM | {"sasl.mechanism": "PLAIN"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_faust_connects_as_the_other_clients_do(protocol: str) -> None:
    settings = make(PROTOCOLS[protocol] | {"security.protocol": protocol, "client.id": "me"})
    client, faust = settings.client_options(), settings.faust_options()
    auth = dict(credentials_to_aiokafka_auth(faust.get("broker_credentials")))
    compared = ("security_protocol", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password")

    assert {name: auth.get(name) for name in compared} == {name: client.get(name) for name in compared}
    assert (auth.get("ssl_context") is None) == ("ssl_context" not in client) == (not protocol.endswith("SSL"))
    assert faust["broker_client_id"] == client["client_id"] == "me"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_client_takes_the_options(protocol: str) -> None:
    options = make(PROTOCOLS[protocol] | {"security.protocol": protocol}).client_options()

    async def construct() -> None:
        for client in (AIOKafkaProducer, AIOKafkaConsumer, AIOKafkaAdminClient):
            client(**options)

    asyncio.run(construct())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority (``ca.pem``), a broker's certificate for ``broker.test``, and an encrypted key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        if os.environ.get("LOOPWARDEN_REQUIRE_KAFKA"):
            pytest.fail("openssl is missing")
        pytest.skip("openssl is missing, which makes the certificates")
    folder = tmp_path_factory.mktemp("tls")
    (folder / "san").write_text("subjectAltName=DNS:broker.test\n")
    for arguments in (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -subj /CN=ca -days 2",
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out request -subj /CN=broker.test",
        "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile san",
        "pkcs8 -topk8 -in key.pem -out locked.pem -passout pass:open-sesame",
    ):
        subprocess.run([openssl, *arguments.split()], cwd=folder, check=True, capture_output=True)
    return folder


def shake_hands(client: ssl.SSLContext, authority: Path, name: str) -> ssl.SSLObject:
    """Connect a client to a broker called ``broker.test``, in memory; return the broker's side."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    context.load_verify_locations(authority / "ca.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname=name)
    theirs = context.wrap_bio(there, back, server_side=True)
    waiting = [ours, theirs]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
        if not waiting:
            return theirs
    raise AssertionError("no end to the handshake")


def context_of(properties: dict[str, Any]) -> ssl.SSLContext:
    context = make(properties | {"security.protocol": "SSL"}).ssl_context()
    assert context is not None
    return context


def test_a_broker_is_trusted_by_its_authority_and_its_name(authority: Path) -> None:
    trusting = {"ssl.ca.location": str(authority / "ca.pem")}
    careless = trusting | {"ssl.endpoint.identification.algorithm": ""}

    assert shake_hands(context_of(trusting), authority, "broker.test")
    assert shake_hands(context_of(careless), authority, "other.test")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(context_of(trusting), authority, "other.test")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context_of({}), authority, "broker.test")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context_of({"ssl.endpoint.identification.algorithm": "none"}), authority, "broker.test")


@pytest.mark.parametrize("key", ["key.pem", "locked.pem"])
def test_a_client_shows_its_certificate(authority: Path, key: str) -> None:
    properties = {
        "ssl.ca.location": str(authority / "ca.pem"),
        "ssl.certificate.location": str(authority / "cert.pem"),
        "ssl.key.location": str(authority / key),
        "ssl.key.password": "open-sesame",
    }
    theirs = shake_hands(context_of(properties), authority, "broker.test")

    assert theirs.getpeercert()["subject"] == ((("commonName", "broker.test"),),)


@pytest.mark.parametrize("password", [{}, {"ssl.key.password": "wrong"}])
def test_a_locked_key_is_refused_and_nobody_is_asked_for_its_password(
    authority: Path, password: dict[str, str]
) -> None:
    message = refusal(
        {
            "security.protocol": "SSL",
            "ssl.certificate.location": str(authority / "cert.pem"),
            "ssl.key.location": str(authority / "locked.pem"),
            **password,
        }
    )

    assert message.startswith(f"TLS: ssl.certificate.location {authority / 'cert.pem'}: ")
    assert "ssl.key.password" in message


def test_files_that_are_no_certificates_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "none.pem"
    file.write_text("not a certificate")

    for name in ("ssl.ca.location", "ssl.certificate.location"):
        assert refusal({"security.protocol": "SSL", name: str(file)}).startswith(f"TLS: {name} {file}: ")
