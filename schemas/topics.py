"""The topics: their names, what they hold, and how the broker is to keep them."""

from __future__ import annotations

from typing import Literal

import msgspec

Cleanup = Literal["compact", "delete"]

DAY_S = 86_400

#: What all names of topics begin with, unless configured otherwise.
DEFAULT_PREFIX = "loopwarden."


class TopicSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One topic. ``retention_s`` is in seconds, None where the newest record of a key is kept for good; ``partitions``
    is None for topics that share the number of the events topic, so that a run has one partition number everywhere."""

    name: str
    written_by: str
    content: str
    key: str
    cleanup: tuple[Cleanup, ...]
    retention_s: int | None = None
    partitions: int | None = None


class TopicNames(msgspec.Struct, frozen=True):
    """The full names of all topics."""

    events: str
    verdicts: str
    signals: str
    signal_acks: str
    config: str
    dead_letters: str
    runs_changelog: str


#: Name of the table of runs; with the consumer group it makes the name of its changelog.
RUNS_TABLE = "runs"

TOPICS = (
    TopicSpec(
        name="events",
        written_by="runners, adapters",
        content="tool calls, tool results, compactions, run starts and ends; the log of record, from which all state "
        "can be rebuilt",
        key="session_id",
        cleanup=("delete",),
        retention_s=7 * DAY_S,
    ),
    TopicSpec(
        name="verdicts",
        written_by="processor",
        content="one record per published decision",
        key="session_id",
        cleanup=("delete",),
        retention_s=30 * DAY_S,
    ),
    TopicSpec(
        name="signals",
        written_by="processor, operators",
        content="block and kill commands for runners; the newest signal of a run is its standing state",
        key="SESSION/RUN, on the session's partition",
        cleanup=("compact", "delete"),
        retention_s=7 * DAY_S,
    ),
    TopicSpec(
        name="signal-acks",
        written_by="runners",
        content="what a runner did about a signal",
        key="session_id",
        cleanup=("delete",),
        retention_s=7 * DAY_S,
    ),
    TopicSpec(
        name="config",
        written_by="operators",
        content="layered configuration",
        key="global or agent/ID",
        cleanup=("compact",),
        partitions=1,
    ),
    TopicSpec(
        name="dead-letters",
        written_by="processor",
        content="input that could not be used, byte for byte, with the reason in headers",
        key="the record's own",
        cleanup=("delete",),
        retention_s=30 * DAY_S,
    ),
)


def topic_names(prefix: str = DEFAULT_PREFIX, group: str = "loopwarden") -> TopicNames:
    """Return the names of all topics for a prefix and a consumer group (which names the changelog, as Faust does)."""
    return TopicNames(
        events=f"{prefix}events",
        verdicts=f"{prefix}verdicts",
        signals=f"{prefix}signals",
        signal_acks=f"{prefix}signal-acks",
        config=f"{prefix}config",
        dead_letters=f"{prefix}dead-letters",
        runs_changelog=runs_changelog(prefix, group),
    )


def runs_changelog(prefix: str, group: str) -> str:
    """Return the name of the changelog of the table of runs."""
    return f"{prefix}{group}-{RUNS_TABLE}-changelog"


def all_topics(prefix: str = DEFAULT_PREFIX, group: str = "loopwarden") -> tuple[tuple[str, TopicSpec], ...]:
    """Return every topic with its full name, the changelog of the table of runs included."""
    changelog = TopicSpec(
        name=runs_changelog("", group),
        written_by="processor",
        content="the state of every run held, from which a worker recovers",
        key="JSON array of session_id and run_id",
        cleanup=("compact",),
    )
    return tuple((prefix + spec.name, spec) for spec in (*TOPICS, changelog))
