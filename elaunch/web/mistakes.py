"""What goes wrong in the page's server by our own fault: told with its traceback, while strangers' mistakes are not."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import structlog
from aiohttp.http_exceptions import HttpProcessingError

_THEIRS = (HttpProcessingError, ConnectionError, asyncio.TimeoutError)


class Mistakes(logging.Handler):
    """Of what aiohttp logs, only the errors of our own code."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, _THEIRS):
            structlog.get_logger().error("web_error", exc_info=error)


def tell(task: asyncio.Task[Any]) -> None:
    """For ``add_done_callback``: what ended a task that nobody waits for."""
    if not task.cancelled() and (error := task.exception()) is not None:
        structlog.get_logger().error("web_error", exc_info=error)


def server_log() -> logging.Logger:
    """The log that aiohttp gets."""
    log = logging.getLogger("elaunch.web")
    log.propagate = False
    if not any(isinstance(handler, Mistakes) for handler in log.handlers):
        log.addHandler(Mistakes())
    return log
