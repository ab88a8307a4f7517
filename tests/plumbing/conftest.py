"""Fixtures: topics of a test's own, on each broker in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Topics

#: Joining a group of the embedded broker takes half a session to two; Kafka allows none below six seconds.
_SESSION_S = {"embedded": 2.0, "kafka": 6.0}


@pytest.fixture
def topics(bootstrap: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Topics]:
    """Topics of a test's own; its workers are ended with it."""
    topics = Topics(bootstrap, tmp_path, _SESSION_S[request.node.callspec.params["bootstrap"]])
    yield topics
    topics.stop()
