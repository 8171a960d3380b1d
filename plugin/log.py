"""Logging: one JSON object per line on stdout, from us and from the libraries alike."""

import logging
import sys

import structlog


def configure(level: str) -> None:
    """Set up logging for this process. `level` is `debug`, `info`, `warning` or `error`."""
    shared = (
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    )
    render = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(render, foreign_pre_chain=shared))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
