"""What a field means, said beside its type, so that the generated schemas can say it too."""

from __future__ import annotations

import msgspec


def about(text: str) -> msgspec.Meta:
    """Return the description of a field; decoding costs the same with and without."""
    return msgspec.Meta(description=text)
