"""Every conformance vector through the broker and a worker; what arrives is what the publishing rules leave of it."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest
from broker_tools import Stream, at_least
from conftest import StartWorker
from folding import load_vectors
from naive import published, signalled

pytestmark = pytest.mark.broker


def test_every_vector_leads_to_the_verdicts_and_signals_that_it_must(stream: Stream, start_worker: StartWorker) -> None:
    vectors = {str(vector["name"]): vector for vector in load_vectors()}
    # An agent each, so that one worker has every vector's configuration.
    agents = [{"id": name, "tools": {"loopDetection": vector["config"]}} for name, vector in vectors.items()]
    start_worker(tools={}, agents={"list": agents})
    records, caused_by = [], []
    for name, vector in vectors.items():
        for at, event in enumerate(vector["events"]):
            named = {"session_id": name, "run_id": "run", "agent_id": name} | event
            records.append((name, json.dumps(named).encode()))
            caused_by.append((name, at))
    places = dict(zip(stream.send(records), caused_by, strict=True))
    expected = {name: published(vector["config"], vector["events"]) for name, vector in vectors.items()}
    commands = {name: signalled(vector["config"], vector["events"]) for name, vector in vectors.items()}

    verdicts = stream.verdicts(at_least(sum(map(len, expected.values()))))
    signals = stream.signals(at_least(sum(map(len, commands.values()))))

    arrived: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for verdict in verdicts:
        name, at = places[(verdict.evidence.partition, verdict.evidence.last_offset)]  # type: ignore[index]
        assert name == verdict.session_id
        said = {"at": at, "level": verdict.level, "detector": verdict.detector, "count": verdict.count}
        said["tool_name"] = verdict.tool_name
        if verdict.paired_tool_name is not None:
            said["paired_tool_name"] = verdict.paired_tool_name
        arrived[name].append(said)
    sent: dict[str, list[str]] = defaultdict(list)
    for signal in signals:
        sent[signal.session_id].append(signal.action)
    assert dict(arrived) == {name: said for name, said in expected.items() if said}
    assert dict(sent) == {name: actions for name, actions in commands.items() if actions}
    assert sum(map(len, expected.values())) > 400


def test_the_publishing_rules_keep_all_first_decisions_and_few_others() -> None:
    for vector in load_vectors():
        left = published(vector["config"], vector["events"])

        assert all(verdict in vector["expect"] for verdict in left)
        assert left[:1] == vector["expect"][:1]
