"""Makes the topics, and says how those that are there differ from what is expected, and how to mend it."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, KafkaTimeoutError, TopicAlreadyExistsError, for_code
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.protocol.metadata import MetadataRequest
from tenacity import AsyncRetrying, RetryError, retry_if_exception, retry_if_result, stop_after_delay, wait_exponential

from loopwarden.schemas.configuration import TopicsConfig, WorkerConfig
from loopwarden.schemas.topics import DEFAULT_PREFIX, TopicSpec, all_topics
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.reach import reach

#: How long new topics may take to be seen by all, in seconds.
_VISIBLE_DEADLINE_S = 30.0

#: How long another broker is looked for where one has gone, in seconds; the others list it for nine at most.
_GONE_PATIENCE_S = 15.0

_partition_of = DefaultPartitioner()


def session_partition(session_id: str, partitions: int) -> int:
    """Return the partition of a session's records, on every keyed topic: the one that Java's clients would choose."""
    return int(_partition_of(session_id.encode(), range(partitions), ()))


class Difference(NamedTuple):
    """How a topic differs from what is expected; an ``error`` is one that a worker cannot work with."""

    severity: Literal["error", "warning"]
    topic: str
    message: str
    mend: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.topic}: {self.message}\n    to mend it: {self.mend}"


class TopicsReport(NamedTuple):
    """What was found: differences, and what this broker does not tell."""

    differences: list[Difference]
    notes: list[str]


class _PatientAdmin(AIOKafkaAdminClient):
    """An admin client that asks another broker where one has just gone; aiokafka's takes any that is still listed."""

    async def _send_request(self, request: Any, node_id: int | None = None) -> Any:
        trying = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, KafkaError) and error.retriable),
            stop=stop_after_delay(_GONE_PATIENCE_S),
            wait=wait_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        return await trying(super()._send_request, request, node_id)


