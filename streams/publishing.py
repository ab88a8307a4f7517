"""Which decisions are published: enough to see a loop grow, not so many that it floods the topic."""

from __future__ import annotations

from loopwarden.streams.decisions import Decision
from loopwarden.streams.fingerprint import digest
from loopwarden.streams.run import PUBLISHED_MAX, Run

#: A loop is published again each time its count has grown by this many.
BUCKET_CALLS = 10


def subject_key(decision: Decision) -> bytes:
    """Return what a decision is published under: detector, level, and which calls (and result) it is about."""
    return digest(f"{decision.detector}\0{decision.level}\0".encode() + decision.subject)


def enters_new_bucket(run: Run, key: bytes, count: int, offset: int) -> bool:
    """Return whether a decision is to be published, and remember that it is.

    The first decision about a subject is, and then the first in each higher bucket of ten.
    """
    bucket = count // BUCKET_CALLS
    last = run.published.get(key)
    if last is not None and bucket <= last[0]:
        return False
    run.published.pop(key, None)  # so that it counts as the newest
    run.published[key] = (bucket, offset)
    if len(run.published) > PUBLISHED_MAX:
        del run.published[next(iter(run.published))]
    return True
