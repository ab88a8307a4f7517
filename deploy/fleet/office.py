"""The HTTP service of the fleet, on loopback: orders and customers to look up, messages to send, an endpoint
that fails at first.

Agents call it ``http://office.test``; the port it really has differs from fleet to fleet, and a recording
whose arguments differ each time could not be compared with the next one.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

#: The name under which agents know the service; ``.test`` is reserved and resolves nowhere.
OFFICE_URL = "http://office.test"

#: How often the endpoint ``/export/…`` is busy before it answers, for each path.
BUSY_ANSWERS = 2

PAGES = 12
_ORDERS_PER_PAGE = 5
_PRODUCTS = ("lamp", "desk", "chair", "shelf", "rug", "clock", "mirror", "vase")
_TOWNS = ("Brno", "Cork", "Gent", "Kiel", "Lyon", "Oulu", "Pisa", "Riga", "Turku", "Vigo")


def order_page(page: int) -> dict[str, Any]:
    """Return a page of orders, the same each time."""
    draw = random.Random(page)  # noqa: S311 - variety, not secrecy
    orders = [
        {
            "order": page * 100 + number,
            "customer": f"C{draw.randrange(1, 61):03}",
            "product": draw.choice(_PRODUCTS),
            "pieces": draw.randrange(1, 9),
            "cents": draw.randrange(900, 48_000),
        }
        for number in range(_ORDERS_PER_PAGE)
    ]
    return {"page": page, "pages": PAGES, "orders": orders}


def customer(customer_id: str) -> dict[str, Any] | None:
    """Return a customer; None where there is none of that id (C001 to C060 exist, bar every tenth)."""
    number = int(customer_id[1:]) if customer_id[:1] == "C" and customer_id[1:].isdigit() else 0
    if not 1 <= number <= 60 or number % 10 == 0:
        return None
    return {"customer": customer_id, "town": _TOWNS[number % len(_TOWNS)], "since": 2010 + number % 15}


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        match parts.path.strip("/").split("/"):
            case ["orders"]:
                page = int(parse_qs(parts.query).get("page", ["1"])[0])
                self._answer(200, order_page(page))
            case ["customers", customer_id]:
                found = customer(customer_id)
                self._answer(200, found) if found else self._answer(404, {"error": f"no customer {customer_id}"})
            case ["export", *_] if self.server.count(self.path) <= BUSY_ANSWERS:
                self._answer(503, {"error": "export is being prepared"})
            case ["export", name, *_]:
                self._answer(200, {"export": name, "rows": 40 + len(name), "state": "ready"})
            case _:
                self._answer(404, {"error": f"no such page: {parts.path}"})

    def do_POST(self) -> None:
        body = msgspec.json.decode(self.rfile.read(int(self.headers["Content-Length"])))
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        receipt = {"messageId": f"msg-{uuid.uuid4().hex[:12]}", "timestamp": stamp}
        self._answer(200, {"accepted": True, "channel": body["channel"], "to": body["to"], **receipt})

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        body = msgspec.json.encode(value)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing; progress belongs to the fleet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()

    def count(self, path: str) -> int:
        """Return how often this path was asked for, this time included."""
        with self._lock:
            self._seen[path] += 1
            return self._seen[path]


class Office:
    """The running service; a context manager."""

    def __init__(self) -> None:
        self._server = _Server()
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
