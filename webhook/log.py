"""Logging: one JSON object per line on stdout, from us and from gunicorn alike."""

import json
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any

import structlog

# Made once: json.dumps with arguments makes a new encoder for each line.
_encode = json.JSONEncoder(separators=(",", ":"), default=str, check_circular=False).encode


def _line(_logger: Any, level: str, fields: MutableMapping[str, Any]) -> str:
    """Return the line, which begins with when, how bad and what, in this order."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return _encode({"timestamp": now, "level": level, "event": fields.pop("event"), **fields})


def configure(level: str) -> None:
    """Set up structlog for this process. `level` is `debug`, `info`, `warning` or `error`."""
    structlog.configure(
        processors=[_line],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )


def for_gunicorn(level: str) -> dict[str, Any]:
    """Return a `logconfig_dict` that writes gunicorn's own lines like ours."""
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "foreign_pre_chain": [structlog.processors.format_exc_info],
        "processor": _line,
    }
    stdout = {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stdout"}
    gunicorn = {"level": level.upper(), "handlers": ["stdout"], "propagate": False}
    return {
        "formatters": {"json": formatter},
        "handlers": {"stdout": stdout},
        "root": {"level": "WARNING", "handlers": ["stdout"]},
        "loggers": {"gunicorn.error": gunicorn},
    }
