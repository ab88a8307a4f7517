"""Signatures: fingerprints of a tool call's name and arguments, with a memory of those made lately.

A result usually repeats the arguments of its call, and a loop repeats them all the time, so about half of all
arguments need no parsing. What is remembered is bounded in number and in size, and never leaves the process.
"""

from __future__ import annotations

from msgspec import UNSET, Raw, UnsetType

from loopwarden.streams.fingerprint import canonical, digest, parse
from loopwarden.streams.tools import kind_by_name, kind_of_call

#: How many signatures are remembered, and the longest arguments, in bytes, that are.
REMEMBERED_MAX = 8192
REMEMBERED_BYTES_MAX = 2048

_NULL = b"null"
# Before the tool's name, so that a hash made at the edge never equals one made here.
_BY_VALUE, _BY_HASH = b"v", b"h"


class _OfTool:
    """What is remembered of one tool: the first part of what is digested for it, and its arguments' signatures."""

    __slots__ = ("prefix", "remembered")

    def __init__(self, tool_name: str) -> None:
        self.prefix = b"%b%b\0" % (_BY_VALUE, tool_name.encode())
        self.remembered: dict[bytes, tuple[bytes, int]] = {}


class Signatures:
    """Makes signatures; one per engine."""

    __slots__ = ("_count", "_tools")

    def __init__(self) -> None:
        self._tools: dict[str, _OfTool] = {}
        self._count = 0

    def of_args(self, tool_name: str, args: Raw | UnsetType) -> tuple[bytes, int]:
        """Return signature and kind of a call by its arguments (absent ones equal null).

        Raises Unusable where the arguments cannot be fingerprinted.
        """
        raw = _NULL if args is UNSET else bytes(args)
        tool = self._tools.get(tool_name)
        if tool is None:
            tool = _OfTool(tool_name)
        else:
            known = tool.remembered.get(raw)
            if known is not None:
                return known
        value = parse(raw)
        made = (digest(tool.prefix + canonical(value)), kind_of_call(tool_name, value))
        if len(raw) <= REMEMBERED_BYTES_MAX:
            self._remember(tool_name, tool, raw, made)
        return made

    def _remember(self, tool_name: str, tool: _OfTool, raw: bytes, made: tuple[bytes, int]) -> None:
        if self._count >= REMEMBERED_MAX:
            self._tools.clear()
            tool.remembered.clear()
            self._count = 0
        self._count += 1
        tool.remembered[raw] = made
        self._tools[tool_name] = tool

    def of_hash(self, tool_name: str, args_hash: str) -> tuple[bytes, int]:
        """Return signature and kind of a call whose arguments the producer hashed."""
        text = b"%b%b\0%b" % (_BY_HASH, tool_name.encode(), args_hash.encode())
        return digest(text), kind_by_name(tool_name)
