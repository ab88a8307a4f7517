"""Fingerprints: stable digests by which calls and results are compared, and nothing else is kept of them.

Equality is all that matters. A value is brought to one canonical form (keys sorted, numbers by value, text
exact), so that the same value sent by two producers gives the same fingerprint.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from loopwarden.schemas.dead_letters import Reason

#: Length of a fingerprint in bytes: within one run's history a chance collision is about one in 10^17.
FINGERPRINT_BYTES = 8

#: Deepest nesting of arrays and objects that is taken; far below what Python's stack allows in any caller, so
#: that the same event is taken or refused wherever the core runs.
DEPTH_MAX = 200

_BLAKE_BLOCK_BYTES = 128


class Unusable(Exception):
    """A value that cannot be fingerprinted; ``reason`` is a dead letter reason."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def _number(text: str) -> int | float:
    """Return the value of a JSON number with a fraction or an exponent; whole ones as int, so that 1.0 is 1."""
    value = float(text)
    if value.is_integer() and -(2**63) <= value < 2**64:
        return int(value)
    if value in (float("inf"), float("-inf")):
        raise Unusable("number_out_of_range", "a number is beyond the range of a 64-bit float")
    return value


_decode = msgspec.json.Decoder(float_hook=_number).decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.msgpack.Encoder(order="sorted").encode

_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


def parse(text: bytes) -> Any:
    """Return the value of JSON, numbers normalised.

    Raises Unusable where it is nested deeper than DEPTH_MAX, holds a number beyond a 64-bit float or a lone surrogate,
    or is not JSON.
    """
    # Each level takes two bytes, so short texts need no look at their brackets.
    if len(text) > 2 * DEPTH_MAX and text.count(b"[") + text.count(b"{") > DEPTH_MAX:
        _refuse_deep(text)
    try:
        return _decode(text)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.DecodeError as error:
        raise _not_decodable(text, error) from None


def parse_text(text: bytes) -> bytes:
    """Return what a JSON string stands for, as UTF-8; raises Unusable where it holds a lone surrogate."""
    if b"\\" not in text:
        return text[1:-1]
    try:
        return _decode_text(text).encode()
    except msgspec.DecodeError as error:
        raise _not_decodable(text, error) from None


def _not_decodable(text: bytes, error: Exception) -> Unusable:
    # msgspec reads a lone surrogate as a truncated escape; in JSON that is well formed, only an escape can be meant.
    return Unusable("lone_surrogate" if b"\\u" in text else "not_json", str(error))


def _too_deep() -> Unusable:
    return Unusable("too_deep", f"nested deeper than {DEPTH_MAX} levels")


def _refuse_deep(text: bytes) -> None:
    """Raise Unusable where brackets outside of strings nest deeper than DEPTH_MAX."""
    depth = 0
    for bracket in _BRACKETS.findall(_TEXTS.sub(b"", text)):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEPTH_MAX:
            raise _too_deep()


def canonical(value: Any) -> bytes:
    """Return the canonical form of a value from ``parse``; raises Unusable for an integer beyond 64 bits.

    MessagePack with sorted keys: shorter than JSON and as exact, and it has no integers beyond 64 bits.
    """
    try:
        return _encode(value)
    except OverflowError:
        raise Unusable("number_out_of_range", "an integer is beyond 64 bits") from None


def digest(text: bytes) -> bytes:
    """Return the fingerprint of a text.

    BLAKE2 makes it hard to get back from a published fingerprint to what was fingerprinted. Long texts are
    condensed to 128 bits first, several times faster, since only chance collisions matter.
    """
    if len(text) > _BLAKE_BLOCK_BYTES:
        text = xxh3_128_digest(text)
    return blake2b(text, digest_size=FINGERPRINT_BYTES).digest()


def short_id(text: str) -> int:
    """Return 64 bits that stand for an id of a call or an event; such ids are not secret."""
    return xxh3_64_intdigest(text.encode())
