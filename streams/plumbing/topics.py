"""Makes the topics, and says how those that are there differ from what is expected, and how to mend it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from loopwarden.schemas.configuration import TopicsConfig
from loopwarden.schemas.topics import TopicSpec, all_topics
from loopwarden.streams.kafka_settings import KafkaSettings
from loopwarden.streams.plumbing.reach import reach

#: How long new topics may take to be seen by all, in seconds.
_VISIBLE_DEADLINE_S = 30.0


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


@asynccontextmanager
async def admin_client(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Connect; raises Unreachable, which is a KafkaConnectionError, where no broker lets us in."""
    await reach(kafka)  # aiokafka would not say why it cannot
    admin = AIOKafkaAdminClient(**kafka.client_options())
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


async def create_topics(kafka: KafkaSettings, config: TopicsConfig, group: str) -> tuple[list[str], list[str]]:
    """Make the topics that are missing; return the names of those made and of those that were there.

    Returns once the new ones can be seen. Raises KafkaError where the broker refuses.
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
        response = await admin.create_topics([_new_topic(name, spec, config) for name, spec in missing])
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
    settings = {"cleanup.policy": ",".join(spec.cleanup)}
    if spec.retention_s is not None:
        settings["retention.ms"] = str(spec.retention_s * 1000)
    if config.min_insync_replicas > 1:
        settings["min.insync.replicas"] = str(config.min_insync_replicas)
    partitions = spec.partitions or config.partitions
    return NewTopic(name, partitions, config.replication_factor, topic_configs=settings)


async def _wait_visible(admin: AIOKafkaAdminClient, names: list[str]) -> None:
    """Wait until every broker's answer may be expected to name the new topics."""
    waiting = AsyncRetrying(
        retry=retry_if_result(lambda missing: bool(missing)),
        stop=stop_after_delay(_VISIBLE_DEADLINE_S),
        wait=wait_fixed(0.1),
    )

    async def missing() -> set[str]:
        return set(names) - set(await admin.list_topics())

    await waiting(missing)


async def check_topics(kafka: KafkaSettings, config: TopicsConfig, group: str) -> TopicsReport:
    """Compare the topics with what is expected; raises KafkaConnectionError where no broker answers."""
    differences: list[Difference] = []
    async with admin_client(kafka) as admin:
        wanted = all_topics(config.prefix, group)
        existing = set(await admin.list_topics())
        present = [(name, spec) for name, spec in wanted if name in existing]
        for name, _spec in wanted:
            if name not in existing:
                differences.append(
                    Difference("error", name, "is missing", "loopwarden topics create (with the same options)")
                )
        described = {entry["topic"]: entry for entry in await admin.describe_topics([name for name, _spec in present])}
        for name, spec in present:
            differences += _compare_partitions(name, spec, described[name], config)
        settings, notes = await _settings_of(admin, [name for name, _spec in present])
        for name, spec in present:
            differences += _compare_settings(name, spec, settings.get(name, {}), config, kafka)
    return TopicsReport(differences, notes)


def _compare_partitions(
    name: str, spec: TopicSpec, described: dict[str, Any], config: TopicsConfig
) -> Iterable[Difference]:
    partitions = described["partitions"]
    expected = spec.partitions or config.partitions
    if len(partitions) != expected:
        yield Difference(
            "error",
            name,
            f"has {len(partitions)} partitions where {expected} are expected",
            f"set topics.partitions to {len(partitions)} (or --partitions), if all topics have as many; records cannot "
            "move to other partitions, so for another number take a new topics.prefix, or delete the topics and make "
            "them anew",
        )
    copies = min((len(partition["replicas"]) for partition in partitions), default=0)
    if copies < config.replication_factor:
        yield Difference(
            "warning",
            name,
            f"is kept {copies} times where {config.replication_factor} copies are expected",
            "kafka-reassign-partitions.sh with a plan that names more replicas",
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
    for response in responses:
        for _code, _message, _kind, name, entries in response.resources:
            settings[name] = {entry[0]: entry[1] for entry in entries}
    silent = [name for name in names if "cleanup.policy" not in settings.get(name, {})]
    if silent:
        return settings, ["this broker does not tell how topics are configured: cleanup and retention not checked"]
    return settings, []


def _compare_settings(
    name: str, spec: TopicSpec, settings: dict[str, str], config: TopicsConfig, kafka: KafkaSettings
) -> Iterable[Difference]:
    expected: dict[str, str] = {"cleanup.policy": ",".join(spec.cleanup)}
    if spec.retention_s is not None:
        expected["retention.ms"] = str(spec.retention_s * 1000)
    if config.min_insync_replicas > 1:
        expected["min.insync.replicas"] = str(config.min_insync_replicas)
    for setting, wanted in expected.items():
        found = settings.get(setting)
        if found is None or _same(setting, found, wanted):
            continue
        value = f"[{wanted}]" if "," in wanted else wanted
        yield Difference(
            "warning",
            name,
            f"has {setting}={found} where {wanted} is expected",
            f"kafka-configs.sh --bootstrap-server {kafka.bootstrap_servers} --alter --entity-type topics "
            f"--entity-name {name} --add-config {setting}={value}",
        )


def _same(setting: str, found: str, wanted: str) -> bool:
    if setting == "cleanup.policy":
        return set(found.split(",")) == set(wanted.split(","))
    if setting == "min.insync.replicas":
        return int(found) >= int(wanted)
    return found == wanted


def refusals(report: TopicsReport) -> list[Difference]:
    """Return the differences that a worker cannot work with."""
    return [difference for difference in report.differences if difference.severity == "error"]
