"""How tests put events in their JSON form through the core."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from loopwarden.schemas.events import Event
from loopwarden.streams.decisions import Decision
from loopwarden.streams.engine import Engine
from loopwarden.streams.ingest import Refusal, read_event
from loopwarden.streams.run import Run
from loopwarden.streams.settings import Settings, resolve

VECTORS = Path(__file__).parent / "vectors"


def load_vectors() -> list[dict[str, Any]]:
    """Return every conformance vector there is."""
    return [json.loads(line) for path in sorted(VECTORS.glob("*.jsonl")) for line in path.read_text().splitlines()]


def settings_of(block: dict[str, Any]) -> Settings:
    """Return the effective settings of a bare loopDetection block."""
    book, _warnings = resolve(block, {})
    return book.for_agent(None)


def event_of(fields: dict[str, Any]) -> Event:
    """Return the typed event of a vector's, by way of its bytes."""
    event = read_event(json.dumps({"session_id": "s", "run_id": "r"} | fields).encode())
    assert not isinstance(event, Refusal), event
    return event


def form_of(decision: Decision) -> dict[str, Any]:
    """Return a decision in the form of the vectors, without ``at``."""
    form = {
        "level": decision.level,
        "detector": decision.detector,
        "count": decision.count,
        "tool_name": decision.tool_name,
    }
    if decision.paired_tool_name is not None:
        form["paired_tool_name"] = decision.paired_tool_name
    return form


def fold_all(events: Iterable[dict[str, Any]], settings: Settings, run: Run | None = None) -> list[dict[str, Any]]:
    """Fold events into a run, each at the offset of its index; return the decisions with ``at``."""
    engine = Engine()
    run = run or Run("s", "r")
    decisions = []
    for offset, fields in enumerate(events):
        decision = engine.fold(run, event_of(fields), offset, 1000 + offset, settings)
        if decision is not None:
            decisions.append({"at": offset} | form_of(decision))
    return decisions
