"""Logs: one JSON object a line for machines, or lines for people on a terminal.

What Faust and the Kafka client log goes the same way. Arguments, results and error texts of tools never appear.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal

import structlog

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
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Their info lines tell of every partition and every fetch; a worker's own say what matters.
    for chatty in ("aiokafka", "faust", "mode", "aiohttp.access", "asyncio"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def get_logger(name: str) -> Any:
    """Return a logger whose lines carry fields."""
    return structlog.stdlib.get_logger(name)
