"""Topics: where a session's records go, how topics are made, and what is said where they are not as they must be."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidReplicationFactorError, KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError
from aiokafka.partitioner import murmur2
from broker_tools import wait_until
from click.testing import CliRunner

from loopwarden.deploy.kafka.artifacts import jars
from loopwarden.schemas.configuration import TopicsConfig
from loopwarden.schemas.topics import TOPICS, all_topics, topic_names
from loopwarden.streams.cli.main import main
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing import topics as module
from loopwarden.streams.plumbing.topics import (
    admin_client,
    check_topics,
    create_topics,
    refusals,
    session_partition,
)

PARTITIONS = 3

#: What Kafka's own test of its partitioner expects (UtilsTest.testMurmur2).
JAVA_MURMUR2 = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


class Place:
    """A broker, and names of topics there that are nobody else's."""

    def __init__(self, bootstrap: str) -> None:
        unique = uuid.uuid4().hex[:8]
        self.kafka = KafkaSettings(bootstrap_servers=bootstrap)
        self.config = TopicsConfig(prefix=f"t{unique}.", partitions=PARTITIONS)
        self.group = f"g{unique}"
        self.names = topic_names(self.config.prefix, self.group)
        self.all_names = [name for name, _spec in all_topics(self.config.prefix, self.group)]

    def create(self) -> tuple[list[str], list[str]]:
        return asyncio.run(create_topics(self.kafka, self.config, self.group))

    def check(self, **changes: Any) -> module.TopicsReport:
        config = msgspec.structs.replace(self.config, **changes)
        return asyncio.run(check_topics(self.kafka, config, self.group))

    def make_by_hand(self, name: str, partitions: int, settings: dict[str, str] | None = None) -> None:
        self.ask(lambda admin: admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings or {})]))

    def set(self, name: str, **settings: str) -> None:
        """Replace the settings of a topic; dots are written as underscores."""
        dotted = {setting.replace("_", "."): value for setting, value in settings.items()}
        resource = ConfigResource(ConfigResourceType.TOPIC, name, configs=dotted)
        self.ask(lambda admin: admin.alter_configs([resource]))
        wait_until(lambda: dotted.items() <= self.told()[name].items(), f"{name} is as it was told to be")

    def told(self) -> dict[str, dict[str, str]]:
        """Return what the broker tells of the settings of all topics."""
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in self.all_names]
        responses = self.ask(lambda admin: admin.describe_configs(resources))
        return {row[3]: {entry[0]: entry[1] for entry in row[4]} for found in responses for row in found.resources}

    def ask(self, question: Callable[[AIOKafkaAdminClient], Any]) -> Any:
        async def asking() -> Any:
            async with admin_client(self.kafka) as admin:
                return await question(admin)

        return asyncio.run(asking())


@pytest.fixture
def place(bootstrap: str) -> Place:
    """Names of this test's own, on each broker in turn."""
    return Place(bootstrap)


@pytest.fixture
def on_kafka(kafka: str) -> Place:
    """Names of this test's own on Apache Kafka, which knows all settings of topics."""
    return Place(kafka)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(("key", "expected"), JAVA_MURMUR2.items())
def test_sessions_are_hashed_as_java_clients_hash_keys(key: str, expected: int) -> None:
    assert murmur2(key.encode()) == expected % 2**32
    assert session_partition(key, 7) == (expected & 0x7FFFFFFF) % 7


def test_every_topic_of_the_contract_is_listed_and_named() -> None:
    names = topic_names("p.", "g")

    assert [spec.name for spec in TOPICS] == [
        "events",
        "verdicts",
        "signals",
        "signal-acks",
        "config",
        "dead-letters",
    ]
    assert sorted(name for name, _spec in all_topics("p.", "g")) == sorted(msgspec.structs.asdict(names).values())
    assert [spec.name for spec in TOPICS if spec.partitions is not None] == ["config"], "all others are co-partitioned"


@pytest.mark.broker
def test_a_session_has_the_partition_that_a_client_chooses_by_itself(place: Place) -> None:
    place.create()

    async def send() -> dict[str, int]:
        async with AIOKafkaProducer(bootstrap_servers=place.kafka.bootstrap_servers) as producer:
            sent = {}
            for session in ("s-1", "support-4711", "später", "会話", ""):
                sent[session] = (
                    await producer.send_and_wait(place.names.events, b"{}", key=session.encode())
                ).partition
            return sent

    sent = asyncio.run(send())

    assert sent == {session: session_partition(session, PARTITIONS) for session in sent}
    assert len(set(sent.values())) > 1


