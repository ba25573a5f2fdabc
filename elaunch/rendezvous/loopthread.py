"""An event loop in a thread of its own, for a caller that is not asynchronous."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """The thread is a daemon: it never keeps its process alive."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The result of ``work``, which is cancelled where the caller is interrupted or ``timeout`` seconds pass.

        Raises TimeoutError.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(f"nothing came of it within {timeout} s") from None
        finally:
            future.cancel()

    def stop(self, timeout: float = 5.0) -> None:
        """End the loop and its thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout)
