"""Dead letters: input that could not be used, and the names of what was wrong with it.

The record's value and key are kept byte for byte; why and where from stands in the headers, as UTF-8 text.
"""

from __future__ import annotations

from typing import Literal

Reason = Literal[
    "tombstone",
    "empty",
    "too_large",
    "invalid_utf8",
    "not_json",
    "not_an_object",
    "too_deep",
    "number_out_of_range",
    "lone_surrogate",
    "wrong_type",
    "no_session",
]

HEADER_REASON = "reason"
HEADER_DETAIL = "detail"
HEADER_SOURCE_TOPIC = "source_topic"
HEADER_SOURCE_PARTITION = "source_partition"
HEADER_SOURCE_OFFSET = "source_offset"