@pytest.mark.broker
def test_topics_are_made_as_the_contract_says(place: Place) -> None:
    made, there = place.create()
    described = {entry["topic"]: entry for entry in place.ask(lambda admin: admin.describe_topics(place.all_names))}
    told = place.told()

    assert (sorted(made), there) == (sorted(place.all_names), [])
    assert {name: len(entry["partitions"]) for name, entry in described.items()} == dict.fromkeys(
        place.all_names, PARTITIONS
    ) | {place.names.config: 1}
    assert {name: told[name]["cleanup.policy"] for name in told} == {
        place.names.events: "delete",
        place.names.verdicts: "delete",
        place.names.signals: "compact,delete",
        place.names.signal_acks: "delete",
        place.names.config: "compact",
        place.names.dead_letters: "delete",
        place.names.runs_changelog: "compact",
    }
    days = {
        name: int(told[name]["retention.ms"]) / 86_400_000 for name in told if "delete" in told[name]["cleanup.policy"]
    }
    assert days == {
        place.names.events: 7,
        place.names.verdicts: 30,
        place.names.signals: 7,
        place.names.signal_acks: 7,
        place.names.dead_letters: 30,
    }
    assert place.check() == ([], [])


@pytest.mark.broker
def test_only_what_is_missing_is_made(place: Place) -> None:
    place.make_by_hand(place.names.verdicts, PARTITIONS)

    made, there = place.create()

    assert there == [place.names.verdicts]
    assert sorted(made) == sorted(set(place.all_names) - {place.names.verdicts})
    assert place.create() == ([], place.all_names)


@pytest.mark.broker
def test_two_who_make_the_same_topics_at_once_both_succeed(place: Place) -> None:
    async def both() -> list[tuple[list[str], list[str]]]:
        return await asyncio.gather(*(create_topics(place.kafka, place.config, place.group) for _ in range(2)))

    results = asyncio.run(both())

    assert [sorted(made + there) for made, there in results] == [sorted(place.all_names)] * 2
    assert sorted(results[0][0] + results[1][0]) == sorted(place.all_names), "each is made by one of the two"


@pytest.mark.broker
def test_what_is_missing_is_told_with_the_command_that_makes_it(place: Place) -> None:
    report = place.check()

    assert refusals(report) == report.differences
    assert {(found.topic, found.message) for found in report.differences} == {
        (name, "is missing") for name in place.all_names
    }
    (command,) = {found.mend for found in report.differences}
    code, _stdout, stderr = run(*shlex.split(command)[1:])
    assert (code, stderr) == (0, "")
    assert place.check() == ([], [])


@pytest.mark.broker
def test_another_number_of_partitions_is_an_error(place: Place) -> None:
    place.make_by_hand(place.names.events, PARTITIONS + 2)
    place.make_by_hand(place.names.config, 2)
    place.create()

    found = {difference.topic: difference for difference in refusals(place.check())}

    assert set(found) == {place.names.events, place.names.config}
    assert found[place.names.events].message == "has 5 partitions where 3 are expected"
    assert "set topics.partitions to 5" in found[place.names.events].mend
    assert found[place.names.config].message == "has 2 partitions where 1 is expected"
    assert "topics.partitions" not in found[place.names.config].mend, "it has one, whatever is configured"


@pytest.mark.broker
def test_settings_that_the_embedded_broker_does_not_tell_are_noted_and_not_held_against_it(embedded: str) -> None:
    place = Place(embedded)
    place.make_by_hand(place.names.events, PARTITIONS)
    place.create()

    report = place.check()

    assert report.differences == []
    assert report.notes == [f"cannot be checked on this broker: cleanup.policy, retention.ms of {place.names.events}"]


@pytest.mark.broker
def test_settings_that_differ_are_warnings_and_what_is_said_mends_them(on_kafka: Place) -> None:
    on_kafka.create()
    on_kafka.set(on_kafka.names.signals, cleanup_policy="delete", retention_ms="604800000")
    on_kafka.set(on_kafka.names.verdicts, cleanup_policy="delete", retention_ms="1000")

    report = on_kafka.check()

    assert refusals(report) == []
    assert {(found.severity, found.topic, found.message) for found in report.differences} == {
        ("warning", on_kafka.names.signals, "has cleanup.policy=delete where compact,delete is expected"),
        ("warning", on_kafka.names.verdicts, "has retention.ms=1000 where 2592000000 is expected"),
    }
    for found in report.differences:
        tool, *options = shlex.split(found.mend)
        assert tool == "kafka-configs.sh"
        command = ["java", "-cp", f"{jars()}/*", "kafka.admin.ConfigCommand", *options]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    wait_until(lambda: on_kafka.check() == ([], []), "all is as expected")