@asynccontextmanager
async def admin_client(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Connect; raises Unreachable, which is a KafkaConnectionError, where no broker lets us in."""
    await reach(kafka)  # aiokafka would not say why it cannot
    admin = _PatientAdmin(**kafka.client_options())
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


async def create_topics(kafka: KafkaSettings, config: TopicsConfig, group: str) -> tuple[list[str], list[str]]:
    """Make the topics that are missing; return the names of those made and of those that were there.

    Returns once every broker knows the new ones. Raises KafkaError where a broker refuses, or they do not appear.
    """
    made: list[str] = []
    there: list[str] = []
    async with admin_client(kafka) as admin:
        existing = set(await admin.list_topics())
        wanted = all_topics(config.prefix, group)
        there = [name for name, _spec in wanted if name in existing]
        missing = [(name, spec) for name, spec in wanted if name not in existing]
        if not missing:
            return made, there
        try:
            response = await admin.create_topics([_new_topic(name, spec, config) for name, spec in missing])
        except TimeoutError:
            raise KafkaTimeoutError("the controller does not answer") from None
        for name, code, *detail in response.topic_errors:
            if code == 0:
                made.append(name)
            elif code == TopicAlreadyExistsError.errno:
                there.append(name)  # somebody else was quicker
            else:
                raise for_code(code)(f"{name}: {detail[0] if detail and detail[0] else 'refused'}")
        await _wait_visible(admin, made)
    return made, there


def _new_topic(name: str, spec: TopicSpec, config: TopicsConfig) -> NewTopic:
    partitions = spec.partitions or config.partitions
    return NewTopic(name, partitions, config.replication_factor, topic_configs=_expected_settings(spec, config))


async def _wait_visible(admin: AIOKafkaAdminClient, names: list[str]) -> None:
    """Wait until every broker names the new topics, each partition with a leader: whoever asks next may ask any."""
    waiting = AsyncRetrying(
        retry=retry_if_result(lambda missing: bool(missing)),
        stop=stop_after_delay(_VISIBLE_DEADLINE_S),
        wait=wait_exponential(multiplier=0.1, max=2),
    )

    async def missing() -> list[str]:
        try:
            brokers = [entry["node_id"] for entry in (await admin.describe_cluster())["brokers"]]
            answers = [await admin._client.send(broker, MetadataRequest(names)) for broker in brokers]
        except KafkaError:
            return names  # a broker that has just gone is still listed for a while
        usable = [
            {entry["topic"] for entry in answer.to_object()["topics"] if _has_leaders(entry)} for answer in answers
        ]
        return [name for name in names if not usable or not all(name in topics for topics in usable)]

    try:
        await waiting(missing)
    except RetryError as error:
        waited_for = ", ".join(error.last_attempt.result())
        raise KafkaTimeoutError(
            f"made, but not seen by all brokers after {_VISIBLE_DEADLINE_S:.0f} s: {waited_for}"
        ) from None


def _has_leaders(described: dict[str, Any]) -> bool:
    partitions = described["partitions"]
    return bool(partitions) and all(partition["leader"] >= 0 for partition in partitions)


async def check_topics(kafka: KafkaSettings, config: TopicsConfig, group: str) -> TopicsReport:
    """Compare the topics with what is expected.

    Raises KafkaConnectionError where no broker answers, another KafkaError where it refuses.
    """
    differences: list[Difference] = []
    async with admin_client(kafka) as admin:
        wanted = all_topics(config.prefix, group)
        existing = set(await admin.list_topics())
        present = [(name, spec) for name, spec in wanted if name in existing]
        for name, _spec in wanted:
            if name not in existing:
                differences.append(Difference("error", name, "is missing", _create_command(kafka, config, group)))
        described = {entry["topic"]: entry for entry in await admin.describe_topics([name for name, _spec in present])}
        for name, spec in present:
            differences += _compare_partitions(name, spec, described[name], config, kafka)
        told, notes = await _settings_of(admin, [name for name, _spec in present])
        for name, spec in present:
            differences += _compare_settings(name, spec, told.get(name, {}), config, kafka)
            differences += _compare_copies(name, described[name], told.get(name, {}), config, kafka)
    for name, spec in present:
        unchecked = sorted(set(_expected_settings(spec, config)) - set(told.get(name, {})))
        if unchecked and name in told:
            notes.append(f"cannot be checked on this broker: {', '.join(unchecked)} of {name}")
    return TopicsReport(differences, notes)


def _create_command(kafka: KafkaSettings, config: TopicsConfig, group: str) -> str:
    """Return the command that makes what is missing, with what it must be told if it is not as the defaults have it."""
    plain = TopicsConfig()
    stated = [
        ("--bootstrap", kafka.bootstrap_servers, None),
        ("--prefix", config.prefix, DEFAULT_PREFIX),
        ("--partitions", config.partitions, plain.partitions),
        ("--replication-factor", config.replication_factor, plain.replication_factor),
        ("--min-insync-replicas", config.min_insync_replicas, plain.min_insync_replicas),
        ("--group", group, WorkerConfig().group),
    ]
    options = [part for option, value, default in stated if value != default for part in (option, str(value))]
    secured = "" if kafka.security_protocol == "PLAINTEXT" else " (with the options that connect to it)"
    return shlex.join(["loopwarden", "topics", "create", *options]) + secured


def _kafka_tool(tool: str, kafka: KafkaSettings, *options: str) -> str:
    """Return a command of Kafka's own tools."""
    secured = () if kafka.security_protocol == "PLAINTEXT" else ("--command-config", "client.properties")
    return shlex.join([tool, "--bootstrap-server", kafka.bootstrap_servers, *secured, *options])


def _compare_partitions(
    name: str, spec: TopicSpec, described: dict[str, Any], config: TopicsConfig, kafka: KafkaSettings
) -> Iterable[Difference]:
    found = len(described["partitions"])
    if spec.partitions is not None and found != spec.partitions:
        delete = _kafka_tool("kafka-topics.sh", kafka, "--delete", "--topic", name)
        yield Difference(
            "error",
            name,
            f"has {found} partitions where {spec.partitions} is expected",
            f"take a new topics.prefix, or keep its records elsewhere, then {delete} and 'loopwarden topics create'",
        )
    elif spec.partitions is None and found != config.partitions:
        yield Difference(
            "error",
            name,
            f"has {found} partitions where {config.partitions} are expected",
            f"set topics.partitions to {found} (or --partitions), if all topics have as many; records cannot "
            "move to other partitions, so for another number take a new topics.prefix, or delete the topics and make "
            "them anew",
        )


def _compare_copies(
    name: str, described: dict[str, Any], settings: dict[str, str], config: TopicsConfig, kafka: KafkaSettings
) -> Iterable[Difference]:
    copies = min((len(partition["replicas"]) for partition in described["partitions"]), default=0)
    needed = int(settings.get("min.insync.replicas", 1))
    more = _kafka_tool("kafka-reassign-partitions.sh", kafka, "--reassignment-json-file", "PLAN", "--execute")
    if copies < needed:
        yield Difference(
            "error",
            name,
            f"takes no records with acks=all: it has {copies} copies, and min.insync.replicas={needed} asks for more",
            _alter_command(name, "min.insync.replicas", str(copies), kafka),
        )
    if copies < config.replication_factor:
        yield Difference(
            "warning",
            name,
            f"is kept {copies} times where {config.replication_factor} copies are expected",
            f"{more}, with a plan that names {config.replication_factor} replicas of each partition",
        )


async def _settings_of(admin: AIOKafkaAdminClient, names: list[str]) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return the settings of topics, as far as the broker tells them, and a note where it does not."""
    if not names:
        return {}, []
    try:
        responses = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names])
    except (KafkaError, ValueError, TypeError) as error:
        return {}, [f"this broker does not tell how topics are configured ({type(error).__name__}): not checked"]
    settings: dict[str, dict[str, str]] = {}
    refused: dict[str, str] = {}
    for response in responses:
        for code, _message, _kind, name, entries in response.resources:
            if code == 0:
                settings[name] = {entry[0]: entry[1] for entry in entries}
            else:
                refused[name] = for_code(code).__name__
    return settings, [f"the broker does not tell how {name} is configured ({why})" for name, why in refused.items()]


def _expected_settings(spec: TopicSpec, config: TopicsConfig) -> dict[str, str]:
    expected = {"cleanup.policy": ",".join(spec.cleanup)}
    if spec.retention_s is not None:
        expected["retention.ms"] = str(spec.retention_s * 1000)
    if config.min_insync_replicas > 1:
        expected["min.insync.replicas"] = str(config.min_insync_replicas)
    return expected


def _compare_settings(
    name: str, spec: TopicSpec, settings: dict[str, str], config: TopicsConfig, kafka: KafkaSettings
) -> Iterable[Difference]:
    for setting, wanted in _expected_settings(spec, config).items():
        found = settings.get(setting)
        if found is None or _same(setting, found, wanted):
            continue
        yield Difference(
            "warning",
            name,
            f"has {setting}={found} where {wanted} is expected",
            _alter_command(name, setting, wanted, kafka),
        )


def _alter_command(name: str, setting: str, value: str, kafka: KafkaSettings) -> str:
    listed = f"[{value}]" if "," in value else value
    options = ("--alter", "--entity-type", "topics", "--entity-name", name, "--add-config", f"{setting}={listed}")
    return _kafka_tool("kafka-configs.sh", kafka, *options)


def _same(setting: str, found: str, wanted: str) -> bool:
    if setting == "cleanup.policy":
        return set(found.split(",")) == set(wanted.split(","))
    if setting == "min.insync.replicas":
        return int(found) >= int(wanted)
    return found == wanted


def refusals(report: TopicsReport) -> list[Difference]:
    """Return the differences that a worker cannot work with."""
    return [difference for difference in report.differences if difference.severity == "error"]
