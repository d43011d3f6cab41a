"""Logging of the whole process: structlog's and the standard library's loggers, one stream."""

from __future__ import annotations

import logging
import sys

import structlog


def configure_logging(level: str, *, json_logs: bool) -> None:
    """Log to stderr from `level` on, as text or one JSON object per line."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(
            fmt="iso" if json_logs else "%H:%M:%S", utc=json_logs, key="time"
        ),
        structlog.stdlib.ExtraAdder(),
    ]
    renderer: list[structlog.typing.Processor]
    if json_logs:
        renderer = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
    else:
        renderer = [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                timestamp_key="time",
                pad_event_to=24,
                sort_keys=False,
                # others show local variables: keys and prompts, and seconds of work
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for chatty in ("asyncio", "httpx", "httpcore", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