@pytest.mark.broker
def test_the_order_of_cleanup_policies_is_no_difference(on_kafka: Place) -> None:
    on_kafka.create()
    on_kafka.set(on_kafka.names.signals, cleanup_policy="delete,compact", retention_ms="604800000")

    assert on_kafka.check() == ([], [])


def test_more_copies_that_must_have_a_record_than_asked_for_are_no_difference() -> None:
    assert module._same("min.insync.replicas", "3", "2")
    assert not module._same("min.insync.replicas", "1", "2")


@pytest.mark.broker
def test_fewer_copies_than_expected_are_a_warning_and_fewer_than_needed_an_error(on_kafka: Place) -> None:
    on_kafka.create()
    on_kafka.set(on_kafka.names.events, cleanup_policy="delete", retention_ms="604800000", min_insync_replicas="2")

    report = on_kafka.check(replication_factor=3, min_insync_replicas=2)
    (unusable,) = refusals(report)
    warnings = {(found.topic, found.message) for found in report.differences if found.severity == "warning"}

    assert unusable.topic == on_kafka.names.events
    assert "it has 1 copies, and min.insync.replicas=2 asks for more" in unusable.message
    assert {name for name, message in warnings if "kept 1 times where 3 copies" in message} == set(on_kafka.all_names)
    assert {name for name, message in warnings if "min.insync.replicas=1 where 2" in message} == set(
        on_kafka.all_names
    ) - {on_kafka.names.events}


@pytest.mark.broker
def test_what_the_broker_refuses_is_said_in_its_words(on_kafka: Place) -> None:
    on_kafka.config = msgspec.structs.replace(on_kafka.config, replication_factor=2)
    options = ["--bootstrap", on_kafka.kafka.bootstrap_servers, "--prefix", on_kafka.config.prefix]

    with pytest.raises(InvalidReplicationFactorError, match="only 1 broker"):
        on_kafka.create()
    code, _stdout, stderr = run("topics", "create", *options, "--replication-factor", "2")
    assert code == 2
    assert "the broker refuses to make topics" in stderr
    assert "only 1 broker" in stderr


@pytest.mark.broker
def test_topics_that_do_not_appear_are_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_VISIBLE_DEADLINE_S", 0.3)
    monkeypatch.setattr(module, "_has_leaders", lambda described: described["topic"] != place.names.signals)

    with pytest.raises(KafkaTimeoutError, match=f"not seen by all brokers after .*: {place.names.signals}$"):
        place.create()


def test_topics_that_could_take_no_record_are_not_made() -> None:
    code, stdout, stderr = run("topics", "create", "--min-insync-replicas", "3", "--replication-factor", "2")

    assert (code, stdout) == (2, "")
    assert "such topics would take no records" in stderr


def test_commands_for_a_secured_cluster_name_a_file_of_properties() -> None:
    kafka = KafkaSettings(bootstrap_servers="kafka:9093", security_protocol="SASL_SSL", sasl_password="geheim")
    create = module._create_command(kafka, TopicsConfig(), "loopwarden")
    alter = module._alter_command("loopwarden.signals", "cleanup.policy", "compact,delete", kafka)

    assert create == "loopwarden topics create --bootstrap kafka:9093 (with the options that connect to it)"
    assert alter == (
        "kafka-configs.sh --bootstrap-server kafka:9093 --command-config client.properties --alter "
        "--entity-type topics --entity-name loopwarden.signals --add-config 'cleanup.policy=[compact,delete]'"
    )


@pytest.mark.broker
def test_a_broker_that_has_just_gone_is_passed_over(embedded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(embedded)
    place.create()
    send = AIOKafkaAdminClient._send_request
    failures = [NodeNotReadyError("gone"), KafkaConnectionError("gone")]

    async def send_or_fail(admin: AIOKafkaAdminClient, request: Any, node_id: int | None = None) -> Any:
        if failures:
            raise failures.pop()
        return await send(admin, request, node_id)

    monkeypatch.setattr(AIOKafkaAdminClient, "_send_request", send_or_fail)

    assert place.check() == ([], [])
    assert failures == []
