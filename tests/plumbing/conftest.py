"""Fixtures: topics of a test's own, on Apache Kafka.

The embedded broker is left to the tests of the worker itself: it is slow to let go of members, and minutes add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Topics

#: Joining a group of the embedded broker takes half a session to two; Kafka allows none below six seconds.
_SESSION_S = {"embedded": 2.0, "kafka": 6.0}


@pytest.fixture(scope="session", params=["kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of the broker; ``embedded`` works as well."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture
def topics(bootstrap: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Topics]:
    """Topics of a test's own; its workers are ended with it."""
    topics = Topics(bootstrap, tmp_path, _SESSION_S[request.node.callspec.params["bootstrap"]])
    yield topics
    topics.stop()
