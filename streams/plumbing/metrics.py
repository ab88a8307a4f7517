"""Every metric of the worker, declared once; fed once per batch.

No label ever holds a run, a session or a call: with hundreds of thousands of agents that would be a series each.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from loopwarden.schemas.events import EVENT_TYPES
from loopwarden.streams.detectors import DETECTOR_NAMES
from loopwarden.streams.engine import Counts
from loopwarden.streams.partition import Outcome

_VERDICT_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600)
_BATCH_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Metrics:
    """The worker's metrics, in a registry of their own so that several workers fit into one process of a test."""

    def __init__(self) -> None:
        #: Called before metrics are shown, for those that change without an event, as ages do.
        self.before_show: Callable[[], None] = lambda: None
        self.registry = CollectorRegistry()
        self._declare_events()
        self._declare_health()
        self._declare_group()
        self._show_zeros()

    def _declare_events(self) -> None:
        registry = self.registry
        self.events = Counter("loopwarden_events", "Events folded into runs, by type.", ["type"], registry=registry)
        self.unknown_types = Counter(
            "loopwarden_events_of_unknown_type",
            "Events skipped because their type is not known.",
            registry=registry,
        )
        self.duplicate_events = Counter(
            "loopwarden_duplicate_events",
            "Events dropped because their id was seen already.",
            registry=registry,
        )
        self.duplicate_results = Counter(
            "loopwarden_duplicate_results",
            "Results dropped because their call had finished.",
            registry=registry,
        )
        self.redelivered_events = Counter(
            "loopwarden_redelivered_events",
            "Events that came again after a crash or a rebalance, and were skipped.",
            registry=registry,
        )
        self.orphan_results = Counter(
            "loopwarden_orphan_results",
            "Results dropped because no call fits and they name no arguments.",
            registry=registry,
        )
        self.incomparable_results = Counter(
            "loopwarden_incomparable_results",
            "Results that say neither progress nor the lack of it: our own vetoes, and those without content.",
            registry=registry,
        )
        self.calls_after_kill = Counter(
            "loopwarden_calls_after_kill",
            "Tool calls by runs that a kill signal was sent for.",
            registry=registry,
        )
        self.guards_armed = Counter(
            "loopwarden_guards_armed", "Times the post-compaction guard was armed.", registry=registry
        )
        self.decisions = Counter(
            "loopwarden_decisions", "Decisions, published or not.", ["detector", "level"], registry=registry
        )
        self.verdicts = Counter("loopwarden_verdicts", "Verdicts published.", ["detector", "level"], registry=registry)
        self.signals = Counter("loopwarden_signals", "Signals sent to runners.", ["action"], registry=registry)
        self.dead_letters = Counter(
            "loopwarden_dead_letters", "Records that could not be used.", ["reason"], registry=registry
        )

    def _declare_health(self) -> None:
        registry = self.registry
        self.runs_held = Gauge("loopwarden_runs_held", "Runs whose state is held by this worker.", registry=registry)
        self.runs_freed = Counter(
            "loopwarden_runs_freed",
            "Runs whose state was freed after their end or idling.",
            registry=registry,
        )
        self.unreadable_rows = Counter(
            "loopwarden_unreadable_rows",
            "Stored runs that could not be read and began anew.",
            registry=registry,
        )
        self.event_to_verdict = Histogram(
            "loopwarden_event_to_verdict_seconds",
            "From an event's record to its verdict's acknowledgement.",
            buckets=_VERDICT_SECONDS,
            registry=registry,
        )
        self.batch = Histogram(
            "loopwarden_batch_seconds",
            "How long a batch took, from its delivery to its acknowledgement.",
            buckets=_BATCH_SECONDS,
            registry=registry,
        )
        self.consumer_lag = Gauge(
            "loopwarden_consumer_lag",
            "Records of the events topic not yet folded.",
            ["partition"],
            registry=registry,
        )

    def _declare_group(self) -> None:
        registry = self.registry
        self.rebalances = Counter(
            "loopwarden_rebalances", "Times the group assigned this worker its partitions.", registry=registry
        )
        self.recovery_remaining = Gauge(
            "loopwarden_recovery_records_remaining",
            "Records of the changelog still to be read before events are; no series where none are.",
            ["partition"],
            registry=registry,
        )
        self.recovery_seconds = Gauge(
            "loopwarden_recovery_seconds",
            "How long the last recovery took, from the assignment of partitions to their states being there.",
            registry=registry,
        )
        self.commit_age = Gauge(
            "loopwarden_last_commit_age_seconds",
            "Time since offsets were last committed (since the start, before that); grows while there is no event.",
            registry=registry,
        )
        self.heartbeat_age = Gauge(
            "loopwarden_last_heartbeat_age_seconds",
            "Time since the broker last confirmed that this worker is in the group.",
            registry=registry,
        )

    def _show_zeros(self) -> None:
        """Make series exist before their first count, so that a rate over them sees that first count."""
        for event_type in EVENT_TYPES:
            self.events.labels(event_type)
        for detector in DETECTOR_NAMES:
            for level in ("warning", "critical"):
                self.decisions.labels(detector, level)
                self.verdicts.labels(detector, level)
        for action in ("block", "kill"):
            self.signals.labels(action)

    def count(self, outcome: Outcome, counts: Counts, acknowledged_s: float) -> None:
        """Count a batch that has been published and stored; ``acknowledged_s`` is the time of that, since the epoch."""
        for kind, number in outcome.events.items():
            self.events.labels(kind.__struct_config__.tag).inc(number)
        for (detector, level), number in Tally((d.detector, d.level) for d, _run, _at in outcome.caused).items():
            self.decisions.labels(detector, level).inc(number)
        for verdict, time_ms in outcome.verdicts:
            self.verdicts.labels(verdict.detector, verdict.level).inc()
            self.event_to_verdict.observe(max(0.0, acknowledged_s - time_ms / 1000))
        for action, number in Tally(signal.action for signal, _time in outcome.signals).items():
            self.signals.labels(action).inc(number)
        for reason, number in Tally(refusal.reason for _offset, refusal in outcome.refused).items():
            self.dead_letters.labels(reason).inc(number)
        self.unknown_types.inc(outcome.unknown_types)
        self.unreadable_rows.inc(outcome.unreadable_rows)
        self.runs_freed.inc(outcome.freed)
        self.duplicate_events.inc(counts.duplicate_events)
        self.duplicate_results.inc(counts.duplicate_results)
        self.redelivered_events.inc(counts.redelivered_events)
        self.orphan_results.inc(counts.orphan_results)
        self.incomparable_results.inc(counts.incomparable_results)
        self.calls_after_kill.inc(counts.calls_after_kill)
        self.guards_armed.inc(counts.guards_armed)

    def show_lags(self, lags: Mapping[int, int | None]) -> None:
        """Show the lag of each partition that is held, and of no other; None where the partition's end is not known."""
        self.consumer_lag.clear()
        for partition, lag in lags.items():
            if lag is not None:
                self.consumer_lag.labels(partition).set(lag)

    def show_recovery(self, remaining: Mapping[int, int]) -> None:
        """Show how many records of the changelog each partition still waits for."""
        self.recovery_remaining.clear()
        for partition, records in remaining.items():
            self.recovery_remaining.labels(partition).set(records)

    def exposition(self) -> tuple[bytes, str]:
        """Return all metrics in Prometheus' text form, and its content type."""
        self.before_show()
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
