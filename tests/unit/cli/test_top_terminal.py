"""A terminal that does not block, and one that is gone."""

from __future__ import annotations

import os
import pty
import sys
import threading

import pytest

from elaunch.cli import top_terminal
from elaunch.cli.top_terminal import Terminal


class Screen:
    """Standard output and input as a terminal's."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return True


def test_a_terminal_that_is_full_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = pty.openpty()
    screen = Screen(near)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stdin", screen)
    monkeypatch.setattr(top_terminal, "_TAKE_WITHIN", 60.0)
    with Terminal() as terminal:
        os.set_blocking(near, False)
        found = bytearray()

        def read() -> None:
            while b"last line" not in found:
                found.extend(os.read(far, 4096))

        reading = threading.Timer(0.2, read)
        reading.start()
        terminal.draw(["x" * 100] * 2000 + ["last line"])
        reading.join(60)
        assert b"last line" in found
    os.close(far)
    os.close(near)


def test_a_terminal_that_is_gone_is_left_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    far, near = pty.openpty()
    screen = Screen(near)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stdin", screen)
    with Terminal():
        os.close(far)
    os.close(near)
