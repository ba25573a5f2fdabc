"""A terminal of the tests' own: a real pty, what is on it, and what a program leaves behind."""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

_OVER = "<all has been read>"
_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"\x1b\[\?2026h\x1b\[H(.*?)\x1b\[J\x1b\[\?2026l", re.DOTALL)


class Pty:
    """A program on a terminal of ``columns`` and ``lines``, as its foreground process group."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], columns: int = 100, lines: int = 30) -> None:
        self._master, self._slave = os.openpty()
        self._text = ""
        self.resize(columns, lines)
        self.before = termios.tcgetattr(self._slave)
        self.process = subprocess.Popen(
            argv, env={**env, "TERM": "xterm-256color"}, stdin=self._slave, stdout=self._slave, stderr=self._slave,
            start_new_session=True, preexec_fn=self._take,
        )  # fmt: skip
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _take(self) -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def __enter__(self) -> Pty:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait(20)
        self._over.set()
        self._reader.join(10)
        os.close(self._master)
        os.close(self._slave)

    def _read(self) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode  # a read may end within a character
        while not self._over.is_set():
            if select.select([self._master], [], [], 0.1)[0]:
                self._text += decode(os.read(self._master, 65536))

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    @property
    def raw(self) -> str:
        return self._text

    @property
    def frames(self) -> list[list[str]]:
        """What was drawn, screen by screen, without colours."""
        found = []
        for body in _FRAME.findall(self._text):
            lines = _STYLE.sub("", body).replace("\x1b[K", "").split("\r\n")
            found.append([line.rstrip() for line in lines])
        return found

    def shows(self, what: str, seconds: float = 120.0) -> list[str]:
        """The first screen, of those from now on and the present one, with ``what`` on it."""
        return self.until(lambda lines: what in "\n".join(lines), what, seconds)

    def until(self, holds: Callable[[list[str]], bool], what: str, seconds: float = 120.0) -> list[str]:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if (frames := self.frames) and holds(frames[-1]):
                return frames[-1]
            time.sleep(0.02)
        shown = "\n".join(self.frames[-1]) if self.frames else self._text
        raise AssertionError(f"waited {seconds:.0f} s for {what!r}; on the screen is:\n{shown}")

    def wait(self, seconds: float = 60.0) -> int:
        """The exit code, once all has been read that it has written."""
        code = self.process.wait(seconds)
        os.write(self._slave, _OVER.encode())  # which comes behind it
        deadline = time.monotonic() + seconds
        while not self._text.endswith(_OVER):
            assert time.monotonic() < deadline, self._text[-2000:]
            time.sleep(0.01)
        self._text = self._text.removesuffix(_OVER)
        return code

    def restored(self) -> bool:
        """Whether the terminal is as it was: modes, screen, cursor, wrapping."""
        same = termios.tcgetattr(self._slave) == self.before
        return (
            same
            and self._text.count("\x1b[?1049h") == self._text.count("\x1b[?1049l")
            and all(
                self._text.rfind(back) > self._text.rfind(there)
                for there, back in (
                    ("\x1b[?1049h", "\x1b[?1049l"),
                    ("\x1b[?25l", "\x1b[?25h"),
                    ("\x1b[?7l", "\x1b[?7h"),
                )
            )
        )

    def signal(self, signum: signal.Signals) -> None:
        self.process.send_signal(signum)
