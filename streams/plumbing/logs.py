"""Logs: one JSON object a line for machines, or lines for people on a terminal.

What Faust and the Kafka client log goes the same way. Arguments, results and error texts of tools never appear.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog

#: Loggers that say the same again and again while there is no broker.
_REPETITIVE = frozenset({"aiokafka", "faust", "mode"})
_REPEAT_AFTER_S = 60.0
_TEMPLATES_MAX = 1_000
_TEMPLATE_CHARACTERS_MAX = 60

LogFormat = Literal["auto", "json", "text"]


def configure_logs(log_format: LogFormat = "auto", level: str = "info") -> None:
    """Set up logging for this process; ``auto`` is text on a terminal and JSON elsewhere."""
    as_text = log_format == "text" or (log_format == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()) if as_text else structlog.processors.JSONRenderer()
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    handler.addFilter(NowAndThen())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Their info lines tell of every partition and every fetch; a worker's own say what matters.
    for chatty in ("aiokafka", "faust", "mode", "aiohttp.access", "asyncio"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


class NowAndThen(logging.Filter):
    """Lets the same line of a library through once a minute: without a broker, clients write the same many a second."""

    def __init__(self) -> None:
        super().__init__()
        self._passed_at_s: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is to be written; lines are the same where they differ in their values only."""
        if record.name.split(".")[0] not in _REPETITIVE:
            return True
        line = (record.name, str(record.msg)[:_TEMPLATE_CHARACTERS_MAX])
        passed_at_s = self._passed_at_s.get(line)
        if passed_at_s is not None and record.created - passed_at_s < _REPEAT_AFTER_S:
            return False
        if len(self._passed_at_s) >= _TEMPLATES_MAX:
            self._passed_at_s.clear()
        self._passed_at_s[line] = record.created
        return True


def get_logger(name: str) -> Any:
    """Return a logger whose lines carry fields."""
    return structlog.stdlib.get_logger(name)
