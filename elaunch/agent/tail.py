"""Show files as they grow, line by line: ranks write to files and never wait for a console."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from elaunch.agent.console import Writable
from elaunch.agent.options import Streams
from elaunch.agent.streams import RankStreams

_LOOK_SECONDS = 0.05
_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 20
_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Sink:
    """Where lines go, and which: those that hold one of ``filters``, all where there are none."""

    file: Writable
    filters: tuple[str, ...] = ()

    def take(self, prefix: str, lines: Iterable[str]) -> None:
        chosen = [line for line in lines if not self.filters or any(f in line for f in self.filters)]
        if chosen:
            with contextlib.suppress(OSError):  # a full disk ends no training
                self.file.write("".join(f"{prefix}{line}\n" for line in chosen))
                self.file.flush()


class _Tail:
    """One growing file."""

    def __init__(self, path: Path, prefix: str, sinks: Sequence[Sink]) -> None:
        self._path = path
        self._prefix = prefix
        self._sinks = sinks
        self._file: BinaryIO | None = None
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""

    def read(self) -> bool:
        """Pass on what was added since, as whole lines. False if there was nothing."""
        if self._file is None:
            try:
                self._file = open(self._path, "rb")  # noqa: SIM115 - closed in finish
            except OSError:
                return False
        try:
            data = self._file.read(_CHUNK)
        except OSError:
            return False  # its file system is in trouble: the others' output is still to be shown
        if data:
            self._pass_on(self._rest + self._decode(data))
        return bool(data)

    def finish(self) -> None:
        """Pass on all that is left, the last line without an end included."""
        while self.read():
            pass
        last = (self._rest + self._decode(b"", True)).rstrip("\r")
        if last:
            self._emit([last])
        if self._file is not None:
            self._file.close()

    def _pass_on(self, text: str) -> None:
        # As Python's text files read: a progress bar's lone carriage return ends a line too. The last one waits for
        # what follows it.
        held = "\r" if text.endswith("\r") else ""
        whole = text[: len(text) - len(held)].replace("\r\n", "\n").replace("\r", "\n")
        *lines, rest = whole.split("\n")
        self._rest = rest + held
        if len(self._rest) > _LONGEST_LINE:
            lines.append(self._rest)
            self._rest = ""
        self._emit(lines)

    def _emit(self, lines: Sequence[str]) -> None:
        for sink in self._sinks:
            sink.take(self._prefix, lines)


class Tailer:
    """Tails the ranks of one generation in a thread: a console that blocks does not block the agent."""

    def __init__(
        self,
        streams: Mapping[int, RankStreams],
        prefixes: Mapping[int, str],
        out: Sequence[Sink],
        err: Sequence[Sink],
    ) -> None:
        self._tails = [
            _Tail(path, prefixes[local_rank], sinks)
            for local_rank, s in streams.items()
            for std, path, sinks in ((Streams.OUT, s.stdout, out), (Streams.ERR, s.stderr, err))
            if s.tail & std and path is not None
        ]
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tail", daemon=True)

    def start(self) -> None:
        """Start tailing; nothing is started where there is nothing to tail."""
        if self._tails:
            self._thread.start()

    async def stop(self) -> bool:
        """When the ranks are gone: show all that they wrote. False if the console did not take it in 10 s."""
        self._ended.set()
        if not self._thread.ident:
            return True
        await asyncio.to_thread(self._thread.join, _END_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            for tail in self._tails:
                tail.read()
        for tail in self._tails:
            tail.finish()
