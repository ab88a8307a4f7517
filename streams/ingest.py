"""From a record's bytes to an event, or to the reason why it cannot be used.

The way of a good record is one call of a decoder. Only what that refuses is looked at again, to say what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from loopwarden.schemas.dead_letters import Reason
from loopwarden.schemas.events import EVENT_TYPES, Event

#: Largest event that is taken, in bytes, unless configured otherwise.
EVENT_BYTES_MAX = 512 * 1024

Headers = Iterable[tuple[str, bytes]]

#: CloudEvents attributes, as header names of the Kafka binding, and the field each can supply.
_CLOUD_EVENT_FIELDS = {
    "ce_id": "event_id",
    "ce_source": "runner_id",
    "ce_subject": "run_id",
    "ce_time": "time",
}


class Record(Protocol):
    """What is needed of a Kafka record; ``timestamp`` is in milliseconds since the epoch."""

    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...


class Refusal(NamedTuple):
    """Why a record cannot be used; ``reason`` is None for an unknown type of event, which is no fault of anybody's."""

    reason: Reason | None
    detail: str


# How msgspec words it when a number breaks a bound of the schema.
_OUT_OF_RANGE = ("Expected `int` >=", "Expected `int` <=")

_decode = msgspec.json.Decoder(Event).decode
_decode_lines = msgspec.json.Decoder(Event).decode_lines


class _Typed(msgspec.Struct):
    type: str | None = None


_decode_type = msgspec.json.Decoder(_Typed).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read_event(value: bytes | None, headers: Headers = (), bytes_max: int = EVENT_BYTES_MAX) -> Event | Refusal:
    """Return the event in a record, fields that it lacks taken from CloudEvents headers, or why there is none."""
    if not value:
        return Refusal("tombstone", "the record has no value") if value is None else Refusal("empty", "no bytes")
    if len(value) > bytes_max:
        return Refusal("too_large", f"{len(value)} bytes, where {bytes_max} are taken")
    try:
        if not value.isascii():
            value.decode()  # the decoder skips what it does not read; text there must be valid all the same
        event: Event = _decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        known = _with_type_from_headers(value, headers)
        if known is None:
            return _diagnose(value, error)
        return read_event(known, headers, bytes_max)
    if headers:
        _fill_from_headers(event, headers)
    if not event.session_id:
        return Refusal("no_session", "session_id is missing or empty")
    return event


def read_events(records: Sequence[Record], bytes_max: int = EVENT_BYTES_MAX) -> list[Event | Refusal]:
    """Return for each record its event, or why there is none.

    A batch whose values are single lines of JSON is decoded in one call. Anything else in it (a value over several
    lines, one that is empty or too large, one that is refused) has each record looked at by itself.
    """
    values = [record.value for record in records]
    try:
        lines = b"\n".join(values)  # type: ignore[arg-type] # a tombstone among them is a TypeError
        sizes = [len(value) for value in values if value]
        if len(sizes) != len(values) or max(sizes) > bytes_max or lines.count(b"\n") != len(values) - 1:
            raise ValueError
        if not lines.isascii():
            lines.decode()
        events: list[Event | Refusal] = list(_decode_lines(lines))
    except (TypeError, ValueError, msgspec.DecodeError, RecursionError):
        return [read_event(record.value, record.headers, bytes_max) for record in records]
    for at, record in enumerate(records):
        event = events[at]
        if record.headers or not event.session_id:  # type: ignore[union-attr]
            events[at] = read_event(record.value, record.headers, bytes_max)
    return events


def _fill_from_headers(event: Event, headers: Headers) -> None:
    for name, content in headers:
        field = _CLOUD_EVENT_FIELDS.get(name)
        if field is not None and content and getattr(event, field) is None:
            text = content.decode(errors="replace")
            setattr(event, field, text[:512])


def _with_type_from_headers(value: bytes, headers: Headers) -> bytes | None:
    """Return the value with the type that a CloudEvents header states, where the value states none."""
    stated = next((content for name, content in headers if name == "ce_type"), None)
    if stated is None:
        return None
    event_type = stated.decode(errors="replace").rpartition(".")[2]
    try:
        fields = _decode_fields(value)
    except (msgspec.DecodeError, RecursionError):
        return None
    if "type" in fields:
        return None
    fields["type"] = msgspec.Raw(msgspec.json.encode(event_type))
    return msgspec.json.encode(fields)


def _diagnose(value: bytes, error: Exception) -> Refusal:
    """Say why the decoder refused a value."""
    try:
        value.decode()
    except UnicodeDecodeError as fault:
        return Refusal("invalid_utf8", f"byte {fault.start}")
    if isinstance(error, RecursionError):
        return Refusal("too_deep", "nested too deeply")
    if not isinstance(error, msgspec.ValidationError):
        return _diagnose_text(value, error)
    if value.lstrip()[:1] != b"{":
        return Refusal("not_an_object", "an event is a JSON object")
    try:
        stated = _decode_type(value).type
    except msgspec.DecodeError:
        stated = None
    if stated is not None and stated not in EVENT_TYPES:
        return Refusal(None, "unknown type")
    reason: Reason = "number_out_of_range" if str(error).startswith(_OUT_OF_RANGE) else "wrong_type"
    return Refusal(reason, str(error))


def _diagnose_text(value: bytes, error: Exception) -> Refusal:
    """Tell text that is not JSON from JSON whose text msgspec cannot hold."""
    try:
        json.loads(value)
    except RecursionError:
        return Refusal("too_deep", "nested too deeply")
    except ValueError:
        return Refusal("not_json", str(error))
    return Refusal("lone_surrogate", "half of a surrogate pair in a text")
