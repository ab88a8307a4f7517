"""Configuration files and Kafka settings: what they make, and what is said where they cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopwarden.streams.configuration import ConfigurationError, load_configuration, parse_configuration
from loopwarden.streams.kafka_settings import KafkaSettingsError, make_kafka_settings

OPENCLAW = """
// an OpenClaw file, with what it may hold
{
  channels: { telegram: { botToken: 'x' } },   // none of our business
  tools: {
    profile: "coding",
    loopDetection: { enabled: true, historySize: 50, },
  },
  agents: {
    defaults: { model: "m" },
    list: [
      { id: "main", default: true },
      { id: "batch", tools: { loopDetection: { enabled: false } } },
    ],
  },
}
"""


def test_an_openclaw_file_can_be_used_as_it_is() -> None:
    configuration = parse_configuration(OPENCLAW, "openclaw.json")

    assert configuration.warnings == []
    assert configuration.book.for_agent("main").history_size == 50
    assert configuration.book.for_agent("batch").enabled is False
    assert configuration.file.topics.partitions == 12


REFUSED = {
    "a comma that is missing": ("{a: 1 b: 2}", 'c:1:7: Unexpected "b"'),
    "a colon too many, on the second line": ("{a: 1,\n b:: 2}", 'c:2:4: Unexpected ":"'),
    "an array": ("[1]", "c: the file holds no object"),
    "nothing": ("", "c: Empty strings are not legal JSON5"),
    "a port that is none": ("{worker: {statusPort: 70000}}", "c: worker.statusPort: Expected `int` <= 65535"),
    "a field of ours that is not known": ("{worker: {port: 1}}", "c: worker: Object contains unknown field `port`"),
    "a loopDetection that is no object": (
        "{tools: {loopDetection: 1}}",
        "c: tools.loopDetection: an object is expected",
    ),
    "a list that is none": ("{agents: {list: {}}}", "c: agents.list: an array is expected"),
    "a key twice": ("{a: 1, a: 2}", 'c: Duplicate key "a" found in object'),
    "too deep": ("[" * 5000, "c: nested too deeply"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_used_is_refused_with_its_place(name: str) -> None:
    text, expected = REFUSED[name]

    with pytest.raises(ConfigurationError) as raised:
        parse_configuration(text, "c")

    assert str(raised.value).startswith(expected)


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"{\xff}")

    for path, reason in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory"), (binary, "not UTF-8")):
        with pytest.raises(ConfigurationError, match=f"{path}: {reason}"):
            load_configuration(path)


def test_agents_that_cannot_be_told_apart_are_reported() -> None:
    configuration = parse_configuration('{agents: {list: [{}, {id: "a"}, {id: "a"}]}}', "c")

    assert [warning.path for warning in configuration.warnings] == ["agents.list[0].id", "agents.list[2].id"]


def test_options_come_before_the_environment_and_that_before_the_file() -> None:
    file = {"bootstrap.servers": "file:1", "sasl.username": "file", "client.id": "file"}
    environment = {"LOOPWARDEN_BOOTSTRAP_SERVERS": "environment:1", "LOOPWARDEN_SASL_USERNAME": "environment"}
    settings = make_kafka_settings({"bootstrap.servers": "option:1", "client.id": None}, file, environment)

    assert settings.bootstrap_servers == "option:1"
    assert settings.sasl_username == "environment"
    assert settings.client_id == "file"


def test_scram_over_tls_reaches_both_clients(tmp_path: Path) -> None:
    properties = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "secret",
        "bootstrap.servers": "a:9093,b:9093",
    }
    settings = make_kafka_settings({}, properties, {})
    client = settings.client_options()
    faust = settings.faust_options()

    assert (client["security_protocol"], client["sasl_mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert client["bootstrap_servers"] == ["a:9093", "b:9093"]
    assert faust["broker"] == ["aiokafka://a:9093", "aiokafka://b:9093"]
    assert faust["broker_credentials"].protocol.value == "SASL_SSL"
    assert "secret" not in repr(settings)


REFUSED_PROPERTIES = {
    "a property nobody knows": ({"no.such": "x"}, "no.such: not supported; known are"),
    "what Java has instead": ({"sasl.jaas.config": "x"}, "sasl.jaas.config: not supported; use sasl.mechanism"),
    "a protocol that is none": ({"security.protocol": "TLS"}, "security.protocol: 'TLS' is none of"),
    "SASL without a user": (
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
        "security.protocol SASL_SSL also needs sasl.username, sasl.password",
    ),
    "a mechanism without SASL": ({"sasl.mechanism": "PLAIN"}, "sasl.mechanism goes with security.protocol SASL"),
}


@pytest.mark.parametrize("name", REFUSED_PROPERTIES)
def test_properties_that_cannot_be_used_are_refused_by_name(name: str) -> None:
    properties, expected = REFUSED_PROPERTIES[name]

    with pytest.raises(KafkaSettingsError) as raised:
        make_kafka_settings({}, properties, {})

    assert str(raised.value).startswith(expected)


def test_authorities_that_are_not_there_are_refused() -> None:
    settings = make_kafka_settings({}, {"security.protocol": "SSL", "ssl.ca.location": "/no/such.pem"}, {})

    with pytest.raises(KafkaSettingsError, match=r"TLS: .*ssl"):
        settings.client_options()
