"""What a host prints and how it ended, when whoever reads it here takes his time."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from elaunch.agent import far_host
from elaunch.agent.far_host import FarHost
from elaunch.agent.far_lines import Printer
from elaunch.hosts.ending import Ended
from elaunch.hosts.host_file import Host
from elaunch.hosts.words import Hello, Order, end_line, hello_line

LINES = 1000
FAR_END = """
import sys
hello, end = (bytes.fromhex(word) for word in sys.argv[1:3])
out = sys.stdout.buffer
out.write(hello); out.flush()
sys.stdin.buffer.readline()
out.writelines(b"%064d\\n" % number for number in range(int(sys.argv[3])))
out.write(end)
"""
ORDER = Order((), {}, "/", 60.0, 1.0)


class StuckConsole:
    """Takes nothing until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.text = ""

    def write(self, text: str) -> None:
        self.open.wait(30)
        self.text += text

    def flush(self) -> None:
        """It has no buffer."""

    def isatty(self) -> bool:
        return False


@pytest.mark.parametrize("lines", [1, LINES])
def test_a_console_that_does_not_read_for_long_loses_neither_lines_nor_the_exit_code(
    lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(far_host, "_LAST_WORDS", 0.1)
    console = StuckConsole()

    async def run() -> Ended:
        words = [hello_line("word", Hello("far", "1", "", "", ())).hex(), end_line("word", 7).hex(), str(lines)]
        host = FarHost(Host("far", label="far"), [sys.executable, "-c", FAR_END, *words], "word", tmp_path / "log")
        await host.open(15)
        following = asyncio.ensure_future(host.follow(ORDER, "far | ", Printer(console), Printer(StuckConsole())))
        done, _ = await asyncio.wait([following], timeout=1.0)
        assert not done
        console.open.set()
        return await following

    assert asyncio.run(run()) == Ended("far", 7)
    assert console.text.splitlines() == [f"far | {number:064d}" for number in range(lines)]
