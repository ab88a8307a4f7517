"""The tools that speak HTTP: ``fetch`` for pages, ``message`` for sending something to a person."""

from __future__ import annotations

from http.client import HTTPConnection
from typing import Any, Literal

import msgspec

from loopwarden.deploy.fleet.office import OFFICE_URL
from loopwarden.deploy.fleet.toolbox import JsonObject, Tool, ToolArgs, ToolError, text_result

_TIMEOUT_S = 20.0


class FetchArgs(ToolArgs, frozen=True):
    """A page of the office service."""

    url: str


class MessageArgs(ToolArgs, frozen=True):
    """A text for one person on a channel."""

    action: Literal["send"]
    channel: str
    to: str
    text: str


def network_tools(port: int) -> dict[str, Tool[Any]]:
    """Return the network tools by name, for an office service on this port of loopback."""

    def request(method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def fetch(args: FetchArgs) -> JsonObject:
        if not args.url.startswith(f"{OFFICE_URL}/"):
            raise ToolError(f"ENOTFOUND: cannot resolve the host of {args.url}")
        status, text = request("GET", args.url.removeprefix(OFFICE_URL))
        return text_result(text, url=args.url, status=status, bytes=len(text.encode()))

    def message(args: MessageArgs) -> JsonObject:
        body = {"channel": args.channel, "to": args.to, "text": args.text}
        status, text = request("POST", "/messages", msgspec.json.encode(body))
        receipt = msgspec.json.decode(text)
        if status != 200:
            raise ToolError(f"message: the service answered {status}")
        return text_result(f"Sent to {args.to} as {receipt['messageId']} at {receipt['timestamp']}.", **receipt)

    return {"fetch": Tool(FetchArgs, fetch), "message": Tool(MessageArgs, message)}
